"""Copy of a model in another precision: the same graph with weights that are cast once."""

import dataclasses
import weakref
from collections.abc import Callable

import keras
from keras import ops

from kbert.graph.spec import GraphSpec
from kbert.model.bert_model import BertModel
from kbert.model.deferred import build_with, layers_of

# By model: a function that sums its weights' bits, and by dtype the sums and the model cast of
# them. None holds the model itself: they go with it.
_casts: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def cast_model(model: keras.Model, spec: GraphSpec, dtype: str) -> BertModel:
    """Return the model of a spec in a dtype; made once, and again where a weight has changed since.

    It shares no weight. The dtype is that of weights and computing, such as "bfloat16".
    """
    if model not in _casts:
        _casts[model] = _bit_sums(list(model.weights)), {}
    sums, casts = _casts[model]
    now = sums()
    if dtype not in casts or casts[dtype][0] != now:
        casts[dtype] = now, build_with(dataclasses.replace(spec, dtype=dtype), layers_of(model))
    return casts[dtype][1]


def _bit_sums(weights: list) -> Callable[[], tuple[int, ...]]:
    """Return a function that sums the weights' bits: if one changes, its sum changes."""
    if keras.backend.backend() != "tensorflow":
        return lambda: tuple(int(_bits(weight)) for weight in weights)
    import tensorflow as tf

    @tf.function(autograph=False)  # six times as fast as one weight after the other
    def sums():
        return tf.stack([tf.cast(_bits(weight), "int64") for weight in weights])

    concrete = sums.get_concrete_function()
    return lambda: tuple(concrete().numpy().tolist())


def _bits(weight):
    tensor = ops.convert_to_tensor(weight)
    integer = {"bfloat16": "int16", "float16": "int16", "float64": "int64"}.get(
        keras.backend.standardize_dtype(tensor.dtype), "int32"
    )
    return ops.sum(ops.view(tensor, integer))
