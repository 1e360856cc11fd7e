"""Values and gradients of a function of arrays, by the backend of this process."""

import keras
import numpy as np

# bfloat16 has 8 bits: a sum that is rounded once more differs in the last of them.
TOLERANCES = {"float32": 2e-5, "float16": 6e-3, "bfloat16": 6e-2}


def values_and_gradients(function, arrays: list, positions: list[int], dtype: str = "float32"):
    """Return a function's results (a tensor or several), and gradients of a weighted sum of them.

    `positions` are those of the arguments that get a gradient; `dtype` is that of float arguments.
    """

    def total(*differentiated):
        whole = list(tensors)
        for position, one in zip(positions, differentiated, strict=True):
            whole[position] = one
        results = function(*whole)
        results = list(results) if isinstance(results, list | tuple) else [results]
        random = np.random.default_rng(5)
        parts = []
        for one in results:
            weights = to_tensor(random.standard_normal(one.shape))
            parts.append(keras.ops.sum(keras.ops.cast(one, "float32") * weights))
        return sum(parts), results

    tensors = [to_tensor(one, dtype) for one in arrays]
    given = [tensors[position] for position in positions]
    results, gradients = _DIFFERENTIATE[keras.backend.backend()](total, given)
    return [to_numpy(one) for one in results], [to_numpy(one) for one in gradients]


def compare_operations(found, expected, arrays: list, positions: list[int], dtype: str) -> None:
    """Compare results and gradients of two functions; arguments as of `values_and_gradients`."""
    pairs = (values_and_gradients(one, arrays, positions, dtype) for one in (found, expected))
    ours, theirs = (values + gradients for values, gradients in pairs)
    for one, other in zip(ours, theirs, strict=True):
        assert one.shape == other.shape and np.isfinite(one).all()
        tolerance = TOLERANCES[dtype] * max(1, np.abs(other).max())
        np.testing.assert_allclose(one, other, atol=tolerance)


def differentiate(function, array: np.ndarray) -> np.ndarray:
    """Return the gradient of a scalar function at an array."""
    tensor = keras.ops.convert_to_tensor(array)
    differentiated = _DIFFERENTIATE[keras.backend.backend()]
    _, (gradient,) = differentiated(lambda given: (function(given), []), [tensor])
    return keras.ops.convert_to_numpy(gradient)


def to_tensor(array, dtype: str = "float32"):
    if array is None:
        return None
    is_float = np.issubdtype(array.dtype, np.floating)
    return keras.ops.convert_to_tensor(array, dtype=dtype if is_float else None)


def to_numpy(tensor) -> np.ndarray:
    return keras.ops.convert_to_numpy(keras.ops.cast(tensor, "float32"))


def _tensorflow(total, given):
    import tensorflow as tf

    with tf.GradientTape() as tape:
        tape.watch(given)
        value, results = total(*given)
    return results, tape.gradient(value, given)


def _jax(total, given):
    import jax

    compiled = jax.jit(jax.value_and_grad(total, tuple(range(len(given))), has_aux=True))
    (_, results), gradients = compiled(*given)
    return results, gradients


def _torch(total, given):
    import torch

    given = [one.detach().requires_grad_() for one in given]
    value, results = total(*given)
    return [one.detach() for one in results], torch.autograd.grad(value, given)


_DIFFERENTIATE = {"tensorflow": _tensorflow, "jax": _jax, "torch": _torch}
