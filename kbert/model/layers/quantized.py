"""Refuse to save what Keras's `quantize` made of a model: Keras cannot open such a file again.

A layer of several dense layers is saved with the policy of the whole, and the file's variables of
the quantized ones then fit nothing (Keras 3.15; its own MultiHeadAttention fails alike).
"""

from collections.abc import Iterable

import keras

_WAY_OUT = (
    "save the model before quantize. kbert.save(bert, 'model.onnx', quantize='int8_dynamic') "
    "(kbert convert --quantize int8_dynamic) writes an int8 model from it"
)


def refuse_quantized(layers: Iterable[keras.layers.Layer]) -> None:
    """Raise a ValueError for the first of some layers that is quantized, or has such a part."""
    for layer in layers:
        for part in (layer, *list_dense(layer)):
            mode = part.quantization_mode
            if mode:
                raise ValueError(
                    f"{layer.name} is quantized ({mode}), and its file could not be opened again: "
                    f"{_WAY_OUT}"
                )


def list_dense(layer: keras.layers.Layer) -> list[keras.layers.Layer]:
    """Return the dense layers within an attention or feed-forward layer; none before its build."""
    names = ("query_dense", "key_dense", "value_dense", "intermediate_dense", "output_dense")
    if not layer.built:
        return []
    return [getattr(layer, name) for name in names if hasattr(layer, name)]
