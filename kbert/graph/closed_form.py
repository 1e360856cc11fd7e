"""The rows of the graph in closed form."""

from kbert.graph import names
from kbert.graph.config import BertConfig
from kbert.graph.formulas import compute
from kbert.graph.layer_table import layers
from kbert.graph.spec import GraphSpec
from kbert.graph.summary_rows import Row

GROUPS = ("embeddings", "encoder", "pooler", "MLM", "NSP", "classifier", "tokens", "qa")


def rows(spec: GraphSpec) -> tuple[Row, ...]:
    """The closed form of a built model's summary: a `Row` a layer, in its order."""
    letters = config_letters(spec.config)
    sizes = letters | {"N": None, "S": spec.seq_len, "M": spec.max_predictions}
    outputs = names.TOKEN_EMBEDDING

    def shape_text(shape) -> str:
        if isinstance(shape[0], tuple):
            return "[" + ", ".join(shape_text(part) for part in shape) + "]"
        dims = [str(sizes.get(axis, axis)) for axis in shape]
        return f"({', '.join(dims)})"

    return tuple(
        Row(
            layer.name,
            layer.type,
            shape_text(layer.shape),
            compute(layer.params, letters),
            ", ".join(
                f"{source}[0][{int(source == outputs and layer.name == names.MLM_SIMILARITY)}]"
                for source in layer.inputs
            ),
        )
        for layer in layers(spec)
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
