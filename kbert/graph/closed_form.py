"""The graph in closed form: its layers as formulas, and the rows of its summary.

The table is layers.tsv, one row per layer in the order of the summary. It is derived from the
papers alone, without Keras and without the builder, so that comparing the two is a test of
both. Letters are those of `kbert.graph.formulas`, and N in a shape is the batch. Its columns:

- `graphs`: "embeddings", "unsegmented" where there are no segments; "packed" where rows hold
  several texts; "block", once for each encoder block; "selected-block", the last one where it
  computes selected positions, after the "queries-…" of its graph; "first-tokens" of packed texts
  where it computes all; else the heads whose graphs have the row, "gathered" for pretraining whose
  MLM head sees only the positions to predict, "selected" for pretraining with selected positions,
  "mlm", "mlm-gathered" and "mlm-selected" where there is no next sentence, "bare" (no row) for an
  encoder with no pooler, "dense-classifier" for one whose first dense layer is its own and no
  pooler's, "dropped-classifier" for such a one that drops out before it too, "dropped-qa" for the
  head qa of a family that drops out before that.
- `flops`: forward, matrix products only, a multiply-add is 2 (PaLM, arXiv 2204.02311, appendix B).
- `kept`: bytes that the backward pass needs, w bytes a number, dropout masks 1 byte, ids and the
  logits of the loss 4 bytes (Korthikanti et al. 2022, arXiv 2205.05198, section 4.1); `note` says
  of what.

In braces stands what differs from row to row or graph to graph: {n} the block, {hidden} the hidden
state that goes in, {residual} the one that is added to attention, {R} the positions that the block
computes of a sequence and {positions} of the batch, {texts} how many texts the batch has, {packed}
and {firsts} the further inputs of packed rows, {segments} and {labels} how many there are, {summed}
and {first} what the positions and the pooler are computed from; and of the MLM head {S} the
positions that it sees, {states} what it is computed from, {marks} the input that says where.
"""

from dataclasses import dataclass, fields
from functools import cache

from kbert.graph import names
from kbert.graph.config import BertConfig
from kbert.graph.formulas import compute, put_in_numbers
from kbert.graph.spec import GraphSpec
from kbert.heads import HEADS
from kbert.io.row_formats import read_package_table


@dataclass(frozen=True)
class Row:
    """A row of keras_bert's summary: one layer. Every value except `params` is text.

    Attributes:
        layer: the layer's name.
        type: the name of its class.
        output_shape: `(None, 512, 768)`, or `[(…), (…)]` for several outputs.
        params: number of parameters.
        connected_to: `name[node][tensor]` of each input, joined by ", "; "" for an input layer.
    """

    layer: str
    type: str
    output_shape: str
    params: int
    connected_to: str


COLUMNS = tuple(field.name for field in fields(Row))


def rows(spec: GraphSpec) -> tuple[Row, ...]:
    """Return the closed form of a built model's summary: one row per layer, in its order."""
    letters = config_letters(spec.config)
    sizes = letters | {"N": None, "S": spec.seq_len}
    sizes |= {"M": spec.max_predictions, "R": spec.selected}
    result = []
    for layer in layers(spec):
        shape = put_in_numbers(layer.output_shape, sizes)
        params = compute(layer.params, letters)
        row = Row(layer.name, layer.type, shape, params, layer.connected_to)
        result.append(row)
    return tuple(result)


def config_letters(config: BertConfig) -> dict[str, int]:
    """Return the document's letters for a configuration."""
    return {
        "T": config.vocab_size,
        "H": config.hidden_size,
        "A": config.num_attention_heads,
        "L": config.num_hidden_layers,
        "P": config.max_position_embeddings,
        "FFD": config.intermediate_size,
    }


def sources(row) -> list[tuple[str, int]]:
    """Return the inputs of a row as (layer name, tensor index) pairs."""
    if not row.connected_to:
        return []
    pairs = []
    for connection in row.connected_to.split(", "):
        name, _, tensor = connection.rstrip("]").split("[")
        pairs.append((name, int(tensor)))
    return pairs


@dataclass(frozen=True)
class Layer:
    """A row of the table, its braces filled in; its shape and costs are formulas."""

    graphs: str
    group: str
    name: str
    type: str
    output_shape: str
    params: str
    connected_to: str
    flops: str
    kept: str


