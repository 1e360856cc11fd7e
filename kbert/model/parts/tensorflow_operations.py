"""The operations of Keras that the fused parts use, by TensorFlow itself: fewer to trace."""

from collections.abc import Sequence

import tensorflow as tf


def reshape(x, shape: Sequence):
    """As `keras.ops.reshape`."""
    return tf.reshape(x, shape)


def cast(x, dtype):
    """As `keras.ops.cast`."""
    return tf.cast(x, dtype)


def concatenate(tensors: Sequence, axis: int):
    """As `keras.ops.concatenate`."""
    return tf.concat(tensors, axis)


def expand_dims(x, axis: int):
    """As `keras.ops.expand_dims`."""
    return tf.expand_dims(x, axis)


def shape(x) -> tuple:
    """As `keras.ops.shape`."""
    known = tuple(x.shape)
    if None not in known:
        return known
    found = tf.unstack(tf.shape(x))
    return tuple(known[axis] or found[axis] for axis in range(len(known)))


def one_hot(ids, classes: int, dtype):
    """As `keras.ops.one_hot`."""
    return tf.one_hot(ids, classes, dtype=dtype)
