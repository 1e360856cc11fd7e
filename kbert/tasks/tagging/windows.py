"""Words of a text or sentence, and the windows of tokens in which a tagger reads them."""

import bisect
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kbert.data.padding import windows
from kbert.data.tokenization.encodings import Encoding
from kbert.data.tokenization.tokenizer import Tokenizer

Span = tuple[int, int]  # first character, end
# The white space of BERT's tokenizer. Other control characters are dropped and separate no words.
_CHUNK = re.compile(r"[^ \t\n\r\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")


class Window(NamedTuple):
    """Tokens of a sentence, and the words that have their label there.

    Attributes:
        ids: the tokens, with [CLS] and [SEP].
        words: indices of the words.
        tokens: the index of each word's first token in `ids`.
        record: index of the sentence.
        truncated: whether the sentence goes on, but in no window.
    """

    ids: list[int]
    words: tuple[int, ...]
    tokens: tuple[int, ...]
    record: int = 0
    truncated: bool = False

    @property
    def segment_ids(self) -> list[int]:
        return [0] * len(self.ids)


def join_spans(words: Iterable[str]) -> list[Span]:
    """Return the (start, end) of words that are joined by spaces."""
    spans: list[Span] = []
    for word in words:
        start = spans[-1][1] + 1 if spans else 0
        spans.append((start, start + len(word)))
    return spans


def find_punctuation(words: Iterable[str], tokenizer) -> str | None:
    """Learn from a data set how it splits texts into words.

    It is None if its words are the tokenizer's, which splits at punctuation. Else texts are split
    at spaces, and the result is the punctuation that is split off both ends: the characters that
    are words of their own in the data.
    """
    different = sorted(set(words))
    encodings = tokenizer.encode_batch(different, add_special_tokens=False)
    if not any(_has_second_word(encoding) for encoding in encodings):
        return None

    punctuation = ""
    for word in different:
        if len(word) == 1 and unicodedata.category(word)[0] in "PS":
            punctuation += word
    return punctuation


def _has_second_word(encoding: Encoding) -> bool:
    return any(number is not None and number > 0 for number in encoding.word_ids)


def find_spans(text: str, punctuation: str) -> list[Span]:
    """Split at white space, and split each punctuation character off both ends."""
    spans: list[Span] = []
    for match in _CHUNK.finditer(text):
        start = match.start()
        end = match.end()
        chunk = match[0]
        first = end - len(chunk.lstrip(punctuation))  # where its word begins, and ends
        last = start + len(chunk.rstrip(punctuation))
        last = max(first, last)

        spans += [(index, index + 1) for index in range(start, first)]
        if last > first:
            spans.append((first, last))
        spans += [(index, index + 1) for index in range(last, end)]
    return spans


def read_words(encoding: Encoding) -> tuple[list[Span], Window]:
    """Return the spans of the tokenizer's own words, and the whole encoding as their window."""
    tokens_by_word: dict[int, list[int]] = {}
    for token, word in enumerate(encoding.word_ids):
        if word is not None:
            tokens_by_word.setdefault(word, []).append(token)

    spans = []
    first_tokens = []
    for tokens in tokens_by_word.values():
        start, _ = encoding.offsets[tokens[0]]
        _, end = encoding.offsets[tokens[-1]]
        spans.append((start, end))
        first_tokens.append(tokens[0])

    words = tuple(range(len(spans)))
    window = Window(encoding.ids, words, tuple(first_tokens), truncated=encoding.truncated)
    return spans, window


def split_windows(
    tokenizer: Tokenizer, encoding: Encoding, spans: Sequence[Span], max_length: int
) -> list[Window]:
    """Split a sentence into windows that overlap by half, and assign each word to one of them.

    A word's label is at its first token, in the window where that is farthest from the ends. A word
    that the tokenizer drops is in no window. `max_length` counts [CLS] and [SEP].
    """
    first_tokens = _find_first_tokens(encoding, spans)
    width = max_length - 2
    ranges = windows(len(encoding), width, width // 2)
    ends = [end for _, end in ranges]
    assigned: list[list[int]] = [[] for _ in ranges]
    for word, token in first_tokens.items():
        window = bisect.bisect_right(ends, token)  # the first one with this token, of up to three
        best = _choose_window(token, ranges[window : window + 4])
        assigned[window + best].append(word)

    split = []
    for (start, end), words in zip(ranges, assigned, strict=True):
        ids = [tokenizer.cls_id, *encoding.ids[start:end], tokenizer.sep_id]
        tokens = tuple(first_tokens[word] - start + 1 for word in words)
        split.append(Window(ids, tuple(words), tokens))
    return split


def _find_first_tokens(encoding: Encoding, spans: Sequence[Span]) -> dict[int, int]:
    """Return the first token of each word that has one."""
    first_tokens: dict[int, int] = {}
    word = 0
    for token, (start, _) in enumerate(encoding.offsets):
        while word < len(spans) and start >= spans[word][1]:
            word += 1
        if word < len(spans):
            first_tokens.setdefault(word, token)
    return first_tokens


def _choose_window(token: int, ranges: Sequence[tuple[int, int]]) -> int:
    """Return the range in which a token is farthest from the ends; of equals the first."""
    margins = [min(token - start, end - 1 - token) for start, end in ranges]
    return margins.index(max(margins))
