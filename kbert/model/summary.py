"""Summary of a built model: its rows, and Keras's own table."""

import math
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kbert.graph.config import require_positive
from kbert.graph.summary_rows import Row
from kbert.graph.summary_table import summary_text, trained_columns, width_shown
from kbert.graph.trained_parts import TrainedParts
from kbert.ops import keras_internals

if TYPE_CHECKING:
    import keras


def model_rows(model: "keras.Model") -> tuple[Row, ...]:
    """Return the summary rows of a functional `keras.Model`, read from its graph.

    Raises:
        ValueError: the model is not functional, so it has no graph.
    """
    return tuple(_row(*found[:3]) for found in keras_internals.calls(model))


def _row(operation, outputs, sources) -> Row:
    shapes = [str(tuple(tensor.shape)) for tensor in outputs]
    connections = [f"{source.name}[{call}][{output}]" for source, call, output in sources]
    return Row(
        operation.name,
        type(operation).__name__,
        shapes[0] if len(shapes) == 1 else f"[{', '.join(shapes)}]",
        operation.count_params() if hasattr(operation, "count_params") else 0,
        ", ".join(connections),
    )


def print_summary(
    model,
    *,
    line_length: int | None = None,
    positions: Sequence[float] | None = None,
    print_fn: Callable[[str], object] | None = None,
    show_trainable: bool = False,
    layer_range: Sequence[str] | None = None,
    trained: TrainedParts | None = None,
) -> None:
    """Print a functional model's summary; the arguments are those of `keras.Model.summary`.

    With `trained`, the column of trained weights and the totals are those of that fine-tuning.

    If a terminal or notebook is narrower than the table, each name gets a line of its own. A pipe,
    a file and `print_fn` (called once per line) get the table at its natural width.
    """
    if line_length is not None:
        require_positive("line_length", line_length)
    if line_length is None and print_fn is None:
        line_length = width_shown()
    rows = model_rows(model)
    if trained is not None:
        options = trained_columns(rows, trained)
    else:
        mark = (lambda row: _trainable_mark(model.get_layer(row.layer))) if show_trainable else None
        counts = _count(model.weights), _count(model.trainable_weights)
        options = {"counts": counts, "mark": mark}
    text = summary_text(rows, layer_range, width=line_length, positions=positions, **options)
    for line in text.splitlines():
        (print_fn or print)(line)


def keras_table(model) -> str:
    """Return Keras's own table, wide enough to cut nothing (160 columns or more)."""
    rows = model_rows(model)
    name = max(len(f"{row.layer} ({row.type})") for row in rows) + 4
    shape = max(len(row.output_shape) for row in rows) + 4
    source = max(len(part) for row in rows for part in row.connected_to.split(", ")) + 4
    ends = [name, name + shape, name + shape + 16, name + shape + 16 + source]
    lines: list[str] = []
    before = os.environ.get("COLUMNS")
    # Keras makes its console without a width, so the environment's is the one that counts.
    os.environ["COLUMNS"] = str(ends[-1] + 2)
    try:
        import keras

        plain = keras.Model.summary
        plain(
            model,
            line_length=ends[-1],
            positions=[end / ends[-1] for end in ends],
            print_fn=lines.append,
        )
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
    return "\n".join(lines)


def _trainable_mark(layer) -> str:
    if not layer.weights:
        return "-"
    return "Y" if layer.trainable else "N"


def _count(weights) -> int:
    unique = {id(weight): weight for weight in weights}.values()
    return sum(math.prod(weight.shape) for weight in unique)
