"""Summary of a built model: its rows, and Keras's own table."""

import os
from typing import TYPE_CHECKING

from kbert.graph.summary_rows import Row
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


def keras_table(model) -> str:
    """Return Keras's own table, wide enough to cut nothing (160 columns or more)."""
    import keras

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
        keras.Model.summary(
            model,
            line_length=ends[-1],
            positions=[end / ends[-1] for end in ends],
            print_fn=lines.append,
        )
    finally:
        del os.environ["COLUMNS"]
        if before is not None:
            os.environ["COLUMNS"] = before
    return "\n".join(lines)


def trainable_mark(layer) -> str:
    """Return whether a layer is trainable, Y or N; - without weights."""
    return "-" if not layer.weights else "Y" if layer.trainable else "N"
