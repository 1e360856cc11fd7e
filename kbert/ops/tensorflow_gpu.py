"""Operations of `kbert.ops.reference` for TensorFlow on GPUs: JAX's, within TensorFlow's graph.

JAX writes an operation and its gradient as StableHLO. In TensorFlow's graph that is one operation,
`XlaCallModule`, which XLA compiles. So attention and LayerNorm are the kernels of
`kbert.ops.jax_gpu`. Dropout's mask is the reference's hash: XLA computes it within the kernel that
reads it, where TensorFlow's generator is several kernels and an array.
"""

import functools
from collections.abc import Callable

import jax
import tensorflow as tf
from jax.experimental import jax2tf

from kbert.ops import composed, jax_gpu, reference
from kbert.ops import tensorflow as tensorflow_ops
from kbert.ops.jax_gpu import kernel_calls

jax.config.update("jax_platforms", "cpu")  # it only writes programs; else it would take the GPU


def attention(query, key, value, mask=None, rate: float = 0.0, seed=None):
    """See `reference.attention`."""
    arrays = {
        "query": query,
        "key": key,
        "value": value,
        "mask": mask,
        "seed": seed,
    }
    has_kernel = query.shape[-1] in jax_gpu.SIZES
    return _call("attention", arrays, has_kernel, rate=rate)


def self_attention(x, kernels, biases, mask=None, rate: float = 0.0, seed=None, queries=None):
    """See `reference.self_attention`."""
    arrays = {
        "x": x,
        "kernels": list(kernels),
        "biases": list(biases),
        "mask": mask,
        "seed": seed,
        "queries": queries,
    }
    has_kernel = kernels[0].shape[-1] in jax_gpu.SIZES
    return _call("self_attention", arrays, has_kernel, rate=rate)


def linear(x, kernel, bias=None):
    """See `reference.linear`; where all sizes are known, the bias is added as by `jax_gpu`."""
    if bias is None or not x.shape.is_fully_defined():
        return tensorflow_ops.linear(x, kernel, bias)
    y = tensorflow_ops.linear(x, kernel)
    wide = tf.cast(y, tf.float32) + tf.cast(bias, tf.float32)
    return tf.cast(wide, y.dtype)


bias_activation = reference.bias_activation  # the bias in float32 too


def layer_norm(x, gamma, beta, epsilon: float):
    """See `reference.layer_norm`."""
    arrays = {"x": x, "gamma": gamma, "beta": beta}
    return _call("layer_norm", arrays, epsilon=epsilon)


def embedding_lookup(table, ids):
    """See `reference.embedding_lookup`; of a few rows as on a CPU."""
    if table.shape[0] <= 16:
        return tensorflow_ops.embedding_lookup(table, ids)
    return _call("embedding_lookup", {"table": table, "ids": ids})


def embedding_lookup_and_table(table, ids, dtype: str):
    """See `reference.embedding_lookup_and_table`."""
    arrays = {"table": table, "ids": ids}
    return _call("embedding_lookup_and_table", arrays, dtype=dtype)


def gather_positions(x, positions):
    """See `reference.gather_positions`."""
    return _call("gather_positions", {"x": x, "positions": positions})


def _call(name: str, arrays: dict, has_kernel: bool = True, **options):
    """Call an operation of `kbert.ops.jax_gpu`; without a kernel or a size, TensorFlow's own."""
    tensors, tree = jax.tree.flatten(arrays)
    tensors = [tf.convert_to_tensor(tensor) for tensor in tensors]
    if has_kernel and all(tensor.shape.is_fully_defined() for tensor in tensors):
        return convert(name, tree, **options)(*tensors)

    module = tensorflow_ops if hasattr(tensorflow_ops, name) else composed
    arrays = jax.tree.unflatten(tree, tensors)
    operation = getattr(module, name)
    return operation(**arrays, **options)


@functools.cache
def convert(name: str, tree, **options) -> Callable:
    """Return an operation on tensors, with its gradient, traced once per shape and dtype.

    `tree` is the structure of the operation's arrays.
    """

    @jax.named_scope(name)  # by which a compiled program's kernels are counted
    def operate(*arrays):
        arguments = jax.tree.unflatten(tree, arrays)
        operation = getattr(jax_gpu, name)
        return operation(**arguments, **options)

    @tf.custom_gradient
    def call(*tensors):
        # JAX's pullback is a tree: its leaves are the arrays that the gradient needs.
        pullback_trees = []

        def compute(*arrays):
            y, pullback = jax.vjp(operate, *arrays)
            residuals, pullback_tree = jax.tree.flatten(pullback)
            pullback_trees.append(pullback_tree)
            return y, residuals

        def differentiate(residuals, *result_gradients):
            pullback = jax.tree.unflatten(pullback_trees[0], residuals)
            has_one_result = len(result_gradients) == 1  # JAX takes its gradient as it is
            gradients = pullback(result_gradients[0] if has_one_result else result_gradients)
            # float0 is JAX's gradient of integers, for which `grad` returns None
            return [gradient for gradient in gradients if gradient.dtype != jax.dtypes.float0]

        # Tracing `compute` fills `pullback_trees`, which `grad` reads later.
        y, residuals = _export(compute)(*tensors)

        def grad(*result_gradients):
            computed = _export(differentiate)(residuals, *result_gradients)
            remaining = iter(computed)
            gradients = []
            for tensor in tensors:
                is_floating = tensor.dtype.is_floating
                gradients.append(next(remaining) if is_floating else None)
            return gradients

        return y, grad

    return tf.function(call, autograph=False)


def _export(function: Callable) -> Callable:
    """Return a function of TensorFlow's tensors that computes one of JAX's arrays on a GPU."""
    checks = jax2tf.DisabledSafetyCheck
    return jax2tf.convert(
        function,
        with_gradient=False,
        native_serialization_platforms=["cpu" if kernel_calls.INTERPRETED else "cuda"],
        native_serialization_disabled_checks=[
            checks.platform(),  # a program for a GPU is also made where there is none
            checks.custom_call("__gpu$xla.gpu.triton"),
        ],
    )


def run_kernel() -> None:
    """Run a kernel on this machine's GPU; raise an error where TensorFlow cannot."""
    with tf.init_scope():  # now, also where a graph is being traced
        heads = tf.zeros([1, 1, 16, 16])
        attention(heads, heads, heads).numpy()


def dropout(x, rate: float, seed):
    """See `reference.dropout`."""
    if not rate:
        return x
    seed = tf.cast(seed, tf.int32)
    return _drop(x, seed, rate=rate)


@tensorflow_ops.traced
def _drop(x, seed, rate: float):
    def grad(gradient):
        (again,) = tensorflow_ops.hide_from_xla([seed])  # else XLA would keep the mask
        return reference.dropout(gradient, rate, again), None

    return reference.dropout(x, rate, seed), grad
