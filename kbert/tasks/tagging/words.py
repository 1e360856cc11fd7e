"""The words of a text or sentence, and the windows of tokens that a tagger reads them in."""

import bisect
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kbert.data.padding import windows
from kbert.data.tokenization.encodings import Encoding

Span = tuple[int, int]  # first character, end
# The white space of BERT's tokenizer. Other control characters are dropped and separate no words.
_CHUNK = re.compile(r"[^ \t\n\r\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")


class Window(NamedTuple):
    """Tokens of a sentence, and the words that have their label there.

    Attributes:
        start, end: of all its tokens, without [CLS] and [SEP].
        words: numbers of the words.
        tokens: the first token of each, counted from [CLS] on.
    """

    start: int
    end: int
    words: tuple[int, ...]
    tokens: tuple[int, ...]


def spans_of_words(words: Iterable[str]) -> list[Span]:
    """Return the (start, end) of words that are joined by spaces."""
    spans: list[Span] = []
    for word in words:
        start = spans[-1][1] + 1 if spans else 0
        spans.append((start, start + len(word)))
    return spans


def find_punctuation(words: Iterable[str], tokenizer) -> str | None:
    """Learn from a data set how it cuts texts into words.

    Returns:
        None where its words are the tokenizer's, which cuts at punctuation. Else words are what
        stands between spaces, and the result is the punctuation that is cut off their ends: the
        marks that are words of their own in the data.
    """
    different = sorted(set(words))
    encodings = tokenizer.encode_batch(different, add_special_tokens=False)
    if not any(max((n for n in one.word_ids if n is not None), default=0) for one in encodings):
        return None
    single = (word for word in different if len(word) == 1)
    return "".join(mark for mark in single if unicodedata.category(mark)[0] in "PS")


def cut_into_words(text: str, punctuation: str) -> list[Span]:
    """Cut at white space, and cut punctuation off both ends, each mark as a word."""
    spans: list[Span] = []
    for found in _CHUNK.finditer(text):
        chunk, start = found[0], found.start()
        first = len(chunk) - len(chunk.lstrip(punctuation))
        last = max(len(chunk.rstrip(punctuation)), first)
        spans += [(start + n, start + n + 1) for n in range(first)]
        spans += [(start + first, start + last)] if last > first else []
        spans += [(start + n, start + n + 1) for n in range(last, len(chunk))]
    return spans


def windows_of(encoding: Encoding, spans: Sequence[Span], width: int) -> list[Window]:
    """Share a sentence's words out among windows of tokens.

    A word's label is at its first token, in the window where that is farthest from the ends.

    Args:
        encoding: of the text, without [CLS] and [SEP].
        spans: of its words; a word that the tokenizer drops is in no window.
        width: tokens of a window.
    """
    first = _first_tokens(spans, encoding.offsets)
    return [
        Window(start, end, mine, tuple(first[word] - start + 1 for word in mine))
        for start, end, mine in _shared_out(first, len(encoding), width)
    ]


def _first_tokens(spans: Sequence[Span], offsets: Sequence[Span]) -> dict[int, int]:
    """Return the first token of each word that has one."""
    first: dict[int, int] = {}
    word = 0
    for token, (start, _) in enumerate(offsets):
        while word < len(spans) and start >= spans[word][1]:
            word += 1
        if word < len(spans):
            first.setdefault(word, token)
    return first


def _shared_out(first: dict[int, int], tokens: int, width: int):
    """(start, end, words) of each window: its tokens, and the words whose labels count in it."""
    spans = windows(tokens, width, width // 2)
    mine: list[list[int]] = [[] for _ in spans]
    ends = [end for _, end in spans]
    for word, token in first.items():
        place = at = bisect.bisect_right(ends, token)  # the first window that holds it
        room = -1
        while at < len(spans) and spans[at][0] <= token:  # and those behind: two or three
            start, end = spans[at]
            if min(token - start, end - 1 - token) > room:
                room, place = min(token - start, end - 1 - token), at
            at += 1
        mine[place].append(word)
    return [(*span, tuple(words)) for span, words in zip(spans, mine, strict=True)]
