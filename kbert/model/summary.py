"""Summary of a built model."""

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


def trainable_mark(layer) -> str:
    """Return whether a layer is trainable, Y or N; - without weights."""
    return "-" if not layer.weights else "Y" if layer.trainable else "N"
