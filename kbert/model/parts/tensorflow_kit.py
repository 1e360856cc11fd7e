"""Fused operations for TensorFlow on a CPU.

TensorFlow runs one operation after the other, so the operations between matrix products are one XLA
program each. Matrix products stay outside: oneDNN multiplies bfloat16 on a CPU's own units, and XLA
there does not. The backward pass recomputes an operation from what it needs of its inputs, so
little is kept: the softmax of attention, and two numbers per label of the loss; no mask, no float32
copy.
"""

import functools
from collections.abc import Callable

import keras
import tensorflow as tf

from kbert.model.parts import elementwise
from kbert.model.parts.attention import Attention
from kbert.model.parts.written_gradients import WRITTEN, keeping_nothing

ops = keras.ops
_IN_TURN = {elementwise.measured: elementwise.measured_and_kept_in_turn}
_function = functools.partial(tf.function, jit_compile=True, autograph=False, reduce_retracing=True)


@functools.cache
def part(formula: Callable, **settings) -> Callable:
    """Return a formula of `elementwise` as one XLA program, and its gradient as another."""
    written = WRITTEN.get(formula)
    forward = _IN_TURN.get(formula) or (written.forward if written else keeping_nothing(formula))
    forward = _compiled(forward, **settings)
    backward = _compiled(written.backward if written else _by_autodiff(formula), **settings)

    @tf.custom_gradient
    def call(*arguments):
        # what a gradient of TensorFlow's own would need of a loop cannot leave its program
        given = map(tf.stop_gradient, arguments) if formula in _IN_TURN else arguments
        results, made = forward(*given)
        needed = [arguments[place] for place in written.needs] if written else arguments
        return results, lambda *gradients: backward([*needed, *made], gradients)

    return call


@functools.cache
def _compiled(formula: Callable, **settings) -> Callable:
    """Compile one program per rank of the arguments, and inside it one per shape.

    A single trace for several shapes would not even know the number of axes.
    """
    of_ranks = functools.cache(lambda ranks: _function(functools.partial(formula, **settings)))

    def call(*arguments):
        given = [one for one in tf.nest.flatten(arguments) if one is not None]
        return of_ranks(tuple(len(one.shape) for one in given))(*arguments)

    return call


def _by_autodiff(formula: Callable) -> Callable:
    def backward(arguments, gradients, **settings):
        floats = [one for one in arguments if one.dtype.is_floating]
        with tf.GradientTape() as tape:
            tape.watch(floats)
            results = formula(*arguments, **settings)
        found = iter(tape.gradient(results, floats, gradients))
        return [next(found) if one.dtype.is_floating else None for one in arguments]

    return backward


@functools.cache
def attended(rate: float) -> Callable:
    """`attention.Attention` as a function with a gradient."""
    attention = Attention(rate, _compiled, lambda x, y, a, b: tf.matmul(x, y, a, b))

    @tf.custom_gradient
    def call(*arguments):
        context, kept = attention.forward(*arguments)
        return context, lambda gradient: attention.backward(_after(gradient, kept), gradient)

    return call


def _after(gradient, tensors) -> list:
    """Return the tensors once a gradient is computed, for recomputation.

    Otherwise TensorFlow would recognize the recomputation as what it has already, and keep that.
    """
    with tf.control_dependencies([gradient]):
        return [tf.identity(one) for one in tensors]


def recomputed(function: Callable) -> Callable:
    """Return the function, of tensors, its parts computed again when its gradient is asked for.

    As `tf.recompute_grad`, which adds 0 to each argument to hold the computation back: a copy.
    """

    @tf.custom_gradient
    def call(*arguments):
        def grad(of_result):
            given = _after(of_result, arguments)
            with tf.GradientTape() as tape:
                tape.watch(given)
                result = function(*given)
            return tape.gradient(result, given, of_result)

        return function(*arguments), grad

    return call


def matmul(x, y, transposed: bool = False):
    """x y, or x yᵀ without a transposed copy of y or its gradient."""
    return tf.matmul(x, y, transpose_b=transposed)


def vectors(table, ids):
    """Return (B, S, H) of table (T, H) and ids (B, S)."""
    return tf.gather(table, ids)


def rows_at(x, places):
    """Return (B, R, H) of x (B, S, H) and places (B, R)."""
    return tf.gather(x, places, batch_dims=1)


def vectors_and_table(table, ids, dtype: str):
    """Return vectors of ids, and the table in a dtype.

    The vectors' gradient is added into the table's.

    As it stands, TensorFlow makes a second dense gradient of the vectors', and a third of the two.
    """

    @tf.custom_gradient
    def call(table):
        def grad(of_vectors, of_table):
            dense = tf.cast(of_table, table.dtype)
            rows = tf.reshape(of_vectors, (-1, table.shape[-1]))
            # In place: it is nobody else's. A scatter would copy it, 94 MB of base's.
            return tf.raw_ops.InplaceAdd(x=dense, i=tf.reshape(ids, [-1]), v=rows)

        return (tf.gather(table, ids), tf.cast(table, dtype)), grad

    return call(table)
