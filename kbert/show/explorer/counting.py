"""Data that the explorer page counts with: templates of the closed forms' rows, with formulas.

A block's rows are those of block {n}, which reads {hidden}; the heads read {last}. G is the number
of segments, K that of labels: the page fills in the numbers.
"""

from dataclasses import asdict, dataclass

from kbert.checkpoints import weight_names
from kbert.graph import closed_form, names
from kbert.graph.accounting import DTYPES, list_conventions
from kbert.graph.closed_form import Layer
from kbert.graph.config import BertConfig
from kbert.graph.presets import PRESETS
from kbert.graph.spec import GraphSpec
from kbert.heads import HEADS
from kbert.show.diagrams import kind_of

BEFORE, BLOCK, AFTER = "before", "block", "after"
LETTERS = {  # the field of a configuration, its title, the ends of its slider
    "L": ("num_hidden_layers", "encoder blocks", (1, 48)),
    "H": ("hidden_size", "hidden size", (64, 8192)),
    "A": ("num_attention_heads", "heads", (1, 128)),
    "FFD": ("intermediate_size", "feed-forward", (64, 32_768)),
    "T": ("vocab_size", "tokens", (1000, 300_000)),
    "P": ("max_position_embeddings", "positions", (16, 8192)),
    "G": ("type_vocab_size", "segments", (1, 8)),
    "S": ("seq_len", "length", (1, 8192)),
    "B": ("batch_size", "batch", (1, 4096)),
    "M": ("max_predictions", "predictions", (1, 8192)),
    "K": ("num_labels", "labels", (2, 1000)),
}
# A configuration of which all sizes differ, so that a shape in numbers is one in letters too.
_SIZES = BertConfig(
    vocab_size=31,
    hidden_size=770,
    num_hidden_layers=1,
    num_attention_heads=7,
    intermediate_size=44,
    max_position_embeddings=19,
    type_vocab_size=3,
)
_LABELS = 5
_LETTER_OF_SIZE = {
    **{31: "T", 770: "H", 7: "A", 110: "(H/A)", 44: "FFD", 19: "P", 3: "G"},
    **{_LABELS: "K", 2: "2"},
}


@dataclass(frozen=True)
class AttentionPart:
    """A component of self-attention; the components' counts add up to the layer's.

    The forum thread "Understanding BERT from huggingface" asks where the twelve W_Q are. `params`,
    `flops` and `kept` are formulas, as in `kbert.graph.closed_form.Layer`.
    """

    name: str  # its variables' path in the layer: `query` has `query/kernel` and `query/bias`
    title: str  # in the paper (Vaswani et al. 2017, arXiv 1706.03762, section 3.2.2)
    output_shape: str
    params: str
    flops: str
    kept: str
    note: str  # the tensors that `kept` counts


def _projection(name: str, title: str, activations: str, note: str) -> AttentionPart:
    params, flops = "A·H·(H/A) + H", "2·B·S·H·H"
    return AttentionPart(name, title, "(N, S, A, (H/A))", params, flops, activations, note)


ATTENTION_PARTS = (
    _projection("query", "W_Q", "2·B·S·H·w", "the layer's input, and the queries"),
    _projection("key", "W_K", "B·S·H·w", "the keys"),
    _projection("value", "W_V", "B·S·H·w", "the values"),
    AttentionPart(
        name="heads",
        title="Heads",
        output_shape="(N, S, A, (H/A))",
        params="",
        flops="4·B·S·S·H",
        kept="A·B·S·S·(w + 1 + w)",
        note="softmax, its dropout's mask and output",
    ),
    AttentionPart(
        name="attention_output",
        title="W_O",
        output_shape="(N, S, H)",
        params="H·H + H",
        flops="2·B·S·H·H",
        kept="B·S·H·w",
        note="the heads' outputs, side by side",
    ),
)


def graphs(spec: GraphSpec) -> dict[str, dict[str, list[Layer]]]:
    """Return the graphs that the page counts: "all" positions, and "gathered" for pretraining.

    Each has the rows before the encoder, of a block, and after the encoder.
    """
    kinds = ["all", "gathered"][: 1 + HEADS[spec.head].predicts_tokens]
    segments = "G" if spec.config.family.segments else None
    labels = "K" if spec.has_labels else spec.num_labels
    return {
        kind: {
            BEFORE: closed_form.embedding_layers(segments),
            BLOCK: closed_form.encoder_block("{n}", "{hidden}"),
            AFTER: closed_form.head_layers(spec.variant.graph, kind, "{last}", labels),
        }
        for kind in kinds
    }


def list_formulas(graphs: dict[str, dict[str, list[Layer]]]) -> list[str]:
    """Return every formula that the page computes."""
    costs: list[Layer | AttentionPart] = [*ATTENTION_PARTS]
    for graph in graphs.values():
        for layers in graph.values():
            costs += layers

    formulas: set[str] = set()
    for cost in costs:
        formulas.update((cost.params, cost.flops, cost.kept))
    return sorted(formulas)


