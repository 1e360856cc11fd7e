"""Formulas of the components of a self-attention layer: W_Q, W_K, W_V, the heads, W_O.

Letters and columns are those of layers.tsv; the components' parameters, FLOPs and kept bytes add up
to the layer's. The forum thread "Understanding BERT from huggingface" asks where the twelve W_Q
are.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class AttentionPart:
    """One part.

    Attributes:
        name: its variables' path in the layer: `query` has `query/kernel` and `query/bias`.
        title: its name in the paper (Vaswani et al. 2017, arXiv 1706.03762, section 3.2.2).
        output_shape: with N for the batch.
        params, flops, kept: formulas, as in `kbert.graph.layer_table.Layer`.
        note: what `kept` is of.
    """

    name: str
    title: str
    output_shape: str
    params: str
    flops: str
    kept: str
    note: str


_HEADS = "(N, S, A, (H/A))"
_PROJECTION = ("A·H·(H/A) + H", "2·B·S·H·H")

ATTENTION_PARTS = (
    AttentionPart(
        "query", "W_Q", _HEADS, *_PROJECTION, "2·B·S·H·w", "the layer's input, and the queries"
    ),
    AttentionPart("key", "W_K", _HEADS, *_PROJECTION, "B·S·H·w", "the keys"),
    AttentionPart("value", "W_V", _HEADS, *_PROJECTION, "B·S·H·w", "the values"),
    AttentionPart(
        "heads",
        "Heads",
        _HEADS,
        "",
        "4·B·S·S·H",
        "A·B·S·S·(w + 1 + w)",
        "softmax, its dropout's mask and output",
    ),
    AttentionPart(
        "attention_output",
        "W_O",
        "(N, S, H)",
        "H·H + H",
        "2·B·S·H·H",
        "B·S·H·w",
        "the heads' outputs, side by side",
    ),
)
