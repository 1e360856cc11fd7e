"""Read a built model: its summary rows, its spec, its ids."""

from typing import TYPE_CHECKING

from kbert.graph import names
from kbert.graph.closed_form import Row
from kbert.heads import find_head
from kbert.ops import keras_internals

if TYPE_CHECKING:
    import keras


def model_rows(model: "keras.Model") -> tuple[Row, ...]:
    """Return the summary rows of a functional `keras.Model`, read from its graph.

    Raises:
        ValueError: the model is not functional, so it has no graph.
    """
    rows = []
    for operation, outputs, sources, _ in keras_internals.calls(model):
        connections = [f"{source.name}[{call}][{output}]" for source, call, output in sources]
        count = 0
        if hasattr(operation, "count_params"):
            count = operation.count_params()
        row = Row(
            operation.name,
            type(operation).__name__,
            _write_shapes(outputs),
            count,
            ", ".join(connections),
        )
        rows.append(row)
    return tuple(rows)


def _write_shapes(outputs: list) -> str:
    """Return the shape of an output, or of several in brackets."""
    shapes = [str(tuple(tensor.shape)) for tensor in outputs]
    if len(shapes) == 1:
        return shapes[0]
    return f"[{', '.join(shapes)}]"


def read_spec_arguments(model) -> dict:
    """Return the arguments of its `GraphSpec` but the configuration and the dtype, by name."""
    layers = {layer.name: layer for layer in model.layers}
    head = find_head(layers, model.name)
    seq_len = model.inputs[0].shape[1]
    arguments = {"head": head.name, "seq_len": seq_len}
    if names.MASKED_POSITIONS in layers:
        positions = layers[names.MASKED_POSITIONS].output
        arguments["max_predictions"] = positions.shape[1]
    if any(name.endswith(f"-{names.QUERIES}") for name in layers):
        arguments["selected_positions"] = True
    if names.PACKED_TEXTS in layers:
        arguments["packed"] = True
    if head.has_labels:
        classifier = layers[head.layers[0]]
        kernel = classifier.weights[0]
        arguments["num_labels"] = kernel.shape[-1]
    return arguments


def ids_of(model) -> list:
    """Return the model's inputs Input-Token and, where it has segments, Input-Segment."""
    encoded = (names.TOKEN_IDS, names.SEGMENT_IDS)
    return [tensor for tensor in model.inputs if tensor.name in encoded]
