"""A model cut after its embeddings and after each encoder block.

The engines put something else in the place of a block: one that is computed again in the backward
pass (rematerialization, Chen et al., arXiv 1604.06174: the tensors at the cuts alone are kept), or
one whose element-wise parts are fused.
"""

import functools
import itertools
from collections.abc import Callable
from typing import Protocol

from kbert.data.packed_batch import POSITIONS, TEXTS
from kbert.graph import names
from kbert.model.keras_internals import model_between
from kbert.model.parts import layer_types, packed_rows, plain_kit
from kbert.model.parts.dropout_seeds import own_seed_states
from kbert.model.parts.read_rows import ALL, LayersBlock, ReadRows, readers
from kbert.model.parts.scopes import EMBEDDINGS, HEADS, scope
from kbert.model.parts.stateless import stateless

_ENCODED = (names.TOKEN_IDS, names.SEGMENT_IDS)  # the inputs of the embeddings


class Parts(Protocol):
    """Replacements of the graph's own layers; variables' values are keyed by the variables' ids."""

    def embeddings(self, model) -> Callable:
        """Return a function of values, token ids and segment ids: x (B, S, H), token table (T, H).

        It takes positions (B, S) too, where rows are packed.
        """

    def block(self, model, number: int) -> Callable:
        """Return encoder block `number`, from 1: a function of values, x and mask, (B, S, H).

        The mask is bool (B, S); (B, S, S) where rows are packed. A `Read` as a fourth argument, for
        the last block, says which rows are wanted.
        """

    def added(self, number: int) -> list:
        """Trained variables that encoder block `number` reads beside the model's own."""

    def similarity(self, model) -> Callable:
        """Return the MLM head's logits, (B, M, T), of values, vectors (B, M, H) and the table."""

    @property
    def rows_at(self) -> Callable | None:
        """Rows (B, R, H) of x (B, S, H) and places (B, R); None: blocks compute all their rows."""


