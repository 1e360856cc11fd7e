"""A text in pieces: its tokens, each with a score, and the text between them."""

from collections.abc import Sequence
from dataclasses import dataclass

BLUE, ORANGE = (33, 102, 172), (217, 95, 2)  # for and against; told apart by the colour-blind too


@dataclass(frozen=True)
class Span:
    """A piece of a text.

    Attributes:
        text: the characters.
        tokens: its tokens, most often one; none: what stands between tokens.
        score: the sum of theirs.
        strength: −1 … 1, the score as a part of the largest of the text.
    """

    text: str
    tokens: tuple[str, ...] = ()
    score: float = 0.0
    strength: float = 0.0

    @property
    def colour(self) -> tuple[int, int, int]:
        """Red, green and blue, 0 to 255, of what counts for the answer, or against it."""
        return BLUE if self.strength > 0 else ORANGE

    @property
    def opacity(self) -> float:
        """0 to 0.75: the paper, white or dark, shows through the more the less it counts."""
        return round(0.75 * abs(self.strength), 3)


def spans_of(
    text: str, tokens: Sequence[tuple[int, int, str, float]], truncated: bool = False
) -> list[Span]:
    """Return the pieces of a text, in order, all of it up to its last token.

    Args:
        text: the text.
        tokens: (start, end, token, score), ascending. Tokens that share characters, as two of one
            character do, are one piece.
        truncated: whether there are more: an ellipsis says so.
    """
    groups: list[list] = []
    for start, end, token, score in tokens:
        if groups and start < groups[-1][1]:
            group = groups[-1]
            groups[-1] = [group[0], max(end, group[1]), (*group[2], token), group[3] + score]
        else:
            groups.append([start, end, (token,), score])
    largest = max((abs(group[3]) for group in groups), default=0.0) or 1.0
    found, at = [], 0
    for start, end, names, score in groups:
        if start > at:
            found.append(Span(text[at:start]))
        found.append(Span(text[start:end], names, score, score / largest))
        at = end
    rest = text[at:]
    if truncated and rest.strip():
        rest = " …"
    return [*found, Span(rest)] if rest else found
