"""The layers of the graph as formulas: shapes, parameters, FLOPs, kept bytes, connections.

Derived from the configuration alone, without Keras and without the builder, so that comparing
the two is a test of both. Cost formulas count one step of training on B sequences of S tokens:

- `flops`: forward, matrix products only, a multiply-add is 2 (PaLM, arXiv 2204.02311, appendix B).
- `kept`: bytes that the backward pass needs, w bytes a number, dropout masks 1 byte, ids and the
  logits of the loss 4 bytes (Korthikanti et al. 2022, arXiv 2205.05198, section 4.1).
"""

from dataclasses import dataclass

from kbert.graph import names
from kbert.graph.config import BertConfig
from kbert.graph.spec import GraphSpec

# Letters of a shape: N is None (any batch), S and M become None where any length is allowed.
_SEQUENCE = ("N", "S", "H")


@dataclass(frozen=True)
class Layer:
    """A row of the graph as formulas.

    `shape` has a letter or number for each axis, or is a tuple of such tuples.
    """

    name: str
    type: str
    shape: tuple
    inputs: tuple[str, ...]
    group: str
    params: str = ""
    flops: str = ""
    kept: str = ""


def layers(spec: GraphSpec) -> list[Layer]:
    """The graph's layers in the order of the summary."""
    gathered, num_labels = spec.max_predictions is not None, spec.num_labels
    top = {
        "pretraining": _gathered_heads if gathered else _mirrored_heads,
        "encoder": _pooler,
        "classifier": lambda last: _classifier(last, num_labels),
        "tokens": lambda last: _token_classifier(last, num_labels),
        "qa": _question_answering,
    }[spec.head]
    blocks = spec.config.num_hidden_layers
    last = names.encoder_output(blocks)
    rows = _embeddings(spec.config)
    for block in range(1, blocks + 1):
        rows += _encoder_block(block)
    return rows + top(last)


def _embeddings(config: BertConfig) -> list[Layer]:
    n, group = names, "embeddings"
    types = config.type_vocab_size
    return [
        Layer(n.TOKEN_IDS, "InputLayer", ("N", "S"), (), group),
        Layer(n.SEGMENT_IDS, "InputLayer", ("N", "S"), (), group),
        Layer(
            n.TOKEN_EMBEDDING,
            "TokenEmbedding",
            (_SEQUENCE, ("T", "H")),
            (n.TOKEN_IDS,),
            group,
            params="H·T",
            kept="4·B·S",
        ),
        Layer(
            n.SEGMENT_EMBEDDING,
            "Embedding",
            _SEQUENCE,
            (n.SEGMENT_IDS,),
            group,
            params=f"{types}·H",
            kept="4·B·S",
        ),
        Layer(
            n.TOKEN_PLUS_SEGMENT,
            "Add",
            _SEQUENCE,
            (n.TOKEN_EMBEDDING, n.SEGMENT_EMBEDDING),
            group,
        ),
        Layer(
            n.POSITION_EMBEDDING,
            "PositionEmbedding",
            _SEQUENCE,
            (n.TOKEN_PLUS_SEGMENT,),
            group,
            params="H·P",
        ),
        _dropout(n.EMBEDDING_DROPOUT, n.POSITION_EMBEDDING, group),
        _norm(n.EMBEDDING_NORM, n.EMBEDDING_DROPOUT, group),
    ]


def _encoder_block(block: int) -> list[Layer]:
    """The 8 rows of block 1 … L: attention, dropout, add, norm, then the same for feed-forward."""

    def name(part, step=""):
        return names.encoder(block, part, step)

    attention, feed_forward, group = names.ATTENTION, names.FEED_FORWARD, "encoder"
    before = names.encoder_output(block - 1)
    between = name(attention, "Norm")
    return [
        Layer(
            name(attention),
            "MultiHeadAttention",
            _SEQUENCE,
            (before,),
            group,
            params="A·H·(H/A)·3 + 3·H + H·H + H",
            # Q, K, V and the output projection; then the scores and the weighted values
            flops="8·B·S·H·H + 4·B·S·S·H",
            # kept: input, Q, K, V, projection's input; softmax, its dropout's mask and output
            kept="5·B·S·H·w + A·B·S·S·(w + 1 + w)",
        ),
        _dropout(name(attention, "Dropout"), name(attention), group),
        Layer(
            name(attention, "Add"), "Add", _SEQUENCE, (before, name(attention, "Dropout")), group
        ),
        _norm(between, name(attention, "Add"), group),
        Layer(
            name(feed_forward),
            "FeedForward",
            _SEQUENCE,
            (between,),
            group,
            params="(H·FFD + FFD) + (FFD·H + H)",
            flops="4·B·S·H·FFD",
            # kept: input, the activation's input, the second product's input
            kept="B·S·H·w + 2·B·S·FFD·w",
        ),
        _dropout(name(feed_forward, "Dropout"), name(feed_forward), group),
        Layer(
            name(feed_forward, "Add"),
            "Add",
            _SEQUENCE,
            (between, name(feed_forward, "Dropout")),
            group,
        ),
        _norm(name(feed_forward, "Norm"), name(feed_forward, "Add"), group),
    ]


