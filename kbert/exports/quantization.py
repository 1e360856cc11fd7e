"""An ONNX graph's matrix products in int8, by ONNX Runtime.

Weights are int8 by output channel, activations uint8. Static: their ranges are the smallest and
largest of the calibration texts; dynamic: of each call. What comes out of a product is float32:
int8 there cost a sentence vector five times what all of the rest does (`benchmarks/LOG.md`). What
multiplies activations with each other (attention's scores and its mean) stays float32.
"""

import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from kbert.exports import serving
from kbert.graph import names
from kbert.io import extras
from kbert.io.wording import check_choice

WAYS = ("int8", "int8_dynamic")
_WHAT = "a quantized ONNX file"
_PRODUCTS = ["MatMul"]
_FUSIONS = ["MatMulAddFusion", "GemmSumFusion"]  # which put the bias into a product


def check(bert, quantize: str | None, calibration: Sequence[str] | None) -> None:
    """Raise for an unknown way, a missing or useless calibration, and without onnxruntime."""
    if quantize is not None:
        check_choice(quantize, WAYS, "quantize")
    if (calibration is not None) != (quantize == "int8"):
        got = "none" if calibration is None else f"them with quantize={quantize!r}"
        raise ValueError(f"quantize='int8' needs calibration, a list of texts, got {got}")

    if calibration is not None:
        texts = [] if isinstance(calibration, str) else list(calibration)
        if not texts or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"calibration must be a list of texts, got {calibration!r:.60}")
        if bert.tokenizer is None:
            raise ValueError("calibration needs a tokenizer, and the checkpoint has no vocabulary")
    if quantize is not None:
        extras.require(_WHAT, "onnx", "onnx", "onnxruntime")


def quantize_graph(proto, bert, quantize: str | None, calibration: Sequence[str] | None):
    """Return a float32 ModelProto with int8 products; unchanged if `quantize` is None."""
    if quantize is None:
        return proto
    import onnx
    import onnxruntime
    from onnxruntime import quantization as ort

    with tempfile.TemporaryDirectory(prefix="kbert-") as name:
        before = Path(name) / "plain.onnx"
        folded = Path(name) / "folded.onnx"
        after = Path(name) / "int8.onnx"
        before.write_bytes(proto.SerializeToString())
        _fold(onnxruntime, before, folded)
        model = onnx.load(folded)
        _turn_gemms_into_products(onnx, model.graph)
        onnx.save(model, folded)

        options: dict = {"op_types_to_quantize": _PRODUCTS, "per_channel": True}
        options["weight_type"] = ort.QuantType.QInt8
        options["extra_options"] = {"MatMulConstBOnly": True}
        # ONNX Runtime advises in the log to prepare the model first, as `_fold` has done.
        if calibration is None:  # then `quantize` is "dynamic": `check` has seen to it
            with serving.only_errors_of("root"):
                ort.quantize_dynamic(folded, after, **options)
            return onnx.load(after)

        options["activation_type"] = ort.QuantType.QUInt8
        options["extra_options"]["OpTypesToExcludeOutputQuantization"] = _PRODUCTS
        feeds = _feeds(bert, calibration, proto.graph.input)

        class Reader(ort.CalibrationDataReader):
            def get_next(self):
                return next(feeds, None)

        with serving.only_errors_of("root"):
            ort.quantize_static(folded, after, Reader(), **options)
        return onnx.load(after)


def _fold(onnxruntime, source: Path, target: Path) -> None:
    """Compute what depends on weights alone: a quantizer takes weights, no reshaped ones."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = os.fspath(target)
    options.log_severity_level = 3
    onnxruntime.InferenceSession(
        os.fspath(source),
        options,
        providers=["CPUExecutionProvider"],
        disabled_optimizers=_FUSIONS,
    )


def _turn_gemms_into_products(onnx, graph) -> None:
    """Make a Gemm that only multiplies by weights a MatMul, which both ways quantize."""
    weights = {initializer.name: initializer for initializer in graph.initializer}
    for node in graph.node:
        values = {}
        for attribute in node.attribute:
            values[attribute.name] = attribute.f or attribute.i
        is_plain = not values.get("transA") and values.get("alpha", 1.0) == 1.0
        if node.op_type != "Gemm" or len(node.input) > 2 or not is_plain:
            continue
        if values.get("transB"):
            if node.input[1] not in weights:
                continue
            weight = weights[node.input[1]]
            array = onnx.numpy_helper.to_array(weight)
            transposed = array.T.copy()
            name = f"{node.input[1]}/{node.name}/T"
            graph.initializer.append(onnx.numpy_helper.from_array(transposed, name))
            node.input[1] = name
        node.op_type = "MatMul"
        del node.attribute[:]
    _remove_unused(graph)


def _remove_unused(graph) -> None:
    """Remove the weights that no node reads."""
    used: set[str] = set()
    for node in graph.node:
        used.update(node.input)
    unused = [initializer for initializer in graph.initializer if initializer.name not in used]
    for initializer in unused:
        graph.initializer.remove(initializer)


def _feeds(bert, texts: Sequence[str], inputs) -> Iterator[dict]:
    """Yield a graph's inputs for one text at a time: padding would have activations of its own."""
    import onnx

    max_length = bert.sentence.max_length if bert.sentence else None
    limit = serving.longest(bert, max_length)
    dtypes = {}
    for value in inputs:
        kind = value.type.tensor_type.elem_type
        dtypes[value.name] = onnx.helper.tensor_dtype_to_np_dtype(kind)

    for text in texts:
        batch = bert.tokenizer.encode_batch([text], max_length=limit)
        arrays = {
            names.TOKEN_IDS: batch.token_ids,
            names.SEGMENT_IDS: batch.segment_ids,
            "input_ids": batch.token_ids,
            "attention_mask": batch.token_ids * 0 + 1,
            "token_type_ids": batch.segment_ids,
        }
        feed = {name: arrays[name].astype(dtype) for name, dtype in dtypes.items()}
        yield feed
