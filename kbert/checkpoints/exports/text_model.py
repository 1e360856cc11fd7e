"""A model in a graph of texts: rows of tokens filled up, its outputs, its labels' names."""

import keras
import tensorflow as tf


def dense(rows, filler: float):
    """Ragged rows filled up, (N, S); S is at least that of an empty text, 2."""
    found = rows.to_tensor(filler)
    more = tf.maximum(0, 2 - tf.shape(found)[1])
    return tf.pad(found, [[0, 0], [0, more]], constant_values=filler)


def outputs(view, ids) -> list:
    """Compute the outputs for token ids and segments; a model without segments takes only ids."""
    return keras.tree.flatten(view(list(ids[: len(view.inputs)]), training=False))


def label_names(bert, count: int) -> list[str]:
    """Return the checkpoint's names of so many labels, else transformers' default ones."""
    if bert.labels and len(bert.labels) == count:
        return list(bert.labels)
    return [f"LABEL_{number}" for number in range(count)]
