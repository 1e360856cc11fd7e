"""Value and gradient of a function of examples, for its first argument, on each backend."""

from collections.abc import Callable, Sequence

import keras

from kbert.ops.devices import require_gradients


def value_and_grad(
    function: Callable, variables: Sequence, shapes: Sequence[tuple[tuple, str]]
) -> Callable:
    """Return a compiled function of NumPy arrays: values (B,), and gradients to the first argument.

    `variables` are Keras's that the function of tensors reads at each call; `shapes` are each
    argument's shape, None where it varies, and dtype.
    """
    require_gradients("attribute")
    compile_for = {"tensorflow": _tensorflow, "jax": _jax, "torch": _torch}
    compile_function = compile_for[keras.backend.backend()]
    compiled = compile_function(function, variables, shapes)

    def call(*arrays) -> tuple:
        results = compiled(*arrays)
        return tuple(keras.ops.convert_to_numpy(result) for result in results)

    return call


def _tensorflow(function: Callable, variables: Sequence, shapes: Sequence) -> Callable:
    import tensorflow as tf

    def call(x, *inputs):
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(x)
            values = function(x, *inputs)
        return values, tape.gradient(values, x)

    signature = [tf.TensorSpec(shape, dtype) for shape, dtype in shapes]
    traced = tf.function(call, input_signature=signature, autograph=False)
    concrete = traced.get_concrete_function()

    def run(*arrays):
        tensors = [tf.constant(array) for array in arrays]
        return concrete(*tensors)

    return run


def _jax(function: Callable, variables: Sequence, shapes: Sequence) -> Callable:
    import jax

    def call(values, x, *inputs):
        mapping = list(zip(variables, values, strict=True))
        with keras.StatelessScope(state_mapping=mapping):
            result, differentiate = jax.vjp(lambda x: function(x, *inputs), x)
        (gradient,) = differentiate(jax.numpy.ones_like(result))
        return result, gradient

    compiled = jax.jit(call)  # values as arguments: else they are constants

    def run(*arrays):
        values = [variable.value for variable in variables]
        return compiled(values, *arrays)

    return run


def _torch(function: Callable, variables: Sequence, shapes: Sequence) -> Callable:
    import torch

    def run(*arrays):
        x, *inputs = (keras.ops.convert_to_tensor(array) for array in arrays)
        with torch.enable_grad():
            x.requires_grad_()
            values = function(x, *inputs)
            (gradient,) = torch.autograd.grad(values.sum(), x)
        return values, gradient

    return run
