"""The rows of the graph in closed form, and the arguments that a graph can have."""

from kbert.graph.config import BertConfig, require_positive
from kbert.graph.formulas import compute, put_in_numbers
from kbert.graph.layer_table import layers
from kbert.graph.summary_rows import Row

HEADS = {
    "pretraining": "masked language model and next sentence (document 004)",
    "encoder": "sequence output and pooled output",
    "classifier": "labels for a sequence",
    "tokens": "labels for each token",
    "qa": "start and end of an answer",
}
GROUPS = ("embeddings", "encoder", "pooler", "MLM", "NSP", "classifier", "tokens", "qa")


def check(config: BertConfig, head: str, seq_len: int | None, max_predictions: int | None) -> None:
    """Raises a ValueError for a head, length or number of predictions that no graph can have."""
    if not isinstance(head, str) or head not in HEADS:
        raise ValueError(f"head must be one of {', '.join(HEADS)}, got {head!r}")
    positions = config.max_position_embeddings
    if seq_len is not None:
        require_positive("seq_len", seq_len)
        if seq_len > positions:
            raise ValueError(
                f"seq_len must be at most max_position_embeddings = {positions}, got {seq_len}"
            )
    if max_predictions is not None:
        if head != "pretraining":
            raise ValueError(f"max_predictions goes with head pretraining, got head {head!r}")
        require_positive("max_predictions", max_predictions)
        if max_predictions > (seq_len or positions):
            raise ValueError(
                f"max_predictions must be at most seq_len = {seq_len or positions}, got "
                f"{max_predictions}"
            )


def rows(
    config: BertConfig,
    *,
    head: str = "pretraining",
    seq_len: int | None = None,
    max_predictions: int | None = None,
    num_labels: int = 2,
) -> tuple[Row, ...]:
    """The closed form of a built model's summary.

    Args:
        config: the configuration.
        head: one of `HEADS`.
        seq_len: tokens in a sequence; None: any length, as the graph then shows it.
        max_predictions: predicted positions of the gathered MLM head; None: every position.
        num_labels: labels of the classifiers.

    Returns:
        One `Row` a layer, in the order of `model.summary()`.
    """
    check(config, head, seq_len, max_predictions)
    letters = config_letters(config)
    sizes = letters | {"N": None, "S": seq_len, "M": max_predictions}
    return tuple(
        Row(
            layer.name,
            layer.type,
            put_in_numbers(layer.output_shape, sizes),
            compute(layer.params, letters),
            layer.connected_to,
        )
        for layer in layers(config, head, max_predictions is not None, num_labels)
    )


def config_letters(config: BertConfig) -> dict[str, int]:
    """The document's letters for a configuration."""
    return {
        "T": config.vocab_size,
        "H": config.hidden_size,
        "A": config.num_attention_heads,
        "L": config.num_hidden_layers,
        "P": config.max_position_embeddings,
        "FFD": config.intermediate_size,
    }
