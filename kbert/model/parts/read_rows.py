"""The rows of the last block that the heads read: the first token's, and those to be predicted.

Nothing else of that block reaches a loss but by way of its keys and vectors. Its queries, and all
that follows attention, are computed for these rows alone, in training: the same numbers, as a row
knows of others by attention only. Of base's twelve blocks at 128 tokens, 20 predicted, that leaves
out an eighteenth of a step's FLOPs; of a classifier's a fourteenth.

Dimensions at line end: B batch, S sequence, R rows read, M predicted positions, H hidden size.
"""

from collections.abc import Callable

from keras import ops

from kbert.data.packed_batch import FIRSTS
from kbert.graph import names
from kbert.graph.spec import MOST_SELECTED
from kbert.model.keras_internals import calls
from kbert.model.parts import layer_types, packed_rows, plain_kit
from kbert.model.parts.stateless import layer_stateless


class Read:
    """Positions that a block must compute: all of them."""

    def queries(self, x):
        """Return the positions that are read of a block's input (B, S, H), as (B, R, H)."""
        return x

    def keys(self, heads):
        """Return the keys or values (B, A, S, D) that these positions attend to."""
        return heads

    def mask(self, mask):
        """Select the matching positions of the attention mask."""
        return mask


ALL = Read()


class _AtPlaces(Read):
    """One text a row: of places (B, R)."""

    def __init__(self, places, gather: Callable):
        self._places, self._gather = places, gather

    def queries(self, x):
        return self._gather(x, self._places)


class _FirstOfEachText(Read):
    """Several texts a row, of some more than of others: one query a text, its row's keys again."""

    def __init__(self, firsts):
        self._firsts = firsts

    def queries(self, x):
        return packed_rows.first_tokens(x, self._firsts)

    def keys(self, heads):
        return ops.take(heads, self._firsts // ops.shape(heads)[2], axis=0)

    def mask(self, mask):
        return packed_rows.first_tokens(mask, self._firsts)  # (B, 1, S)


def readers(model) -> list[str]:
    """Return the heads' layers that read the last block's output, if they take rows of it.

    There are none otherwise.

    A last block with layers of one's own is no block that is known to mix rows by attention alone.

    Args:
        model: a functional model.
    """
    last = layer_types.blocks(model)
    if (
        not last
        or layer_types.is_variant(model)
        or not layer_types.has(model, layer_types.of_block(last))
    ):
        return []
    norm = model.get_layer(names.encoder_output(last))
    if any(output is norm.output for output in model.outputs):
        return []
    sources = {one.operation.name: [source for source, _, _ in one.sources] for one in calls(model)}
    found = {name for name, given in sources.items() if norm in given}
    known = {name: kind for name, kind in layer_types.READERS.items() if name in found}
    return list(known) if len(known) == len(found) and layer_types.has(model, known) else []


class ReadRows:
    """Positions of the last block that are read, by reader.

    Args:
        readers: from `readers`.
        gather: a kit's `rows_at`; None: blocks compute all positions.
        packing: whether sequences are packed texts, each with a first token.
    """

    def __init__(self, readers: list[str], gather: Callable | None, packing: bool):
        self._readers, self._packing = readers, packing
        self._gather, self._leaves_out = gather or plain_kit.rows_at, gather is not None

    def of(self, inputs: dict, length: int | None) -> Read:
        """Return the positions that a block of so many tokens must compute."""
        if not self._leaves_out:
            return ALL
        if self._packing:
            return _FirstOfEachText(inputs[FIRSTS])
        places = self._places(inputs)
        if length is not None and places.shape[1] > MOST_SELECTED * length:
            return ALL
        return _AtPlaces(places, self._gather)

    def taken(self, x, inputs: dict):
        """Return the rows (B, R, H) of all, (B, S, H)."""
        if self._packing:
            return packed_rows.first_tokens(x, inputs[FIRSTS])
        return self._gather(x, self._places(inputs))

    def shared_out(self, rows) -> list:
        """Split the positions by reader."""
        if names.MLM_GATHER not in self._readers:
            return [rows[:, 0]]
        before = len(self._readers) - 1
        return [*(rows[:, place] for place in range(before)), rows[:, before:]]

    def _places(self, inputs: dict):
        """Return int32 (B, R)."""
        ids = inputs[names.TOKEN_IDS]
        places = [ops.zeros_like(ids[:, :1], "int32")] if names.FIRST_TOKEN in self._readers else []
        if names.MLM_GATHER in self._readers:
            places.append(ops.cast(inputs[names.MASKED_POSITIONS], "int32"))
        return ops.concatenate(places, 1)


class LayersBlock:
    """Encoder block `number` by the graph's own layers, of the rows that are read; not packed."""

    def __init__(self, model, number: int):
        def of(part):
            names_of = [(part,), (part, "Dropout"), (part, "Add"), (part, "Norm")]
            return [model.get_layer(names.encoder(number, *one)) for one in names_of]

        self._attention, self._feed_forward = of(names.ATTENTION), of(names.FEED_FORWARD)

    def __call__(self, values: dict, x, mask, read: Read = ALL):
        """Return (B, R, H); see `cut_model.Parts`."""
        attention, *ended = self._attention
        queries = read.queries(x)
        given = ([x, queries], [mask, None]) if queries is not x else (x, mask)
        y = layer_stateless(attention, values, given[0], mask=given[1], training=True)
        x = _ended(ended, values, queries, y)
        feed_forward, *ended = self._feed_forward
        return _ended(ended, values, x, layer_stateless(feed_forward, values, x))


def _ended(layers: list, values: dict, x, y):
    """LayerNorm(x + Dropout(y))."""
    dropout, add, norm = layers
    y = layer_stateless(dropout, values, y, training=True)
    return layer_stateless(norm, values, layer_stateless(add, values, [x, y]))
