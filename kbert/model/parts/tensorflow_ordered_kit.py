"""`tensorflow_kit` for models without frozen weights: it computes a product's gradients in turn.

The kernel's is first, so that what it alone needs of the forward pass is gone before there is
another tensor as large. Both keep all cores busy, so nothing is lost; but a kernel that is frozen
has no gradient to wait for.
"""

import tensorflow as tf

from kbert.model.parts import tensorflow_kit
from kbert.model.parts.tensorflow_kit import (
    attended,
    ops,
    part,
    recomputed,
    rows_at,
    vectors,
    vectors_and_table,
)

__all__ = [
    "attended",
    "matmul",
    "ops",
    "part",
    "recomputed",
    "rows_at",
    "vectors",
    "vectors_and_table",
]


def matmul(x, y, transposed: bool = False):
    """x y, or x yᵀ without a transposed copy of y or its gradient."""
    if len(x.shape) != 2 or len(y.shape) != 2 or (transposed and x.dtype == tf.float32):
        return tensorflow_kit.matmul(x, y, transposed)
    return _transposed_product(x, y) if transposed else _product(x, y)


@tf.custom_gradient
def _product(x, y):
    def grad(of_product):
        of_y = tf.matmul(x, of_product, transpose_a=True)
        with tf.control_dependencies([of_y]):
            return tf.matmul(of_product, y, transpose_b=True), of_y

    return tf.matmul(x, y), grad


@tf.custom_gradient
def _transposed_product(x, y):
    def grad(of_product):
        of_x = tf.matmul(of_product, y)
        # y, the token table's cast, is gone before there is a gradient as large, and that one's
        with tf.control_dependencies([of_x]):
            of_y = tf.matmul(of_product, x, transpose_a=True)
        with tf.control_dependencies([of_y]):
            return tf.identity(of_x), of_y

    return tf.matmul(x, y, transpose_b=True), grad
