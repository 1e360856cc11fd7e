"""A model's graph derived from its layers, for verification and for models without a spec."""

from kbert.graph import names
from kbert.graph.keras_config import HEADS_OF_LAYERS
from kbert.graph.spec import HEADS_WITH_LABELS


def told_by_layers(model) -> dict:
    """Return the arguments of its `GraphSpec` but the configuration and the dtype, by name."""
    layers = {layer.name: layer for layer in model.layers}
    last = next((name for name in HEADS_OF_LAYERS if name in layers), "")
    told = {"head": HEADS_OF_LAYERS.get(last, "encoder"), "seq_len": model.inputs[0].shape[1]}
    if names.MASKED_POSITIONS in layers:
        told["max_predictions"] = layers[names.MASKED_POSITIONS].output.shape[1]
    if any(name.endswith(f"-{names.QUERIES}") for name in layers):
        told["selected_positions"] = True
    if names.PACKED_TEXTS in layers:
        told["packed"] = True
    if told["head"] in HEADS_WITH_LABELS:
        told["num_labels"] = layers[last].weights[0].shape[-1]
    return told


def ids_of(model) -> list:
    """Return the model's inputs Input-Token and, where it has segments, Input-Segment."""
    encoded = (names.TOKEN_IDS, names.SEGMENT_IDS)
    return [tensor for tensor in model.inputs if tensor.name in encoded]
