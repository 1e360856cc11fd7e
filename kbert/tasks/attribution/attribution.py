"""Score of each token, and the text in colours, as HTML or a picture."""

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kbert.io import printable
from kbert.io.atomic_write import check_new_file, write_atomically
from kbert.tasks.attribution import coloured_text
from kbert.tasks.common.pictures import PICTURES

ENDINGS = (".html", *PICTURES)


@dataclass(frozen=True)
class WordScore:
    """A word of the text, with its score.

    Attributes:
        word: the word as it is in the text.
        score: the sum of its tokens' scores.
        text: 0 for the first text, 1 for the pair.
        start, end: its character offsets in that text.
    """

    word: str
    score: float
    text: int
    start: int
    end: int


@dataclass(frozen=True, eq=False, repr=False)
class Attribution:
    """The contribution of each token to an output. A notebook shows the text in colours.

    Attributes:
        tokens: all tokens, [CLS] and [SEP] included.
        scores: float32 (S,), each token's part of `value` − `baseline_value`; 0 for [CLS] and
            [SEP], which are in the baseline too.
        target: the label or token that was attributed, or "cosine".
        value: the output for the text: a probability, a logit or a cosine.
        baseline_value: the output for the baseline.
        error: sum of the scores − (value − baseline_value), 0 for an exact integral.
        steps: number of points of the integral.
        texts: the text, or the two texts.
        offsets: start and end of each token in its text, in characters.
        segments: text of each token, 0 or 1.
        word_ids: index of each token's word; None for [CLS] and [SEP].
        truncated: whether the text was truncated.
        baseline: the token that replaces every other token in the baseline.
        similar_to: the text that the cosine compares with; None for other targets.
    """

    tokens: list[str]
    scores: np.ndarray
    target: str
    value: float
    baseline_value: float
    error: float
    steps: int
    texts: tuple[str, ...]
    offsets: tuple[tuple[int, int], ...]
    segments: tuple[int, ...]
    word_ids: tuple[int | None, ...]
    truncated: bool = False
    baseline: str = "[PAD]"
    similar_to: str | None = None

    def words(self) -> list[WordScore]:
        """Return the words of the text, in its order, each with the sum of its tokens' scores."""
        scores: dict[tuple, WordScore] = {}
        columns = (self.scores, self.offsets, self.segments, self.word_ids)
        for score, offsets, text, word in zip(*columns, strict=True):
            start, end = offsets
            if word is None or start == end:
                continue
            empty = WordScore("", 0.0, text, start, end)
            before = scores.get((text, word), empty)
            total = before.score + float(score)

            first = min(before.start, start)
            last = max(before.end, end)
            characters = self.texts[text][first:last]
            scores[text, word] = WordScore(characters, total, text, first, last)
        return list(scores.values())

    def summary(self) -> str:
        """Return one line: what was attributed, and how near the scores' sum is to it."""
        return (
            f"{printable.cut(self.target, 30)} {self.value:.4f}, of the baseline "
            f"{self.baseline_value:.4f}; the scores sum to {self.scores.sum():+.4f}, "
            f"{abs(self.error):.1e} off ({self.steps} steps)"
        )

    def title(self) -> str:
        """Return one line on what was attributed."""
        return f"What counts for {printable.cut(self.target, 30)}: {self.value:.4f}"

    def notes(self) -> list[str]:
        """Return sentences on the baseline, and how near the scores' sum is to the difference."""
        notes = [
            f"Baseline: the same text with {self.baseline} for every token, "
            f"{self.baseline_value:.4f}.",
            f"The scores sum to {self.scores.sum():+.4f}, {abs(self.error):.1e} off the difference "
            f"({self.steps} steps).",
        ]
        if self.similar_to is not None:
            notes.insert(0, f"Compared with: {self.similar_to}")
        return notes

    def save(self, path: str | os.PathLike) -> Path:
        """Write the coloured text: a page (.html), or a picture (.png, .svg, .pdf).

        Raises:
            ValueError: another ending.
            OSError: the file cannot be written; an old one stays.
        """
        path = check_new_file(path, ENDINGS)
        title = self.title()
        notes = self.notes()
        spans = self._spans()
        if path.suffix.lower() == ".html":
            page = coloured_text.write_page(title, notes, spans)
            write_atomically(path, page.encode())
        else:
            from kbert.tasks.attribution.picture import draw

            draw(title, notes, spans, path)
        return path

    def to_dict(self) -> dict:
        """Return every attribute, and the words, for JSON."""
        values = {}
        for field in dataclasses.fields(self):
            values[field.name] = getattr(self, field.name)
        values["scores"] = self.scores.tolist()
        values["words"] = [dataclasses.asdict(word) for word in self.words()]
        return values

    def _spans(self) -> list[list[coloured_text.Span]]:
        tokens: list[list] = [[] for _ in self.texts]
        columns = (self.segments, self.word_ids, self.offsets, self.tokens, self.scores)
        for text, word, offsets, token, score in zip(*columns, strict=True):
            if word is not None:
                start, end = offsets
                tokens[text].append((start, end, token, float(score)))
        spans = []
        for text_tokens, characters in zip(tokens, self.texts, strict=True):
            spans.append(coloured_text.split_text(characters, text_tokens, self.truncated))
        return spans

    def _repr_html_(self) -> str:
        title = self.title()
        notes = self.notes()
        spans = self._spans()
        return coloured_text.write_fragment(title, notes, spans)

    def __repr__(self) -> str:
        return f"Attribution({len(self.tokens)} tokens; {self.summary()})"
