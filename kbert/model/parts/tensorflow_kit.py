"""What the fused parts are made of on TensorFlow, on a CPU.

TensorFlow runs one operation after the other: what stands between the products is an XLA program
each. Matrix products stay outside: oneDNN multiplies bfloat16 on a CPU's own units, XLA there does
not. The backward pass computes a part again from its inputs, so nothing but these is kept: no mask,
no float32 copy.
"""

import functools
from collections.abc import Callable

import tensorflow as tf

_function = functools.partial(tf.function, jit_compile=True, autograph=False, reduce_retracing=True)


@functools.cache
def part(formula: Callable, **settings) -> Callable:
    """A formula of `elementwise` as one XLA program, and its gradient as another."""
    of = functools.partial(formula, **settings)
    forward = _function(of)

    @_function
    def backward(arguments, gradients):
        floats = [one for one in arguments if one.dtype.is_floating]
        with tf.GradientTape() as tape:
            tape.watch(floats)
            results = of(*arguments)
        found = iter(tape.gradient(results, floats, gradients))
        return [next(found) if one.dtype.is_floating else None for one in arguments]

    @tf.custom_gradient
    def call(*arguments):
        return forward(*arguments), lambda *gradients: backward(arguments, gradients)

    return call


def matmul(x, y, transposed: bool = False):
    """x y, or x yᵀ without a transposed copy of y or its gradient."""
    return tf.matmul(x, y, transpose_b=transposed)


def vectors(table, ids):
    """(B, S, H) of table (T, H) and ids (B, S)."""
    return tf.gather(table, ids)


def vectors_and_table(table, ids, dtype: str):
    """Vectors of ids, and the table in a dtype; the vectors' gradient is added into the table's.

    As it stands, TensorFlow makes a second dense gradient of the vectors', and a third of the two.
    """

    @tf.custom_gradient
    def call(table):
        def grad(of_vectors, of_table):
            dense = tf.cast(of_table, table.dtype)
            return tf.tensor_scatter_nd_add(dense, ids[..., None], of_vectors)

        return (tf.gather(table, ids), tf.cast(table, dtype)), grad

    return call(table)
