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
    if not any(max((n for n in one.word_ids if n is not None), default=0) for one in encodings):
        return None
    single = (word for word in different if len(word) == 1)
    return "".join(char for char in single if unicodedata.category(char)[0] in "PS")


def find_spans(text: str, punctuation: str) -> list[Span]:
    """Split at white space, and split each punctuation character off both ends."""
    spans: list[Span] = []
    for match in _CHUNK.finditer(text):
        chunk, start = match[0], match.start()
        first = len(chunk) - len(chunk.lstrip(punctuation))
        last = max(len(chunk.rstrip(punctuation)), first)
        spans += [(start + n, start + n + 1) for n in range(first)]
        spans += [(start + first, start + last)] if last > first else []
        spans += [(start + n, start + n + 1) for n in range(last, len(chunk))]
    return spans


def read_words(encoding: Encoding) -> tuple[list[Span], Window]:
    """Return the spans of the tokenizer's own words, and the whole encoding as their window."""
    tokens: dict[int, list[int]] = {}
    for token, word in enumerate(encoding.word_ids):
        if word is not None:
            tokens.setdefault(word, []).append(token)
    spans = [(encoding.offsets[own[0]][0], encoding.offsets[own[-1]][1]) for own in tokens.values()]
    first = tuple(own[0] for own in tokens.values())
    words = tuple(range(len(spans)))
    return spans, Window(encoding.ids, words, first, truncated=encoding.truncated)


def split_windows(
    tokenizer: Tokenizer, encoding: Encoding, spans: Sequence[Span], max_length: int
) -> list[Window]:
    """Split a sentence into windows that overlap by half, and assign each word to one of them.

    A word's label is at its first token, in the window where that is farthest from the ends. A word
    that the tokenizer drops is in no window. `max_length` counts [CLS] and [SEP].
    """
    first: dict[int, int] = {}  # the first token of each word that has one
    word = 0
    for token, (start, _) in enumerate(encoding.offsets):
        while word < len(spans) and start >= spans[word][1]:
            word += 1
        if word < len(spans):
            first.setdefault(word, token)
    width = max_length - 2
    ranges = windows(len(encoding), width, width // 2)
    ends = [end for _, end in ranges]
    owned: list[list[int]] = [[] for _ in ranges]
    for word, token in first.items():
        at = bisect.bisect_right(ends, token)  # the first window with this token, of up to three
        margins = {
            n: min(token - start, end - 1 - token)
            for n, (start, end) in enumerate(ranges[at : at + 4], at)
            if start <= token
        }
        best = max(margins, key=margins.__getitem__)
        owned[best].append(word)
    return [
        Window(
            [tokenizer.cls_id, *encoding.ids[start:end], tokenizer.sep_id],
            tuple(mine),
            tuple(first[word] - start + 1 for word in mine),
        )
        for (start, end), mine in zip(ranges, owned, strict=True)
    ]
