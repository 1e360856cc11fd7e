"""The operations of Keras that the fused parts use, by TensorFlow itself: fewer to trace."""

from collections.abc import Sequence

import tensorflow as tf


def reshape(x, shape: Sequence):
    """Do what `keras.ops.reshape` does."""
    return tf.reshape(x, shape)


def cast(x, dtype):
    """Do what `keras.ops.cast` does."""
    return tf.cast(x, dtype)


def concatenate(tensors: Sequence, axis: int):
    """Do what `keras.ops.concatenate` does."""
    return tf.concat(tensors, axis)


def expand_dims(x, axis: int):
    """Do what `keras.ops.expand_dims` does."""
    return tf.expand_dims(x, axis)


def shape(x) -> tuple:
    """Do what `keras.ops.shape` does."""
    known = tuple(x.shape)
    if None not in known:
        return known
    found = tf.unstack(tf.shape(x))
    return tuple(known[axis] or found[axis] for axis in range(len(known)))


def one_hot(ids, classes: int, dtype):
    """Do what `keras.ops.one_hot` does."""
    return tf.one_hot(ids, classes, dtype=dtype)
