"""Prediction with a built model: every id is checked on the host before the computation."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from kbert.graph import names
from kbert.graph.aliases import answer_old_names
from kbert.graph.config import require_positive
from kbert.model.summary import ids_of

if TYPE_CHECKING:
    import keras


@answer_old_names
def predict(
    model: "keras.Model",
    token_ids: ArrayLike,
    segment_ids: ArrayLike | None = None,
    mask_positions: ArrayLike | None = None,
    *,
    batch_size: int = 32,
) -> dict[str, np.ndarray]:
    """Run a model that kbert built.

    Args:
        model: from `build_bert` or another `build_…` function.
        token_ids: whole numbers (B, S), or one sequence (S,), padded with the padding token.
        segment_ids: whole numbers of the same shape; None: all 0.
        mask_positions: the third input, if the model has one: Input-Masked (B, S), not 0 where a
            token is predicted, or Input-Positions (B, M), the positions of these; None: all 0.
        batch_size: sequences per batch.

    Returns:
        The outputs by the names of their layers, as NumPy arrays.

    Raises:
        ValueError: an id outside its table (the message has the id and its index), a wrong shape, a
            sequence longer than the model's, or numbers that are not whole.
    """
    layers = {layer.name: layer for layer in getattr(model, "layers", ())}
    if names.TOKEN_EMBEDDING not in layers:
        raise ValueError(
            f"model must be one that kbert built, with a layer {names.TOKEN_EMBEDDING}, got "
            f"{type(model).__name__}"
        )
    require_positive("batch_size", batch_size)

    token_ids = _as_sequences(token_ids, "token_ids")
    if segment_ids is None:
        segment_ids = np.zeros_like(token_ids)
    segment_ids = _as_sequences(segment_ids, "segment_ids")
    _check_shapes(model, token_ids, segment_ids)
    check_ids(token_ids, layers[names.TOKEN_EMBEDDING].input_dim, "token_ids", "the vocabulary")
    if names.SEGMENT_EMBEDDING in layers:
        types = layers[names.SEGMENT_EMBEDDING].input_dim
        check_ids(segment_ids, types, "segment_ids", "the segment types")

    ids = {names.TOKEN_IDS: token_ids, names.SEGMENT_IDS: segment_ids}
    inputs = [ids[tensor.name] for tensor in ids_of(model)]
    if len(model.inputs) > len(inputs):
        expected = model.inputs[-1]
        positions = _prepare_mask_positions(mask_positions, expected, token_ids)
        inputs.append(positions)

    arrays = [array.astype("int32") for array in inputs]
    outputs = model.predict(arrays, batch_size, verbose=0)
    if not isinstance(outputs, list):
        outputs = [outputs]
    arrays = [np.asarray(output) for output in outputs]
    return dict(zip(model.output_names, arrays, strict=True))


def _prepare_mask_positions(mask_positions, expected, token_ids: np.ndarray) -> np.ndarray:
    """Return the numbers of the third input; `expected` is its tensor."""
    length = expected.shape[1] or token_ids.shape[1]
    shape = (len(token_ids), length)
    if mask_positions is None:
        mask_positions = np.zeros(shape, "int32")
    mask_positions = _as_sequences(mask_positions, "mask_positions")
    if mask_positions.shape != shape:
        raise ValueError(
            f"mask_positions ({expected.name}) must have the shape {shape}, got "
            f"{mask_positions.shape}"
        )
    if expected.name == names.MASKED_POSITIONS:
        check_ids(mask_positions, token_ids.shape[1], "mask_positions", "the sequence")
    return mask_positions


def check_ids(ids: np.ndarray, size: int, name: str, table: str) -> None:
    """Raise a ValueError with the first id outside 0 … size − 1, and its index."""
    wrong = np.argwhere((ids < 0) | (ids >= size))
    if not len(wrong):
        return
    index = tuple(int(axis) for axis in wrong[0])
    more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    raise ValueError(
        f"{name}{list(index)} must be within {table}, 0 … {size - 1}, got {ids[index]}{more}"
    )


def _check_shapes(model, token_ids: np.ndarray, segment_ids: np.ndarray) -> None:
    if token_ids.ndim != 2 or not token_ids.size:
        raise ValueError(
            f"token_ids must be sequences of equal length, (B, S), got shape {token_ids.shape}"
        )
    if segment_ids.shape != token_ids.shape:
        raise ValueError(
            f"segment_ids must have the shape of token_ids, {token_ids.shape}, got "
            f"{segment_ids.shape}"
        )

    length = token_ids.shape[1]
    # The input's own: a probe, or a model of one's own, is of no spec.
    expected = model.inputs[0].shape[1]
    if expected is not None and length != expected:
        raise ValueError(
            f"token_ids must have {expected} tokens a sequence, got {length}: pad them, or build "
            "the model with seq_len=None"
        )
    positions = model.get_layer(names.POSITION_EMBEDDING).longest
    if length > positions:
        raise ValueError(
            f"token_ids must have at most {positions} tokens a sequence, got {length}: cut them"
        )


def _as_sequences(values, name: str) -> np.ndarray:
    """Return whole numbers as an array of at least two axes."""
    try:
        array = np.asarray(values)
    except ValueError:  # rows of different lengths
        raise ValueError(f"{name} must be sequences of equal length: pad them") from None
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"{name} must be whole numbers, got {array.dtype}")
    return np.atleast_2d(array)
