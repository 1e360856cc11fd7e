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
    compiled = compile_for[keras.backend.backend()](function, variables, shapes)
    return lambda *arrays: tuple(map(keras.ops.convert_to_numpy, compiled(*arrays)))


def _tensorflow(function: Callable, variables: Sequence, shapes: Sequence) -> Callable:
    import tensorflow as tf

    def call(x, *others):
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(x)
            values = function(x, *others)
        return values, tape.gradient(values, x)

    signature = [tf.TensorSpec(shape, dtype) for shape, dtype in shapes]
    traced = tf.function(call, input_signature=signature, autograph=False)
    concrete = traced.get_concrete_function()
    return lambda *arrays: concrete(*map(tf.constant, arrays))


def _jax(function: Callable, variables: Sequence, shapes: Sequence) -> Callable:
    import jax

    def call(values, x, *others):
        with keras.StatelessScope(state_mapping=list(zip(variables, values, strict=True))):
            result, back = jax.vjp(lambda x: function(x, *others), x)
        return result, back(jax.numpy.ones_like(result))[0]

    compiled = jax.jit(call)  # values as arguments: else they are constants
    return lambda *arrays: compiled([variable.value for variable in variables], *arrays)


def _torch(function: Callable, variables: Sequence, shapes: Sequence) -> Callable:
    import torch

    def run(*arrays):
        x, *others = (keras.ops.convert_to_tensor(array) for array in arrays)
        with torch.enable_grad():
            x.requires_grad_()
            values = function(x, *others)
            return values, *torch.autograd.grad(values.sum(), x)

    return run
