"""Low-rank adapters in the layers: W·x + scale · B·A·dropout(x), as PEFT computes it.

Hu et al. 2021, arXiv 2106.09685. W is frozen. A (rank, inputs) and B (outputs, rank) are weights of
a `LoraAdapter`, which the layer that has W holds as a sublayer. A model without adapters has
nothing of this.
"""

import contextlib
from collections.abc import Iterator, Mapping

import keras
import numpy as np
from keras import ops

from kbert import ops as kops
from kbert.graph.trained_parts import AdaptedMatrix, TrainedParts
from kbert.model.layers.encoder import Dropout
from kbert.ops.keras_internals import unlocked


class LoraAdapter(keras.layers.Layer):
    """The adapter of one matrix, from A (rank, inputs) and B (outputs, rank), to begin with."""

    def __init__(self, matrix: AdaptedMatrix, a, b, scale: float, rate: float = 0.0, **kwargs):
        super().__init__(name=matrix.name, **kwargs)
        self.matrix = matrix
        self.scale = scale
        self.supports_masking = True
        self.dropout = Dropout(rate, seed=0, dtype=self.dtype_policy)
        self._first = {"lora_A": np.asarray(a), "lora_B": np.asarray(b)}

    def build(self, input_shape):
        self.a = self._add_factor("lora_A")
        self.b = self._add_factor("lora_B")

    def _add_factor(self, name: str):
        array = self._first[name]
        return self.add_weight(
            array.shape,
            # as arrays: a constant of this size would stay in TensorFlow's graph
            lambda shape, dtype: ops.convert_to_tensor(array, dtype),
            dtype="float32",
            autocast=False,
            name=name,
        )

    def call(self, x, training=None):
        x = self.dropout(x, training=training)
        down = ops.transpose(self.a)
        up = ops.transpose(self.b)
        inner = kops.linear(x, down) * self.scale  # (…, rank)
        return kops.linear(inner, up)


def kernel_of(model, matrix: AdaptedMatrix):
    """Return the variable of a matrix: (inputs, outputs), or with an axis for the heads."""
    layer = model.get_layer(matrix.layer)
    suffix = f"/{matrix.variable}"
    (kernel,) = [weight for weight in layer.weights if weight.path.endswith(suffix)]
    return kernel


def is_adapter(path: str) -> bool:
    """Return whether a weight's path is that of an adapter's A or B."""
    return path.endswith(("/lora_A", "/lora_B"))


def merge(kernel: np.ndarray, a: np.ndarray, b: np.ndarray, scale: float) -> np.ndarray:
    """Return W + scale · B·A in the kernel's shape, float32."""
    product = (b @ a).T * np.float32(scale)  # (inputs, outputs)
    return kernel + product.reshape(kernel.shape)


def add_adapters(
    model, trained: TrainedParts, seed: int, dropout: float = 0.0, pairs: Mapping | None = None
) -> None:
    """Add the adapters of trained parts to a model's layers, within the engine's scope.

    `pairs` are A and B to begin with, by block and matrix. None: new ones, A uniform in ±1/√inputs,
    as PEFT draws it, and B 0.
    """
    added: dict[str, dict[str, LoraAdapter]] = {}
    for number, matrix in enumerate(trained.adapted):
        if pairs is not None:
            a, b, _ = pairs[matrix.block, matrix.name]
        else:
            random = np.random.default_rng([seed, number])
            a, b = _initialize(matrix, trained.rank, random)

        layer = model.get_layer(matrix.layer)
        scale = trained.alpha / trained.rank
        adapter = LoraAdapter(matrix, a, b, scale, dropout, dtype=layer.dtype_policy)
        with keras.name_scope(matrix.layer):
            adapter.build((None, None, matrix.inputs))
        adapters = added.setdefault(matrix.layer, {})
        adapters[matrix.name] = adapter

    for name, adapters in added.items():
        _attach(model.get_layer(name), adapters)


def _initialize(matrix: AdaptedMatrix, rank: int, random: np.random.Generator) -> tuple:
    bound = matrix.inputs**-0.5
    a = random.uniform(-bound, bound, (rank, matrix.inputs))
    b = np.zeros((matrix.outputs, rank))
    return a, b


def adapters_of(model) -> list[LoraAdapter]:
    """Return a model's adapters, in the order of its layers."""
    adapters: list[LoraAdapter] = []
    for layer in model.layers:
        adapters.extend(getattr(layer, "adapters", {}).values())
    return adapters


@contextlib.contextmanager
def merge_adapters(model) -> Iterator[None]:
    """Merge the adapters into the weights, bit for bit undone when the context ends."""
    layers = [layer for layer in model.layers if getattr(layer, "adapters", None)]
    adapters_of_layers = [dict(layer.adapters) for layer in layers]
    adapters = adapters_of(model)
    kernels = [kernel_of(model, adapter.matrix) for adapter in adapters]
    before = [ops.convert_to_numpy(kernel.value).copy() for kernel in kernels]

    try:
        for layer in layers:
            layer.adapters.clear()
        for kernel, array, adapter in zip(kernels, before, adapters, strict=True):
            a = ops.convert_to_numpy(adapter.a.value)
            b = ops.convert_to_numpy(adapter.b.value)
            merged = merge(array, a, b, adapter.scale)
            kernel.assign(merged)
        yield
    finally:
        for kernel, array in zip(kernels, before, strict=True):
            kernel.assign(array)
        for layer, adapters_of_layer in zip(layers, adapters_of_layers, strict=True):
            _attach(layer, adapters_of_layer)


def _attach(layer, adapters: Mapping[str, LoraAdapter]) -> None:
    with unlocked(layer):
        layer.adapters = dict(adapters)
