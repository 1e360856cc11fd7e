"""Models built before their variables have values: a checkpoint's or other models'.

Keras makes variables this way itself where it builds a model within a traced function: within a
StatelessScope a variable keeps its initializer, and gets its value when all of them are asked for.
A Keras that no longer does (`keras_internals.can_defer`) draws them first: slower, equal weights.
Drawing 110 million random numbers, only to overwrite them, takes longer than reading the file.
"""

import concurrent.futures
import contextlib
import dataclasses
import functools
import os
import weakref
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kbert.graph.spec import GraphSpec
from kbert.ops.forks import check_process
from kbert.ops.keras_internals import can_defer, forget_waiting, give_first_value

# By model: by dtype the checksums of its weights and the model cast of them. None holds the model
# itself: they go with it.
_casts: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


@contextlib.contextmanager
def defer_values(forever: bool = False):
    """Models built within have no values until `fill` gives them theirs; with `forever` never."""
    import keras

    if not forever:
        check_process()
    if not can_defer():
        yield
        return
    waits = False
    try:
        with keras.StatelessScope(initialize_variables=False):
            yield
        waits = not forever
    finally:
        if not waits:
            forget_waiting()


def fill(model, values: dict[str, Callable[[], np.ndarray]]) -> None:
    """Give a model of `defer_values` its values, read by path one at a time, or initial ones."""
    import keras

    try:
        for variable in model.variables:
            read = values.get(variable.path)
            if read:
                initializer = functools.partial(_first_value, read)
                give_first_value(variable, initializer)
        with keras.StatelessScope():  # at its end Keras fills what waits
            pass
    except BaseException:
        forget_waiting()
        raise


def _first_value(read: Callable[[], np.ndarray], shape, dtype):
    """Return a variable's first value, which is read when the variable asks for it."""
    import keras

    array = read()
    if keras.backend.backend() != "tensorflow" or array.ctypes.data % 64:
        array = array if array.flags.writeable else array.copy()
        return keras.ops.convert_to_tensor(array, dtype=dtype)

    import tensorflow as tf  # JAX and torch keep the array given; TensorFlow copies it

    tensor = tf.experimental.dlpack.from_dlpack(array.__dlpack__())
    return tf.cast(tensor, dtype)


def build_outline(spec: GraphSpec):
    """Build a graph whose weights have no values, to look at: nothing is drawn."""
    from kbert.model import builder  # imports Keras

    with defer_values(forever=True):
        return builder.build_graph(spec)


def build_with(spec: GraphSpec, layers: Mapping[str, Any]):
    """Build a graph with copies of other layers' weights, by name; None: initialized."""
    from kbert.model import builder  # imports Keras

    if not layers:
        return builder.build(spec)
    with defer_values():
        model = builder.build(spec)
        values = _list_copies(model, layers)
    fill(model, values)
    return model


def _list_copies(model, layers: Mapping[str, Any]) -> dict[str, Callable[[], np.ndarray]]:
    """Return, by the paths of a model's weights, functions that copy other layers' weights."""
    from kbert.model.lora import is_adapter  # imports Keras

    values: dict[str, Callable[[], np.ndarray]] = {}
    for layer in model.layers:
        source = layers[layer.name] if layer.weights else None
        if source is None:
            continue
        weights = [weight for weight in source.weights if not is_adapter(weight.path)]
        for new, old in zip(layer.weights, weights, strict=True):
            values[new.path] = functools.partial(_copy_weight, old)
    return values


def _copy_weight(weight) -> np.ndarray:
    from keras import ops

    array = ops.convert_to_numpy(ops.cast(weight, "float32"))
    return np.array(array, order="C")  # JAX and torch keep the array that they get


def layers_of(model) -> dict[str, Any]:
    """Return a model's layers by their names."""
    return {layer.name: layer for layer in model.layers}


def _view(weight) -> np.ndarray:
    """Return a weight's values to read, without a copy where they are in the host's memory."""
    import keras

    if keras.backend.backend() == "tensorflow":  # Keras's function copies
        return np.asarray(keras.ops.convert_to_tensor(weight.value))
    return keras.ops.convert_to_numpy(weight.value)


def cast_model(model, spec: GraphSpec, dtype: str):
    """Return a model's copy in a dtype; made once, and again where a weight has changed since."""

    def checksum(weight) -> int:
        array = np.ascontiguousarray(_view(weight))
        flat_bytes = array.reshape(-1).view("uint8")
        return zlib.crc32(flat_bytes.data)

    casts = _casts.setdefault(model, {})
    # More threads than cores are slower: most weights are small.
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        checksums = list(pool.map(checksum, model.weights))

    is_current = dtype in casts and casts[dtype][0] == checksums
    if not is_current:
        new_spec = dataclasses.replace(spec, dtype=dtype)
        new = build_with(new_spec, layers_of(model))
        casts[dtype] = checksums, new
    return casts[dtype][1]
