"""Blocks with adapters whose input has a dropout, as PEFT's `lora_dropout`.

PEFT computes W·x + s·B·A·d(x), where d is dropout. Here s·B·A is in the matrix already, so what the
dropout changes is added: (W + s·B·A)·x + s·B·A·(d(x) − x), the same number.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import keras
from keras import ops

from kbert.graph import names
from kbert.model.parts import elementwise, packed_rows, plain_kit
from kbert.model.parts.fused_parts import EncoderBlock, FusedParts, Kit, fits
from kbert.model.parts.stateless import stateless
from kbert.model.told_by_layers import ids_of


class DroppingAdapter(Protocol):
    """An adapter: its block, its matrix's name, its variables, its factor, its seed's key."""

    @property
    def block(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def a(self) -> Any: ...
    @property
    def b(self) -> Any: ...
    @property
    def scale(self) -> float: ...
    @property
    def draw(self) -> object: ...


class AdaptedParts(FusedParts):
    """`cut_model.Parts` of a model with adapters.

    Args:
        kit: what they are computed with.
        adapters: the model's.
        rate: of their dropout.
    """

    def __init__(self, kit: Kit, adapters: Sequence[DroppingAdapter], rate: float):
        super().__init__(kit)
        self._adapters, self._rate = adapters, rate

    def embeddings(self, model) -> Callable:
        """See `Parts`; by the graph's own layers where it has no segments."""
        return super().embeddings(model) if fits(model) else _embeddings_of_layers(model)

    def block(self, model, number: int) -> Callable:
        """See `Parts`."""
        return AdaptedBlock(model, number, self._kit, self._of_block(number), self._rate)

    def added(self, number: int) -> list:
        """See `Parts`."""
        return [half for one in self._of_block(number) for half in (one.a, one.b)]

    def _of_block(self, number: int) -> list[DroppingAdapter]:
        return [one for one in self._adapters if one.block == number]


class AdaptedBlock(EncoderBlock):
    """Encoder block `number` with adapters; see `EncoderBlock`."""

    def __init__(self, model, number: int, kit: Kit, adapters, rate: float):
        super().__init__(model, number, kit)
        self._adapters = {one.name: one for one in adapters}
        if "output" in self._adapters:  # its halves are no arguments of what is computed again,
            self._recomputed = plain_kit.recomputed  # and TensorFlow gives them no gradient there
        self._dropped = kit.part(elementwise.dropped, rate=rate)
        self._scales = {"query": self.attention.key_dim**-0.5}  # as the query's kernel has it

    def _product(self, values: dict, x, kernel, *matrices: str):
        product = super()._product(values, x, kernel, *matrices)
        if not any(name in self._adapters for name in matrices):
            return product
        width = kernel.shape[1] // len(matrices)
        return product + ops.concatenate(
            [self._change(values, x, name, width) for name in matrices], -1
        )

    def _change(self, values: dict, x, name: str, width: int):
        """s·B·A·(d(x) − x), (B, S, width); 0 where a matrix has no adapter."""
        if (adapter := self._adapters.get(name)) is None:
            return ops.zeros((*ops.shape(x)[:-1], width), x.dtype)
        lost = self._dropped(x, values[id(adapter.draw)]) - x
        inner = super()._product(values, lost, ops.transpose(values[id(adapter.a)]))
        change = super()._product(values, inner, ops.transpose(values[id(adapter.b)]))
        return change * (adapter.scale * self._scales.get(name, 1.0))


def _embeddings_of_layers(model) -> Callable:
    """With positions as a further argument, where rows are packed."""
    ids = ids_of(model)
    norm, token = (model.get_layer(n) for n in (names.EMBEDDING_NORM, names.TOKEN_EMBEDDING))
    whole = keras.Model(ids, [norm.output, token.output[1]])
    packed = packed_rows.embeddings(model)

    def call(values: dict, *given):
        if len(given) > len(ids):
            return packed(values, *given)
        return stateless(whole, values, list(given))

    return call
