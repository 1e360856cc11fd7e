"""Export to ONNX, for ONNX Runtime and many other runtimes."""

import os
import warnings
from collections.abc import Sequence
from pathlib import Path

from kbert.exports import quantization, serving
from kbert.graph import names
from kbert.heads import HEADS
from kbert.io import extras
from kbert.io.atomic_write import atomic_file
from kbert.ops.keras_internals import TORCHVISION_REMARKS

_WHAT = "an ONNX file"
_BATCH = "batch"
_LENGTH = "length"


def write(
    bert,
    path: str | os.PathLike,
    quantize: str | None = None,
    calibration: Sequence[str] | None = None,
) -> None:
    """Write the model as one file, from TensorFlow (tf2onnx) or torch (torch.onnx).

    Inputs and outputs are those of `serving`; `quantize` and `calibration` are those of
    `kbert.save`.
    """
    quantization.check(bert, quantize, calibration)
    model = serving.serving_model(bert, _WHAT)
    if quantize is not None and HEADS[bert.head].predicts_tokens:
        raise ValueError("quantize needs a model of two inputs: take format='transformers_onnx'")
    serving.warn_of_untrained(bert, path, model)
    with atomic_file(path) as part:
        proto = convert_model(model, bert.config.positions)
        proto = quantization.quantize_graph(proto, bert, quantize, calibration)
        part.write_bytes(proto.SerializeToString())


def convert_model(model, positions: int):
    """Return the checked ModelProto of a model with `inputs`, `weights` and `output_names`."""
    import keras

    serving.refuse_too_large(model, _WHAT)
    backend = keras.backend.backend()
    import onnx

    proto = _from_tensorflow(model) if backend == "tensorflow" else _from_torch(model, positions)
    outputs = {value.name: value for value in proto.graph.output}
    del proto.graph.output[:]  # TensorFlow sorts them by name
    output_names = serving.output_names(model)
    proto.graph.output.extend(outputs[name] for name in output_names)
    _name_axes(proto)
    onnx.checker.check_model(proto)
    return proto


def _name_axes(proto) -> None:
    """Name the free axes of inputs and outputs, which tf2onnx numbers."""
    for value in [*proto.graph.input, *proto.graph.output]:
        batch, *further = value.type.tensor_type.shape.dim
        if batch.HasField("dim_value"):
            raise RuntimeError(
                f"{value.name} was written with a fixed batch, a defect of kbert's: report it"
            )
        batch.dim_param = _BATCH
        for axis in further:
            if not axis.HasField("dim_value"):
                axis.dim_param = _LENGTH


def check(path: Path) -> None:
    """Raise for a backend that does not write it, and where a package is missing."""
    backend = serving.check_backend(_WHAT, ("tensorflow", "torch"))
    extras.require(_WHAT, "onnx", "onnx", "onnxscript" if backend == "torch" else "tf2onnx")


def _from_tensorflow(model):
    """Return the graph with its weights as inputs, which then get their values."""
    # tf2onnx folds and copies weights that it finds in a graph: base takes 16 GB and 200 seconds.
    import keras
    import onnx
    import tensorflow as tf
    import tf2onnx

    count = len(model.inputs)

    def serve(*tensors):
        weight_tensors = tensors[count:]
        values = list(zip(model.weights, weight_tensors, strict=True))
        with keras.StatelessScope(values):
            return serving.outputs_of(model, list(tensors[:count]))

    signature = []
    for tensor in model.inputs:
        spec = tf.TensorSpec(tensor.shape, tensor.dtype, tensor.name)
        signature.append(spec)
    for weight in model.weights:
        spec = tf.TensorSpec(weight.shape, weight.dtype, weight.path)
        signature.append(spec)
    function = tf.function(serve, input_signature=signature, autograph=False)
    proto, _ = tf2onnx.convert.from_function(function, signature)

    for weight in model.weights:
        array = keras.ops.convert_to_numpy(weight)
        initializer = onnx.numpy_helper.from_array(array, weight.path)
        proto.graph.initializer.append(initializer)
    del proto.graph.input[count:]
    return proto


def _from_torch(model, positions: int):
    if model.inputs[-1].name == names.MASKED_POSITIONS:  # torch.take_along_dim fixes every size
        raise ValueError(
            f"{_WHAT} of a gathered MLM head must be written on the backend tensorflow, got torch: "
            "set KERAS_BACKEND=tensorflow, or build the model without max_predictions"
        )
    import torch

    class Serving(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *inputs):
            outputs = serving.outputs_of(model, list(inputs))
            return tuple(outputs.values())

    inputs, axes = _make_example_inputs(model, positions)
    # Leave out that torchvision is absent, and that two inputs share their axes.
    with warnings.catch_warnings(), serving.only_errors_of(TORCHVISION_REMARKS):
        warnings.filterwarnings("ignore", r".*isinstance\(treespec, LeafSpec\)", FutureWarning)
        warnings.filterwarnings("ignore", "# The axis name: .* will not be used", UserWarning)
        program = torch.onnx.export(
            Serving().eval(),
            inputs,
            input_names=[tensor.name for tensor in model.inputs],
            output_names=serving.output_names(model),
            dynamic_shapes=(axes,),
            dynamo=True,
            verbose=False,
        )
    return program.model_proto


def _make_example_inputs(model, positions: int) -> tuple[tuple, tuple]:
    """Return a tensor for each input, and the names of its axes that may have other sizes."""
    import torch

    device = next(iter(model.weights)).value.device
    batch = torch.export.Dim(_BATCH)
    length = torch.export.Dim(_LENGTH, max=positions)

    inputs = []
    axes = []
    for tensor in model.inputs:
        example_length = tensor.shape[1] or min(3, positions)
        shape = (2, example_length)  # torch takes 1 for a constant
        dtype = getattr(torch, tensor.dtype)
        example = torch.ones(shape, dtype=dtype, device=device)
        inputs.append(example)
        named = {0: batch}
        if tensor.shape[1] is None:
            named[1] = length
        axes.append(named)
    return tuple(inputs), tuple(axes)
