"""Export to LiteRT (.tflite), for phones and small machines."""

import os
import tempfile
from pathlib import Path

from kbert.checkpoints.exports import saved_model, serving
from kbert.io.atomic_write import atomic_file

_WHAT = "a LiteRT file"


def write(bert, path: str | os.PathLike) -> None:
    """Write the model as one file of LiteRT's own operations: no TensorFlow is needed to run it.

    The signature `serving_default` takes int32 arrays of any batch and length, up to the
    configuration's positions: Input_Token, Input_Segment and, where the model has one, Input_Masked
    (B, S) or Input_Positions (B, M). It gives float32 arrays by the names of the output layers;
    those of an encoder and of a sentence vector as in ONNX. Without names, inputs and outputs have
    the graph's order. `Interpreter.get_signature_runner` resizes by itself; without it, call
    `resize_tensor_input`. An id outside its table gives NaN or the runtime's own error. The file
    holds no vocabulary.

    Args:
        bert: a `kbert.Bert`.
        path: the file; an old one there is replaced once the new one is whole.

    Raises:
        ValueError: a backend that is not TensorFlow; weights of 2 GiB or more.
        OSError: it cannot be written; an old one stays.
    """
    model = serving.serving_model(bert, _WHAT)
    serving.refuse_too_large(model, _WHAT)
    serving.warn_of_untrained(bert, path, model)
    with atomic_file(path) as part:
        part.write_bytes(_convert(model))


def check(path: Path) -> None:
    """Raise a ValueError on a backend that does not write it."""
    serving.check_backend(_WHAT)


def _convert(model) -> bytearray:
    import tensorflow as tf

    with tempfile.TemporaryDirectory(prefix="kbert-") as folder:
        saved_model.save(model, Path(folder))
        converter = tf.lite.TFLiteConverter.from_saved_model(
            folder, signature_keys=["serving_default"]
        )
        model_bytes = converter.convert()
    inputs = [serving.parameter(tensor.name) for tensor in model.inputs]
    return _order_tensors(model_bytes, inputs, serving.output_names(model))


def _order_tensors(model_bytes: bytes, inputs: list[str], outputs: list[str]) -> bytearray:
    """Put inputs and outputs, which TensorFlow takes from unordered maps, in the graph's order.

    The signature says which tensor has which name; the lists of tensors are changed in place.
    """
    from tensorflow.lite.python import schema_py_generated as schema

    changed = bytearray(model_bytes)
    model = schema.Model.GetRootAsModel(changed, 0)
    signature = model.SignatureDefs(0)
    graph = model.Subgraphs(signature.SubgraphIndex())
    sides = (
        (graph.InputsAsNumpy(), signature.Inputs, signature.InputsLength(), inputs),
        (graph.OutputsAsNumpy(), signature.Outputs, signature.OutputsLength(), outputs),
    )
    for tensors, entry, count, order in sides:
        entries = [entry(index) for index in range(count)]
        by_name = {one.Name().decode(): one.TensorIndex() for one in entries}
        tensors[:] = [by_name[name] for name in order]
    return changed
