"""The best span of a text, from the two logits of each token."""

import numpy as np

LONGEST_ANSWER = 30  # tokens, as Google's run_squad.py


def best_span(start: np.ndarray, end: np.ndarray, longest: int) -> tuple[float, int, int]:
    """(sum of logits, first token, last token) of the span with the largest sum.

    Args:
        start, end: float (C,) logits of the tokens that a span may be made of.
        longest: tokens of a span at most.
    """
    sums = start[:, None] + end[None, :]  # (C, C)
    ordered = np.triu(np.ones(sums.shape, bool))
    sums = np.where(ordered & ~np.triu(ordered, longest), sums, -np.inf)
    first, last = np.unravel_index(int(sums.argmax()), sums.shape)
    return float(sums[first, last]), int(first), int(last)
