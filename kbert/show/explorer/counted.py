"""Data that the explorer page counts with: templates of the closed forms' rows, with formulas.

A block's rows are those of block {n}, which reads {hidden}; the heads read {last}. G is the number
of segments, K that of labels: the page fills in the numbers.
"""

from collections.abc import Sequence
from dataclasses import asdict

from kbert.graph import closed_form, layer_table
from kbert.graph.accounting import CONVENTIONS, DTYPES
from kbert.graph.attention_parts import ATTENTION_PARTS
from kbert.graph.layer_table import Layer
from kbert.graph.presets import PRESETS
from kbert.graph.spec import GraphSpec
from kbert.heads import HEADS
from kbert.show.diagrams import kind_of

BEFORE, BLOCK, AFTER = "before", "block", "after"
LETTERS = {
    "L": ("num_hidden_layers", "encoder blocks"),
    "H": ("hidden_size", "hidden size"),
    "A": ("num_attention_heads", "heads"),
    "FFD": ("intermediate_size", "feed-forward"),
    "T": ("vocab_size", "tokens"),
    "P": ("max_position_embeddings", "positions"),
    "G": ("type_vocab_size", "segments"),
    "S": ("seq_len", "length"),
    "B": ("batch_size", "batch"),
    "M": ("max_predictions", "predictions"),
    "K": ("num_labels", "labels"),
}


def graphs(spec: GraphSpec) -> dict[str, dict[str, list[Layer]]]:
    """Return the graphs that the page counts: "all" positions, and "gathered" for pretraining.

    Each is the rows before the encoder, of a block, and after the encoder.
    """
    kinds = ["all", "gathered"] if HEADS[spec.head].reads == "predicted" else ["all"]
    labels = "K" if spec.has_labels else spec.num_labels
    return {
        kind: {
            BEFORE: layer_table.before_encoder("G"),
            BLOCK: layer_table.encoder_block("{n}", "{hidden}"),
            AFTER: layer_table.after_encoder(spec.variant.rows, kind, "{last}", labels),
        }
        for kind in kinds
    }


def formulas(found: dict[str, dict[str, list[Layer]]]) -> list[str]:
    """Return every formula that the page computes."""
    rows: Sequence = [
        *(row for parts in found.values() for rows in parts.values() for row in rows),
        *ATTENTION_PARTS,
    ]
    return sorted({text for row in rows for text in (row.params, row.flops, row.kept)})


def counting_data(spec: GraphSpec, batch_size: int) -> dict:
    """Return the rows, the letters' values, presets, and the bytes of each dtype."""
    config = spec.config
    sizes = closed_form.config_letters(config)
    labels = spec.num_labels if spec.has_labels else None
    return {
        "head": spec.head,
        "graphs": {
            kind: {place: [_row(row) for row in rows] for place, rows in parts.items()}
            for kind, parts in graphs(spec).items()
        },
        "parts": [asdict(part) for part in ATTENTION_PARTS],
        "groups": closed_form.GROUPS,
        "letters": {
            letter: {"key": key, "title": title}
            for letter, (key, title) in LETTERS.items()
            if not (letter == "K" and labels is None)
            and not (letter == "M" and HEADS[spec.head].reads != "predicted")
        },
        "values": sizes
        | {
            "G": config.type_vocab_size,
            "S": spec.seq_len or config.max_position_embeddings,
            "B": batch_size,
            "M": spec.max_predictions,
            "K": labels,
            "dtype": spec.dtype if spec.dtype in DTYPES else "float32",
        },
        "anyLength": spec.seq_len is None,
        "config": config.to_google_dict(),
        "pad": config.pad_token_id,
        "presets": {
            name: closed_form.config_letters(one) | {"G": one.type_vocab_size}
            for name, one in PRESETS.items()
        },
        "dtypes": DTYPES,
        "conventions": CONVENTIONS,
    }


def _row(row: Layer) -> dict:
    found = asdict(row)
    del found["graphs"]
    return found | {"kind": kind_of(row.name, row.type)}
