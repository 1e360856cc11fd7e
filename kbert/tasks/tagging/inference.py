"""Token classification: a label for every word, such as named entities or parts of speech."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Unpack, overload

from kbert.checkpoints.bert import Bert, label_names
from kbert.data.tokenization.tokenizer import check_text
from kbert.graph import names
from kbert.io import printable
from kbert.tasks.common.checks import listed, longest, require_head, require_tokenizer
from kbert.tasks.common.running import (
    BATCH_SIZE,
    InferenceOptions,
    get_output_function,
    run_windows,
    softmax,
)
from kbert.tasks.tagging.windows import (
    Span,
    Window,
    find_spans,
    join_spans,
    read_words,
    split_windows,
)

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
    bert: Bert, texts: str, **options: Unpack[InferenceOptions]
) -> list[Word]: ...
@overload
def tag(
    bert: Bert, texts: Iterable[str] | Iterable[Words], **options: Unpack[InferenceOptions]
) -> list[list[Word]]: ...
@printable.escape_errors()
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
    tokenizer, limit = require_tokenizer(bert, "tag"), longest(bert)
    texts, known_spans, is_single = _list_texts(bert, texts)
    require_head(bert, "tag", "tokens", [names.TOKEN_CLASSIFIER])
    if known_spans is not None and limit < 3:
        raise ValueError("tag needs a model of 3 tokens or more: [CLS], a token and [SEP]")

    spans: list[list[Span]] = list(known_spans or [[]] * len(texts))

    def encode_windows(part: slice) -> list[list[Window]]:
        """Return windows of texts whose words are known, as in training."""
        encodings = tokenizer.encode_batch(texts[part], add_special_tokens=False)
        pairs = zip(encodings, spans[part], strict=True)
        return [split_windows(tokenizer, encoding, words, limit) for encoding, words in pairs]

    def encode_texts(part: slice) -> list[list[Window]]:
        """Return one window of each text; its words are the tokenizer's."""
        windows = []
        encodings = tokenizer.encode_batch(texts[part], max_length=limit)
        for index, encoding in enumerate(encodings, part.start):
            spans[index], window = read_words(encoding)
            windows.append([window])
        return windows

    encode = encode_texts if known_spans is None else encode_windows
    function = get_output_function(bert, [names.TOKEN_CLASSIFIER], precision)
    labels = label_names(bert, bert.spec.num_labels)
    results: list[list[Word]] = [[] for _ in texts]
    for index, windows, outputs in run_windows(
        bert, "tag", function, [texts], encode, batch_size, progress
    ):
        text = texts[index]
        results[index] = _label_words(text, spans[index], windows, outputs, labels)
    return results[0] if is_single else results


def _label_words(
    text: str, spans: list[Span], windows: list[Window], outputs: list, labels: Sequence[str]
) -> list[Word]:
    """Return a text's words with their most likely labels, by the outputs of its windows."""
    predictions: dict[int, tuple[str, float]] = {}
    for window, (logits,) in zip(windows, outputs, strict=True):
        probabilities = softmax(logits[list(window.tokens)])
        for word, row in zip(window.words, probabilities, strict=True):
            label = labels[int(row.argmax())]
            predictions[word] = label, float(row.max())

    outside = "O" if "O" in labels else labels[0]  # the label of words without a token
    words = []
    for number, (start, end) in enumerate(spans):
        label, probability = predictions.get(number, (outside, 0.0))
        characters = text[start:end]
        words.append(Word(characters, label, probability, start, end))
    return words


def _list_texts(bert: Bert, texts) -> tuple[list[str], list[list[Span]] | None, bool]:
    """Return the texts, their words' spans (None: the tokenizer's), and whether it is one text."""
    if isinstance(texts, Iterable) and not isinstance(texts, (str, bytes)):
        texts = list(texts)
        if any(isinstance(text, (list, tuple)) for text in texts):
            _check_sentences(texts)
            joined, _ = listed([" ".join(words) for words in texts], "texts")
            return joined, [join_spans(words) for words in texts], False

    texts, is_single = listed(texts, "texts")
    punctuation = bert.split_punctuation
    if punctuation is None:
        return texts, None, is_single
    return texts, [find_spans(text, punctuation) for text in texts], is_single


def _check_sentences(sentences: list) -> None:
    """Raise a ValueError unless each is a list of words."""
    for n, sentence in enumerate(sentences):
        if not isinstance(sentence, (list, tuple)):
            raise ValueError(
                f"texts[{n}] must be a list of words, as others are, got {sentence!r:.60}"
            )
        for m, word in enumerate(sentence):
            check_text(word, f"texts[{n}][{m}]")
            if not word.strip():
                raise ValueError(f"texts[{n}][{m}] must be a word, got {word!r}")
