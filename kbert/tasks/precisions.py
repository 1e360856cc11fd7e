"""Precisions that the tasks can compute in."""

from kbert.io.wording import unknown_choice

# As in training, whose mixed_bfloat16 computes in bfloat16 too: here no weight is learned, so none
# is kept in float32.
PRECISIONS = ("float32", "bfloat16", "mixed_bfloat16")


def dtype_of(precision: str) -> str:
    """Return the dtype of weights and computing.

    Raises:
        ValueError: a precision that is none.
    """
    if precision not in PRECISIONS:
        raise ValueError(unknown_choice("precision", PRECISIONS, precision))
    return precision.removeprefix("mixed_")
