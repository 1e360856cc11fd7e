"""Token classification: a label for every word, such as named entities or parts of speech."""

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from kbert.checkpoints.bert import Bert, label_names
from kbert.data.tokenization.encodings import Encoding
from kbert.data.tokenization.tokenizer import check_text
from kbert.graph import names
from kbert.io.progress import progress_bar
from kbert.tasks.checks import listed, longest, require_head, require_tokenizer
from kbert.tasks.running import (
    BATCH_SIZE,
    CHUNK,
    function_of,
    outputs_of,
    run_rows,
    run_texts,
    softmax,
)
from kbert.tasks.tagging.words import Span, cut_into_words, spans_of_words, windows_of

Words = Sequence[str]


@dataclass(frozen=True)
class Word:
    """A word of a text and its label.

    Attributes:
        word: the word as it is in the text.
        label: the most likely label, by the checkpoint's name, else LABEL_0, LABEL_1, …
        probability: the model's probability of the label. It is 0 for a word that the tokenizer
            drops; the label is then O, or the first one.
        start, end: character offsets in the text: text[start:end]; for a list of words, in "
            ".join(words).
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
    texts: Iterable[str] | Iterable[Words],
    *,
    batch_size: int = ...,
    precision: str | None = ...,
    progress: bool = ...,
) -> list[list[Word]]: ...
def tag(
    bert: Bert,
    texts: str | Iterable[str] | Iterable[Words],
    *,
    batch_size: int = BATCH_SIZE,
    precision: str | None = None,
    progress: bool = True,
) -> list[Word] | list[list[Word]]:
    """Label every word, by the prediction for its first piece (the paper, section 5.3).

    A list of words gets one label per word. If kbert trained the model, a text is split into words
    as the training data are (`Bert.split_punctuation`); else into the tokenizer's words, where each
    punctuation mark is a word.

    Args:
        bert: from `kbert.load`, with the head "tokens".
        texts: a str, a list of them, or a list of lists of words.
        batch_size, precision, progress: as for `kbert.embed`.

    Returns:
        For one str, its `Word`s in order; for a list, a list of those. Long lists of words, and
        long texts split as the training data are, are read in windows. Other texts that are too
        long lose the words at the end; a warning has the number of such texts.

    Raises:
        ValueError: a model with another head or a newly initialized one; something that is neither
            a text nor a list of words.
    """
    require_tokenizer(bert, "tag")
    texts, spans, one = _texts_and_spans(bert, texts)
    require_head(bert, "tag", "tokens", [names.TOKEN_CLASSIFIER])
    layer = names.TOKEN_CLASSIFIER
    function = function_of(bert, (layer,), outputs_of(layer), precision)
    found: list = [None] * len(texts)
    if spans is not None:
        run = functools.partial(run_rows, bert, function, batch_size=batch_size)
        with progress_bar(len(texts), " texts", progress) as bar:
            for place, words in _tag_spans(bert, texts, spans, run):
                found[place] = words
                bar.update()
        return found[0] if one else found
    for place, encoding, (logits,) in run_texts(
        bert, "tag", function, texts, batch_size=batch_size, progress=progress
    ):
        found[place] = _words(bert, texts[place], encoding, softmax(logits))
    return found[0] if one else found


def _texts_and_spans(bert: Bert, texts) -> tuple[list[str], list[list[Span]] | None, bool]:
    """Return the texts, their words' spans (None: the tokenizer's), and whether it is one text."""
    plain = isinstance(texts, (str, bytes)) or not isinstance(texts, Iterable)
    given = texts if plain else list(texts)
    if isinstance(given, list) and any(isinstance(text, (list, tuple)) for text in given):
        words = [_listed_words(text, f"texts[{n}]") for n, text in enumerate(given)]
        joined, _ = listed([" ".join(one) for one in words], "texts")
        return joined, [spans_of_words(one) for one in words], False
    found, one = listed(given, "texts")
    if bert.split_punctuation is None:
        return found, None, one
    return found, [cut_into_words(text, bert.split_punctuation) for text in found], one


def _listed_words(words, name: str) -> list[str]:
    """Return a sentence's words; raise a ValueError if it has none."""
    if isinstance(words, str) or not isinstance(words, (list, tuple)):
        raise ValueError(f"{name} must be a list of words, as others are, got {words!r:.60}")
    for n, word in enumerate(words):
        check_text(word, f"{name}[{n}]")
        if not word.strip():
            raise ValueError(f"{name}[{n}] must be a word, got {word!r}")
    return list(words)


def _tag_spans(
    bert: Bert, texts: list[str], spans: list[list[Span]], run
) -> Iterator[tuple[int, list[Word]]]:
    """Yield each text's index and words, read as in training: in windows if they are long."""
    tokenizer, width = require_tokenizer(bert, "tag"), longest(bert) - 2
    if width < 1:
        raise ValueError("tag needs a model of 3 tokens or more: [CLS], a token and [SEP]")
    for start in range(0, len(texts), CHUNK):
        part = slice(start, start + CHUNK)
        encodings = tokenizer.encode_batch(texts[part], add_special_tokens=False).encodings
        rows, owners = [], []
        for place, encoding in enumerate(encodings, start):
            for window in windows_of(encoding, spans[place], width):
                ids = encoding.ids[window.start : window.end]
                rows.append(([tokenizer.cls_id, *ids, tokenizer.sep_id], [0] * (len(ids) + 2)))
                owners.append((place, window))
        labelled: list[dict[int, tuple[str, float]]] = [{} for _ in encodings]
        for row, (logits,) in run(rows):
            place, window = owners[row]
            chosen = softmax(logits[list(window.tokens)])
            labels = label_names(bert, logits.shape[1])
            for word, probabilities in zip(window.words, chosen, strict=True):
                best = int(probabilities.argmax())
                labelled[place - start][word] = labels[best], float(probabilities[best])
        for place, by_word in enumerate(labelled, start):
            yield place, _words_of_spans(bert, texts[place], spans[place], by_word)


def _words_of_spans(
    bert: Bert, text: str, spans: list[Span], labelled: dict[int, tuple[str, float]]
) -> list[Word]:
    labels = label_names(bert, bert.spec.num_labels)
    nothing = "O" if "O" in labels else labels[0]
    return [
        Word(text[start:end], *labelled.get(word, (nothing, 0.0)), start, end)
        for word, (start, end) in enumerate(spans)
    ]


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