def layers(spec: GraphSpec) -> list[Layer]:
    """Return the graph's layers in the order of the summary."""
    blocks = spec.config.num_hidden_layers
    segments = spec.config.type_vocab_size if spec.config.family.segments else None

    result = embedding_layers(segments, spec.packed)
    for n in range(1, blocks):
        result += encoder_block(n, names.encoder_output(n - 1))
    if spec.selected_positions:
        result += _selected_block(spec)
    else:
        result += encoder_block(blocks, names.encoder_output(blocks - 1))

    last = names.encoder_output(blocks)
    if spec.packs_firsts and not spec.selected_positions:
        result += _fill("first-tokens", n=blocks)
        last = names.FIRST_TOKENS

    mlm_input = "all"
    if spec.max_predictions is not None:
        mlm_input = "selected" if spec.selected_positions else "gathered"
    texts = "X" if spec.packs_firsts else "B"
    graph = spec.variant.graph
    of_head = head_layers(graph, mlm_input, last, spec.num_labels, texts)
    return result + of_head


def _selected_block(spec: GraphSpec) -> list[Layer]:
    """Return the layers of the last block where it computes selected positions."""
    block = spec.config.num_hidden_layers
    hidden = names.encoder_output(block - 1)
    queries = names.encoder(block, names.QUERIES)
    braces = {"n": block, "hidden": hidden, "residual": queries, "R": "R"}
    if spec.packs_firsts:
        firsts = f", {names.PACKED_FIRSTS}[0][0]"
        braces |= {"firsts": firsts, "positions": "X", "texts": "X"}
        return _fill("queries-packed", "selected-block", **braces)
    braces |= {"firsts": "", "positions": "B·R", "texts": "B"}
    return _fill(f"queries-{HEADS[spec.head].reads}", "selected-block", **braces)


def embedding_layers(segments: int | str | None, packed: bool = False) -> list[Layer]:
    """Return the embeddings' layers; `segments` is a number, its letter, or None without any."""
    if segments is None:
        graphs, summed = ["unsegmented"], names.TOKEN_EMBEDDING
    else:
        graphs, summed = ["embeddings"], names.TOKEN_PLUS_SEGMENT

    inputs = ""
    if packed:
        graphs.append("packed")
        inputs = f", {names.PACKED_POSITIONS}[0][0], {names.PACKED_TEXTS}[0][0]"
    return _fill(*graphs, segments=segments, summed=summed, packed=inputs)


def encoder_block(n: int | str, hidden: str) -> list[Layer]:
    """Return the layers of encoder block n, which reads the hidden state `hidden`."""
    return _fill("block", n=n, hidden=hidden, residual=hidden, R="S", positions="B·S")


def head_layers(
    graph_name: str, mlm_input: str, hidden: str, labels: int | str, texts: str = "B"
) -> list[Layer]:
    """Return the layers of a head, which reads the last hidden state, `hidden`.

    `graph_name` is as in `kbert.heads.head.Variant`, `labels` a number or a letter, `texts` the
    letter for the number of texts. `mlm_input` is the positions of an MLM head: "all", or those to
    predict, "gathered" by the head or "selected" in the last block.
    """
    dropped = graph_name == "dropped-classifier"
    first = names.FIRST_TOKEN_DROPOUT if dropped else names.FIRST_TOKEN
    braces = {"hidden": hidden, "labels": labels, "first": first, "texts": texts}
    if mlm_input == "all":
        return _fill(graph_name, S="S", states=hidden, marks=names.MASKED, **braces)

    states = names.MLM_GATHER
    if mlm_input == "selected":
        states = hidden if graph_name == "mlm" else names.MLM_SLICE
    graph = f"mlm-{mlm_input}" if graph_name == "mlm" else mlm_input
    return _fill(graph, S="M", states=states, marks=names.MASKED_POSITIONS, **braces)


def _fill(*graphs: str, **braces) -> list[Layer]:
    result = []
    for row in read_rows():
        if not set(graphs).isdisjoint(row[0].split()):
            cells = [text.format(**braces) for text in row]
            result.append(Layer(*cells))
    return result


@cache
def read_rows() -> list[list[str]]:
    """Return the rows as they stand in the file, without their notes."""
    return [cells[:-1] for cells in read_package_table("kbert.graph", "layers.tsv")]


# In the order of an account: those of base, then the other heads' as in the table
_OF_BASE = ("embeddings", "encoder", "pooler", "MLM", "NSP")
GROUPS = tuple(dict.fromkeys((*_OF_BASE, *(row[1] for row in read_rows()))))