def counting_data(spec: GraphSpec, batch_size: int) -> dict:
    """Return the rows, the letters' values, presets, and the bytes of each dtype."""
    config = spec.config
    is_bert = config.model_type == "bert"
    sections = {}
    for kind, graph in graphs(spec).items():
        described = {name: _describe_layers(layers) for name, layers in graph.items()}
        sections[kind] = described

    return {
        "head": spec.head,
        "family": config.family.title,
        "graphs": sections,
        "parts": [asdict(part) for part in ATTENTION_PARTS],
        "groups": closed_form.GROUPS,
        "letters": _describe_letters(spec),
        "values": _first_values(spec, batch_size),
        "anyLength": spec.seq_len is None,
        "config": config.to_google_dict() if is_bert else config.to_transformers_dict(),
        "configFile": "bert_config.json" if is_bert else "config.json",
        "firstPosition": config.first_position,
        "pad": config.pad_token_id,
        "presets": {name: _letters(preset) for name, preset in PRESETS.items()},
        "dtypes": DTYPES,
        "conventions": list_conventions(spec.head),
    }


def _describe_layers(layers: list[Layer]) -> list[dict]:
    described = []
    for layer in layers:
        fields = asdict(layer)
        del fields["graphs"]
        described.append(fields | {"kind": kind_of(layer.name, layer.type)})
    return described


def _describe_letters(spec: GraphSpec) -> dict[str, dict]:
    """Return the letters that the graph has, with what their sliders need."""
    family = spec.config.family
    used = {
        "K": spec.has_labels,
        "M": HEADS[spec.head].predicts_tokens,
        "G": family.segments,
    }
    keys = {ours: theirs for theirs, ours in family.renamed}
    return {
        letter: {"key": keys.get(key, key), "title": title, "range": ends}
        for letter, (key, title, ends) in LETTERS.items()
        if used.get(letter, True)
    }


def _first_values(spec: GraphSpec, batch_size: int) -> dict:
    """Return what the page begins with, by letter."""
    return _letters(spec.config) | {
        "S": spec.seq_len or spec.config.positions,
        "B": batch_size,
        "M": spec.max_predictions,
        "K": spec.num_labels if spec.has_labels else None,
        "dtype": spec.dtype if spec.dtype in DTYPES else "float32",
    }


def _letters(config: BertConfig) -> dict[str, int]:
    return closed_form.config_letters(config) | {"G": config.type_vocab_size}


def list_variables(spec: GraphSpec) -> list[dict]:
    """Return a graph's variables, a block's as those of block {n}, layer {i} of a checkpoint.

    `names` and `shapes`, in letters, are by format (`kbert.checkpoints.weight_names.COLUMNS`); None
    where a format has no name for it.
    """
    config = _SIZES if spec.config.model_type == "bert" else _sizes_of(spec.config)
    columns = _find_columns(spec.config)
    head = HEADS[spec.head]
    labels = "K" if head.has_labels else str(head.num_outputs)

    variables = []
    for part in weight_names.parts_of(spec.head, config):
        shapes = _list_shapes(part, config, columns, labels)
        for row in weight_names.TABLE[part]:
            if row.layer == names.SEGMENT_EMBEDDING and not config.family.segments:
                continue
            layer = row.layer.replace("{n}", "1")
            names_of_formats = {}
            shapes_of_formats = {}
            for form in weight_names.COLUMNS:
                column = columns.get(form, "")
                names_of_formats[form] = row.names.get(column)
                shapes_of_formats[form] = shapes.get((form, layer, row.variable))

            variables.append(
                {
                    "layer": row.layer,
                    "variable": row.variable,
                    "names": names_of_formats,
                    "shapes": shapes_of_formats,
                }
            )
    return variables


def _list_shapes(
    part: str, config: BertConfig, columns: dict[str, str], labels: str
) -> dict[tuple[str, str, str], str]:
    """Return the shapes of a part's variables in letters, by format, layer and variable."""
    shapes = {}
    for form, column in columns.items():
        for entry in weight_names.entries([part], config, column, _LABELS):
            letters = [_LETTER_OF_SIZE[size].replace("K", labels) for size in entry.shape]
            comma = "," if len(letters) == 1 else ""
            shapes[form, entry.layer, entry.variable] = f"({', '.join(letters)}{comma})"
    return shapes


def _sizes_of(config: BertConfig) -> BertConfig:
    """Return `_SIZES` as a configuration of another family."""
    segments = _SIZES.type_vocab_size if config.family.segments else 1
    return _SIZES.replace(
        model_type=config.model_type,
        type_vocab_size=segments,
        pad_token_id=config.family.pad_token_id,
    )


def _find_columns(config: BertConfig) -> dict[str, str]:
    """Return the columns of `names.tsv` by the formats that can hold a family's weights."""
    if config.model_type == "bert":
        return {column: column for column in weight_names.COLUMNS}
    return {"transformers": weight_names.column_of(config), "kbert": "kbert"}
