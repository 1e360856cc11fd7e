"""A label for every word: names, parts of speech."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import overload

import numpy as np

from kbert.checkpoints.bert import Bert
from kbert.data.tokenization.encodings import Encoding
from kbert.graph import names
from kbert.tasks.checks import listed, require_head, require_tokenizer
from kbert.tasks.labels import label_names
from kbert.tasks.probabilities import softmax
from kbert.tasks.running import BATCH_SIZE, function_of, outputs_of, run_texts


@dataclass(frozen=True)
class Word:
    """A word of a text and its label; a punctuation mark is a word.

    Attributes:
        word: as it stands in the text.
        label: the likeliest, by the checkpoint's name, else LABEL_0, LABEL_1, …
        probability: the model's for it.
        start, end: where the word stands, in characters: text[start:end].
    """

    word: str
    label: str
    probability: float
    start: int
    end: int


@overload
def tag(  # type: ignore[overload-overlap]  # a str is an Iterable[str]
    bert: Bert,
    texts: str,
    *,
    batch_size: int = ...,
    precision: str | None = ...,
    progress: bool = ...,
) -> list[Word]: ...
@overload
def tag(
    bert: Bert,
    texts: Iterable[str],
    *,
    batch_size: int = ...,
    precision: str | None = ...,
    progress: bool = ...,
) -> list[list[Word]]: ...
def tag(
    bert: Bert,
    texts: str | Iterable[str],
    *,
    batch_size: int = BATCH_SIZE,
    precision: str | None = None,
    progress: bool = True,
) -> list[Word] | list[list[Word]]:
    """The label of every word, which is that of its first piece (the paper, section 5.3).

    Args:
        bert: from `kbert.load`, with the head "tokens".
        texts: a str, or a list of them.
        batch_size, precision, progress: as for `kbert.embed`.

    Returns:
        For one str, its `Word`s in order; for a list, a list of those. Words that are cut off a
        text that is too long are not among them; a warning counts such texts.

    Raises:
        ValueError: a model with another head or without weights in it; what no text is.
    """
    require_tokenizer(bert, "tag")
    texts, one = listed(texts, "texts")
    require_head(bert, "tag", "tokens", [names.TOKEN_CLASSIFIER])
    layer = names.TOKEN_CLASSIFIER
    function = function_of(bert, (layer,), outputs_of(layer), precision)
    found: list = [None] * len(texts)
    for place, encoding, (logits,) in run_texts(
        bert, "tag", function, texts, batch_size=batch_size, progress=progress
    ):
        found[place] = _words(bert, texts[place], encoding, softmax(logits))
    return found[0] if one else found


def _words(bert: Bert, text: str, encoding: Encoding, probabilities: np.ndarray) -> list[Word]:
    labels = label_names(bert, probabilities.shape[1])
    pieces: dict[int, list[int]] = {}
    for place, word in enumerate(encoding.word_ids):
        if word is not None:
            pieces.setdefault(word, []).append(place)
    words = []
    for places in pieces.values():
        start, end = encoding.offsets[places[0]][0], encoding.offsets[places[-1]][1]
        row = probabilities[places[0]]
        best = int(row.argmax())
        words.append(Word(text[start:end], labels[best], float(row[best]), start, end))
    return words
