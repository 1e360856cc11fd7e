"""A long list of tokens as overlapping windows that a model can hold."""

STRIDE = 128  # tokens of a window that are in the one before, at most half of it
LONGEST_QUESTION = 64  # tokens before a window, as Google's run_squad.py


def windows(tokens: int, width: int, overlap: int) -> list[tuple[int, int]]:
    """Return (start, end) of windows of `width` tokens, each `overlap` tokens into the one before.

    The last one ends with the tokens and is as wide as the others: it may overlap more.

    Args:
        tokens: how many there are; no more than `width`: one window.
        width: tokens of a window, at least 1.
        overlap: less than `width`.
    """
    last = max(tokens - width, 0)
    starts = [*range(0, last, width - overlap), last]
    return [(start, min(start + width, tokens)) for start in starts]