def _mirrored_heads(last: str) -> list[Layer]:
    """Document 004's order, which is that of the functional graph: by depth."""
    dense, norm, similarity, mlm = _mlm_head(last, "S", names.MASKED)
    first, pooler = _pooler(last)
    mask = Layer(names.MASKED, "InputLayer", ("N", "S"), (), "MLM")
    return [dense, norm, first, similarity, mask, pooler, mlm, _nsp()]


def _gathered_heads(last: str) -> list[Layer]:
    """The MLM head on M positions: they come in as ids in place of Input-Masked."""
    dense, norm, similarity, mlm = _mlm_head(names.MLM_GATHER, "M", names.MASKED_POSITIONS)
    first, pooler = _pooler(last)
    positions = Layer(names.MASKED_POSITIONS, "InputLayer", ("N", "M"), (), "MLM")
    gather = Layer(
        names.MLM_GATHER,
        "Gather",
        ("N", "M", "H"),
        (last, names.MASKED_POSITIONS),
        "MLM",
        kept="4·B·M",
    )
    return [positions, gather, dense, norm, first, similarity, pooler, mlm, _nsp()]


def _mlm_head(inputs: str, axis: str, marks: str) -> list[Layer]:
    n, group, shape = names, "MLM", ("N", axis, "H")
    logits = ("N", axis, "T")
    return [
        Layer(
            n.MLM_DENSE,
            "Dense",
            shape,
            (inputs,),
            group,
            params="H·H + H",
            flops=f"2·B·{axis}·H·H",
            kept=f"2·B·{axis}·H·w",  # input and the activation's input
        ),
        Layer(
            n.MLM_NORM,
            "LayerNormalization",
            shape,
            (n.MLM_DENSE,),
            group,
            params="2·H",
            kept=f"B·{axis}·H·w",
        ),
        Layer(
            n.MLM_SIMILARITY,
            "EmbeddingSimilarity",
            logits,
            (n.MLM_NORM, n.TOKEN_EMBEDDING),
            group,
            params="T",
            flops=f"2·B·{axis}·H·T",
            kept=f"B·{axis}·H·w",
        ),
        Layer(n.MLM, "Masked", logits, (n.MLM_SIMILARITY, marks), group, kept=f"4·B·{axis}·T"),
    ]


def _pooler(last: str) -> list[Layer]:
    return [
        Layer(names.FIRST_TOKEN, "Extract", ("N", "H"), (last,), "pooler"),
        Layer(
            names.POOLER,
            "Dense",
            ("N", "H"),
            (names.FIRST_TOKEN,),
            "pooler",
            params="H·H + H",
            flops="2·B·H·H",
            kept="2·B·H·w",  # input and tanh's output
        ),
    ]


def _nsp() -> Layer:
    return Layer(
        names.NSP,
        "Dense",
        ("N", 2),
        (names.POOLER,),
        "NSP",
        params="2·H + 2",
        flops="2·B·H·2",
        kept="4·B·2",
    )


def _classifier(last: str, labels: int) -> list[Layer]:
    group = "classifier"
    return [
        *_pooler(last),
        Layer(names.CLASSIFIER_DROPOUT, "Dropout", ("N", "H"), (names.POOLER,), group, kept="B·H"),
        Layer(
            names.CLASSIFIER,
            "Dense",
            ("N", labels),
            (names.CLASSIFIER_DROPOUT,),
            group,
            params=f"{labels}·H + {labels}",
            flops=f"2·B·H·{labels}",
            kept=f"B·H·w + 4·B·{labels}",
        ),
    ]


def _token_classifier(last: str, labels: int) -> list[Layer]:
    group = "tokens"
    return [
        _dropout(names.TOKEN_CLASSIFIER_DROPOUT, last, group),
        Layer(
            names.TOKEN_CLASSIFIER,
            "Dense",
            ("N", "S", labels),
            (names.TOKEN_CLASSIFIER_DROPOUT,),
            group,
            params=f"{labels}·H + {labels}",
            flops=f"2·B·S·H·{labels}",
            kept=f"B·S·H·w + 4·B·S·{labels}",
        ),
    ]


def _question_answering(last: str) -> list[Layer]:
    group = "qa"
    span = Layer(
        names.SPAN,
        "Dense",
        ("N", "S", 2),
        (last,),
        group,
        params="2·H + 2",
        flops="2·B·S·H·2",
        kept="B·S·H·w + 4·B·S·2",
    )
    return [span] + [
        Layer(name, "Extract", ("N", "S"), (names.SPAN,), group)
        for name in (names.SPAN_START, names.SPAN_END)
    ]


def _dropout(name: str, source: str, group: str) -> Layer:
    return Layer(name, "Dropout", _SEQUENCE, (source,), group, kept="B·S·H")


def _norm(name: str, source: str, group: str) -> Layer:
    return Layer(
        name, "LayerNormalization", _SEQUENCE, (source,), group, params="2·H", kept="B·S·H·w"
    )
