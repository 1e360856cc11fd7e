"""Channels of activations that are far larger than others, evened out before int8 (SmoothQuant).

    x W = (x / s) (s W),   s_j = max |x_j| ^ 0.5 / max |W_j| ^ 0.5

Xiao et al., 2023 (arXiv 2211.10438), equations 3 and 4. Activations get one range for all channels,
weights one for each output: a single channel of 28, where the others reach 2, costs all of them
four bits. Here s is a factor of its own before the product, as LayerNorm's output goes on besides.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

_ROWS = 1024  # tokens that the error of a product is measured on
_LEAST = 1e-5


@dataclass
class _Seen:
    """Statistics of one activation (tokens, channels) over the calibration texts."""

    largest: np.ndarray | float = 0.0  # of each channel's absolute values
    rows: list[np.ndarray] = field(default_factory=list)

    def add(self, array: np.ndarray) -> None:
        found = array.reshape(-1, array.shape[-1])
        self.largest = np.maximum(self.largest, np.abs(found).max(0))
        self.rows.append(found[: max(0, _ROWS - sum(map(len, self.rows)))])


def smooth(onnx, onnxruntime, path: Path, feeds: Iterable[dict]) -> None:
    """Evens out the inputs of a graph's products with weights, where that makes int8's error less.

    Args:
        onnx, onnxruntime: the packages.
        path: the file of the graph, which is written again.
        feeds: the graph's inputs for each calibration text.
    """
    model = onnx.load(path)
    products = _products(onnx, model.graph)
    seen = _seen(onnx, onnxruntime, path, products, feeds)
    weights = {one.name: one for one in model.graph.initializer}
    for tensor, nodes in products.items():
        arrays = [onnx.numpy_helper.to_array(weights[node.input[1]]) for node in nodes]
        scales = _scales(seen[tensor], arrays)
        if scales is None:
            continue
        for node, array in zip(nodes, arrays, strict=True):
            scaled = np.ascontiguousarray(array * scales[:, None])
            weights[node.input[1]].CopyFrom(onnx.numpy_helper.from_array(scaled, node.input[1]))
            node.input[0] = f"{tensor}/even"
        _divide(onnx, model.graph, tensor, scales, before=nodes[0])
    onnx.save(model, path)


def _products(onnx, graph) -> dict[str, list]:
    """Return the products with weights, by the activation that they take.

    Weights of one product alone.
    """
    uses = [name for node in graph.node for name in node.input]
    once = {name for name, count in Counter(uses).items() if count == 1}
    own = {one.name for one in graph.initializer if len(one.dims) == 2} & once
    found: dict[str, list] = {}
    for node in graph.node:
        if node.op_type == "MatMul" and node.input[1] in own:
            found.setdefault(node.input[0], []).append(node)
    return found


def _seen(onnx, onnxruntime, path: Path, products: dict, feeds: Iterable[dict]) -> dict[str, _Seen]:
    """Return the statistics of every product's input, by the activation's name."""
    model, names = onnx.load(path), list(products)
    kind = onnx.TensorProto.FLOAT
    model.graph.output.extend(onnx.helper.make_tensor_value_info(n, kind, None) for n in names)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    found = {name: _Seen() for name in names}
    for feed in feeds:
        for name, array in zip(names, session.run(names, feed), strict=True):
            found[name].add(array)
    return found


def _scales(seen: _Seen, weights: list[np.ndarray]) -> np.ndarray | None:
    """s (channels,), the same for all products of an activation; None where it gains nothing."""
    largest = np.max([np.abs(array).max(1) for array in weights], axis=0)
    scales = np.sqrt(np.maximum(seen.largest, _LEAST) / np.maximum(largest, _LEAST))
    scales = scales.astype("float32")
    rows, weight = np.concatenate(seen.rows), np.concatenate(weights, axis=1)
    wanted = rows @ weight
    plain = np.abs(_rounded(rows, None) @ _rounded(weight, 0) - wanted).mean()
    even = _rounded(rows / scales, None) @ _rounded(weight * scales[:, None], 0)
    return scales if np.abs(even - wanted).mean() < plain else None


def _rounded(array: np.ndarray, axis: int | None) -> np.ndarray:
    """In 8 bits: activations (None) uint8 over their range, weights int8 by each column's (0)."""
    if axis is None:
        least, most = min(float(array.min()), 0.0), max(float(array.max()), 0.0)
        step = max(most - least, _LEAST) / 255
        return np.round((array - least) / step) * step + least
    step = np.maximum(np.abs(array).max(axis, keepdims=True), _LEAST) / 127
    return np.round(array / step) * step


def _divide(onnx, graph, tensor: str, scales: np.ndarray, before) -> None:
    """Add the node that divides an activation, in front of the first product that takes it."""
    factor = onnx.numpy_helper.from_array((1 / scales).astype("float32"), f"{tensor}/factor")
    graph.initializer.append(factor)
    node = onnx.helper.make_node("Mul", [tensor, factor.name], [f"{tensor}/even"], f"{tensor}/Even")
    graph.node.insert(list(graph.node).index(before), node)