class CutModel:
    """Embeddings, encoder blocks and heads, as functional models that share the model's layers.

    Args:
        model: a functional model of `kbert.model.builder`.
        parts: what is put in the place of its layers; None: nothing.
        packing: whether inputs are those of a `kbert.data.packed_batch.PackedBatch`.
        training: whether the heads' own layers drop out; what is put in the place of others knows
            for itself.
        rows_at: as of `Parts`, where nothing is put in their place.

    Attributes:
        heads_draw: whether the heads' own layers drop out.
    """

    def __init__(
        self,
        model,
        parts: Parts | None = None,
        packing: bool = False,
        training: bool = True,
        rows_at: Callable | None = plain_kit.rows_at,
    ):
        self._packing, self._training = packing, training
        self._padding = model.get_layer(names.TOKEN_EMBEDDING).compute_mask
        last = layer_types.blocks(model)
        cuts = [model.get_layer(names.encoder_output(n)).output for n in range(last + 1)]
        _, table = model.get_layer(names.TOKEN_EMBEDDING).output
        inputs = dict(zip(model.input_names, model.inputs, strict=True))
        self._encoded = [name for name in inputs if name in _ENCODED]
        self._others = [name for name in inputs if name not in _ENCODED]
        ids = [inputs[name] for name in self._encoded]
        self._embeddings = _embeddings(model, ids, [cuts[0], table], parts, packing)
        if parts:
            rows_at = parts.rows_at
        elif packing:  # the graph's layers know no queries of another row
            rows_at = None
        reading = readers(model) if packing or rows_at else []
        self._read = ReadRows(reading, rows_at, packing) if reading else None
        self._cut_blocks(model, cuts, parts, bool(reading) and not packing)
        layers = {layer.name for layer in model.layers}
        self._has_table = names.MLM_SIMILARITY in layers  # of use to the MLM head alone
        self._taught = [n for n in range(last) if names.taught_state(n) in layers]
        heads = [model.get_layer(name).output for name in reading] or [cuts[last]]
        self._cut_heads(model, [*heads, *(cuts[n] for n in self._taught)], table, parts)

    def _cut_blocks(self, model, cuts: list, parts: Parts | None, rows_read: bool) -> None:
        """Set the blocks between the cuts, and the trained variables of each."""
        import keras

        numbers = range(1, len(cuts))
        blocks = [keras.Model(before, after) for before, after in itertools.pairwise(cuts)]
        added = [parts.added(number) if parts else [] for number in numbers]
        self._weights = [
            [*block.trainable_variables, *own] for block, own in zip(blocks, added, strict=True)
        ]
        if parts:
            self._blocks = [parts.block(model, number) for number in numbers]
            return
        self._blocks = [_block_of_layers(block) for block in blocks]
        if rows_read:
            self._blocks[-1] = LayersBlock(model, numbers[-1])

    def _cut_heads(self, model, states: list, table, parts: Parts | None) -> None:
        """Build the layers after the blocks, on the positions of the last block that they read."""
        self._similarity, outputs = None, list(model.outputs)
        if parts and self._has_table:
            self._similarity = parts.similarity(model)
            self._place = model.output_names.index(names.MLM)
            outputs[self._place] = model.get_layer(names.MLM_NORM).output
        tables = [table] if self._has_table and not self._similarity else []
        inputs = dict(zip(model.input_names, model.inputs, strict=True))
        others = [inputs[name] for name in self._others]
        self._heads = model_between([*states, *tables, *others], outputs)
        self.heads_draw = bool(own_seed_states(self._heads))

    def outputs(self, values: dict, inputs: dict, recomputed: Callable | None = None) -> list:
        """Return the model's outputs.

        Args:
            values: of its variables, by their id.
            inputs: by name.
            recomputed: makes of a function of float tensors one that keeps none of its
                intermediate results for the backward pass; None: they are kept.
        """
        ids = [inputs[name] for name in self._encoded]
        if self._packing:
            ids.append(inputs[POSITIONS])
            mask = packed_rows.within_texts(inputs[TEXTS])
        else:
            mask, _ = self._padding(inputs[names.TOKEN_IDS])
        with scope(EMBEDDINGS):
            x, table = self._embeddings(values, *ids)
        read = self._read.of(inputs, x.shape[1]) if self._read else ALL
        blocks = list(self._blocks)
        if read is not ALL:
            blocks[-1] = functools.partial(blocks[-1], read=read)
        states = [x]
        for block, weights in zip(blocks, self._weights, strict=True):
            if recomputed:
                x = _recomputed(recomputed, block, weights, values, x, mask)
            else:
                x = block(values, x, mask)
            states.append(x)
        with scope(HEADS):
            last = [x]
            if self._read:
                rows = self._read.taken(x, inputs) if read is ALL else x
                last = self._read.shared_out(rows)
            return self._outputs_of(
                values, [*last, *(states[n] for n in self._taught)], table, inputs
            )

    def _outputs_of(self, values: dict, states: list, table, inputs: dict) -> list:
        """Compute the outputs from the last block's positions, the taught blocks and the table."""
        rest = [inputs[name] for name in self._others]
        if self._has_table and not self._similarity:
            rest = [table, *rest]
        outputs = stateless(self._heads, values, [*states, *rest], self._training)
        if self._similarity:
            outputs[self._place] = self._similarity(values, outputs[self._place], table)
        return outputs


def _embeddings(model, ids: list, outputs: list, parts: Parts | None, packing: bool) -> Callable:
    """Return the function that computes the embeddings, for `Parts`."""
    import keras

    if parts:
        return parts.embeddings(model)
    if packing:
        return packed_rows.embeddings(model)
    of_layers = keras.Model(ids, outputs)
    return lambda values, *ids: stateless(of_layers, values, list(ids))


def _block_of_layers(model) -> Callable:
    return lambda values, x, mask: stateless(model, values, [x], mask=mask)[0]


def _recomputed(recomputed, block, weights, values: dict, x, mask):
    """Return one block's output, recomputed in the backward pass.

    Weights are arguments of the recomputed function: a tensor that it closes over would have no
    gradient on TensorFlow.
    """

    def of(x, *tensors):
        own = values | {id(weight): value for weight, value in zip(weights, tensors, strict=True)}
        return block(own, x, mask)

    return recomputed(of)(x, *(values[id(weight)] for weight in weights))
