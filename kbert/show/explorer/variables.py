"""The variables of each layer: their names and shapes in every format's checkpoints, as letters."""

from kbert.checkpoints import weight_names
from kbert.graph.config import BertConfig

# All sizes differ, so that a shape in numbers is one in letters too.
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
_LETTERS = {
    31: "T",
    770: "H",
    7: "A",
    110: "(H/A)",
    44: "FFD",
    19: "P",
    3: "G",
    _LABELS: "K",
    2: "2",
}


def variables(head: str) -> list[dict]:
    """Return a head's variables, a block's as those of block {n}, layer {i} of a checkpoint.

    `names` and `shapes` are by format (`kbert.checkpoints.weight_names.COLUMNS`); None where a
    format has no name for it.
    """
    found = []
    for part in weight_names.PARTS_OF_HEAD[head]:
        shapes = {column: _shapes(part, column) for column in weight_names.COLUMNS}
        for row in weight_names.templates_of(part):
            place = (row.layer.replace("{n}", "1"), row.variable)
            found.append(
                {
                    "layer": row.layer,
                    "variable": row.variable,
                    "names": {column: row.names.get(column) for column in weight_names.COLUMNS},
                    "shapes": {column: shapes[column].get(place) for column in shapes},
                }
            )
    return found


def _shapes(part: str, column: str) -> dict[tuple[str, str], str]:
    return {
        (entry.layer, entry.variable): _in_letters(entry.shape)
        for entry in weight_names.entries(part, _SIZES, column, _LABELS)
    }


def _in_letters(shape: tuple[int, ...]) -> str:
    letters = ", ".join(_LETTERS[size] for size in shape)
    return f"({letters},)" if len(shape) == 1 else f"({letters})"
