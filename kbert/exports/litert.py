"""Export to LiteRT (.tflite), for phones and small machines."""

import os
import tempfile
from pathlib import Path

from kbert.exports import saved_model, serving
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
            model_bytes = bytearray(converter.convert())
        _order_tensors(model, model_bytes)
        part.write_bytes(model_bytes)


def _order_tensors(model, model_bytes: bytearray) -> None:
    """Give inputs and outputs, which TensorFlow does not order, the graph's order, in place."""
    from tensorflow.lite.python import schema_py_generated as schema

    written = schema.Model.GetRootAsModel(model_bytes, 0)
    signature = written.SignatureDefs(0)
    graph = written.Subgraphs(signature.SubgraphIndex())
    inputs = [serving.parameter(tensor.name) for tensor in model.inputs]
    outputs = serving.output_names(model)
    for tensors, entry, order in (
        (graph.InputsAsNumpy(), signature.Inputs, inputs),
        (graph.OutputsAsNumpy(), signature.Outputs, outputs),
    ):
        entries = [entry(index) for index in range(len(order))]
        by_name = {}
        for tensor_map in entries:
            name = tensor_map.Name().decode()
            by_name[name] = tensor_map.TensorIndex()
        tensors[:] = [by_name[name] for name in order]


def check(path: Path) -> None:
    """Raise a ValueError on a backend that does not write it."""
    serving.check_backend(_WHAT)
