"""Export to LiteRT (.tflite), for phones and small machines."""

import os
import tempfile
from pathlib import Path

from kbert.checkpoints.exports import saved_model, serving
from kbert.io.atomic_write import atomic_file

_WHAT = "a LiteRT file"


def write(bert, path: str | os.PathLike) -> None:
    """Write the model as one file of LiteRT's own operations, which needs no TensorFlow to run.

    Inputs and outputs are those of `serving`, with the names of a SavedModel. Without names they
    have the graph's order. `Interpreter.get_signature_runner` resizes by itself; without it, call
    `resize_tensor_input`.
    """
    import tensorflow as tf

    model = serving.serving_model(bert, _WHAT)
    serving.refuse_too_large(model, _WHAT)
    serving.warn_of_untrained(bert, path, model)
    with atomic_file(path) as part:
        with tempfile.TemporaryDirectory(prefix="kbert-") as folder:
            saved_model.save(model, Path(folder))
            converter = tf.lite.TFLiteConverter.from_saved_model(
                folder, signature_keys=["serving_default"]
            )
            model_bytes = converter.convert()
        inputs = [serving.parameter(tensor.name) for tensor in model.inputs]
        part.write_bytes(_order_tensors(model_bytes, inputs, serving.output_names(model)))


def check(path: Path) -> None:
    """Raise a ValueError on a backend that does not write it."""
    serving.check_backend(_WHAT)


def _order_tensors(model_bytes: bytes, inputs: list[str], outputs: list[str]) -> bytearray:
    """Put inputs and outputs, which TensorFlow does not order, in the graph's order."""
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
