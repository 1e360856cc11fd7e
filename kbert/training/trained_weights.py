"""The variables that an engine trains: a model's, or some of them, and low-rank adapters.

An adapter is two matrices beside the graph, A (rank, inputs) and B (outputs, rank), in PEFT's
shapes (Hu et al. 2021, arXiv 2106.09685). The model is computed with W + scale · B·A in the place
of W, made again in each computation: whatever computes it, layers or fused parts, need know nothing
of it, and the gradient of that sum goes on to A and B alone.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kbert.graph.trained_parts import AdaptedMatrix, TrainedParts, rate_shares
from kbert.model.matrices import kernel_of


@dataclass(frozen=True)
class Adapter:
    """One adapter and its matrix, as variables.

    Attributes:
        matrix: which it is.
        kernel: the model's variable, (inputs, outputs) or with the heads apart.
        a: float32 (rank, inputs).
        b: float32 (outputs, rank).
        scale: what B·A is multiplied with.
        draw: stands for the seed of its dropout.
    """

    matrix: AdaptedMatrix
    kernel: Any
    a: Any
    b: Any
    scale: float
    draw: object = field(default_factory=object)

    @property
    def block(self) -> int:
        """The matrix's encoder block, from 1."""
        return self.matrix.block

    @property
    def name(self) -> str:
        """The matrix's name, of `kbert.graph.trained_parts.MATRICES`."""
        return self.matrix.name

    def sum(self, values: dict):
        """W + scale · B·A in the kernel's shape, of values by their variables' id."""
        from keras import ops

        product = ops.matmul(*(ops.transpose(values[id(one)]) for one in (self.a, self.b)))
        kernel = values[id(self.kernel)]
        return kernel + self.scale * ops.reshape(product, kernel.shape)


@dataclass(frozen=True)
class TrainedWeights:
    """The weights that an engine trains.

    Attributes:
        variables: the variables with gradients and moments.
        rates: the factor of each one's learning rate.
        frozen: the model's other variables.
        adapters: the adapters, whose A and B are among `variables`.
        dropout: dropout rate of the input of each A, in training.
    """

    variables: list
    rates: list[float]
    frozen: list = field(default_factory=list)
    adapters: list[Adapter] = field(default_factory=list)
    dropout: float = 0.0

    @property
    def draws(self) -> list[object]:
        """Placeholders for the seeds of the adapters' dropouts, one each."""
        return [one.draw for one in self.adapters] if self.dropout else []

    @property
    def added(self) -> list:
        """The variables that are not the model's."""
        return [one for adapter in self.adapters for one in (adapter.a, adapter.b)]

    def and_all_new_of(self, model) -> "TrainedWeights":
        """Add a model's other unfrozen variables, at the whole rate."""
        known = {id(one) for one in (*self.variables, *self.frozen)}
        new = [one for one in model.trainable_variables if id(one) not in known]
        variables, rates = self.variables + new, self.rates + [1.0] * len(new)
        return replace(self, variables=variables, rates=rates)

    def values(self, trained: Sequence, frozen: Sequence) -> dict:
        """Return the values of the model's variables in a computation, by the variables' ids.

        Args:
            trained, frozen: values of `variables` and of `frozen`.
        """
        values = dict(zip(map(id, self.variables), trained, strict=True))
        values |= zip(map(id, self.frozen), frozen, strict=True)
        return values | {id(one.kernel): one.sum(values) for one in self.adapters}

    @contextlib.contextmanager
    def merged(self) -> Iterator[None]:
        """Have the model's own weights include what adapters add, for as long as the context lasts.

        Afterwards they are bit for bit what they were before.
        """
        import keras

        kernels = [one.kernel for one in self.adapters]
        before = [keras.ops.convert_to_numpy(kernel.value).copy() for kernel in kernels]
        values = {id(one): one.value for one in (*kernels, *self.added)}
        for kernel, adapter in zip(kernels, self.adapters, strict=True):
            kernel.assign(adapter.sum(values))
        try:
            yield
        finally:
            for kernel, array in zip(kernels, before, strict=True):
                kernel.assign(array)


def all_of(model) -> TrainedWeights:
    """Return all of a model's trainable variables, each at the whole rate."""
    # listed once: Keras walks through all layers each time
    variables = list(model.trainable_variables)
    return TrainedWeights(variables, [1.0] * len(variables))


def weights_of(
    model,
    parts: TrainedParts,
    seed: int,
    layer_decay: float | None = None,
    head_share: float = 1.0,
    dropout: float = 0.0,
    pairs: Mapping | None = None,
) -> TrainedWeights:
    """Return a model's trained variables by its parts, and new adapters with B = 0.

    Args:
        model: of the parts' graph; within the engine's scope.
        parts: of the graph.
        seed: of the first A: uniform in ±1/√inputs, as PEFT draws it.
        layer_decay, head_share: see `kbert.graph.trained_parts.rate_shares`.
        dropout: of what goes into each A.
        pairs: A and B to begin with, by block and matrix; None: new ones.
    """
    shares = rate_shares(parts.spec, layer_decay, head_share)
    own = [(layer.name, weight) for layer in model.layers for weight in layer.trainable_weights]
    trained = [(shares[name], weight) for name, weight in own if name not in parts.frozen]
    frozen = [weight for name, weight in own if name in parts.frozen]
    adapters = [_adapter(model, parts, n, seed, pairs) for n in range(len(parts.adapted))]
    for one in adapters:
        trained += [(shares[one.matrix.layer], one.a), (shares[one.matrix.layer], one.b)]
    rates, variables = zip(*trained, strict=True)
    return TrainedWeights(list(variables), list(rates), frozen, adapters, dropout)


def _adapter(model, parts: TrainedParts, number: int, seed: int, pairs: Mapping | None) -> Adapter:
    matrix = parts.adapted[number]
    if pairs is None:
        bound = matrix.inputs**-0.5
        random = np.random.default_rng([seed, number])
        a = random.uniform(-bound, bound, (parts.rank, matrix.inputs))
        b = np.zeros((matrix.outputs, parts.rank))
    else:
        a, b, _ = pairs[matrix.block, matrix.name]
    name = f"{matrix.layer}.{matrix.name}.lora_"
    return Adapter(
        matrix,
        kernel_of(model, matrix),
        _variable(a, f"{name}A"),
        _variable(b, f"{name}B"),
        parts.alpha / parts.rank,
    )


def _variable(first: np.ndarray, name: str):
    import keras

    return keras.Variable(first.astype("float32"), dtype="float32", name=name, autocast=False)
