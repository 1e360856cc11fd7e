"""Normalization of each code point before words are cut into pieces: a table for other programs.

WordPiece's normalization goes code point by code point, except for one step: where accents are
stripped, the marks that stay are put into Unicode's canonical order (The Unicode Standard, section
3.11).
"""

import itertools
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import tokenizers

from kbert.data.tokenization.vocabulary import Vocabulary, bert_normalizer

ITSELF = -1  # in `Replacements.values`: the code point that is replaced
CLASS_BITS = 21  # a code point takes so many bits of a value; above them stands its class
GONE = (1 << CLASS_BITS) - 1  # stands for a mark of class 0, dropped once marks have their order
_END = 0x110000
_EMPTY = 0x40000, 0xE0000  # planes 4 to 13, which are unassigned and stay as they are
_SPACE = " "
_BETWEEN = "0"  # in no other code point's replacement, and of class 0
_CHUNK = 4096
_DECOMPOSED = tokenizers.normalizers.NFD()


@dataclass(frozen=True, eq=False)
class Replacements:
    """Replacement of each code point: code points, with spaces around single-character words."""

    numbers: np.ndarray  # uint16 (0x110000,), the number of each code point's replacement
    splits: np.ndarray  # int32 (replacements + 1,), where in `values` each begins
    # int32, code points, `ITSELF` or `GONE`; of a mark that may change places with its canonical
    # combining class above `CLASS_BITS`
    values: np.ndarray
    dropped: np.ndarray  # int32, the code points of private use that are dropped

    def add_words(self, points: Iterable[int]) -> "Replacements":
        """Return the table in which these code points stay, each a word by itself."""
        numbers = self.numbers.copy()
        numbers[list(points)] = numbers[ord("!")]  # which is one, by every vocabulary's rules
        return replace(self, numbers=numbers)


def replacements(vocabulary: Vocabulary) -> Replacements:
    """Return the table of a vocabulary's rules, read from the tokenizer itself in some seconds."""
    strip_accents = vocabulary.strip_accents
    if strip_accents is None:
        strip_accents = vocabulary.lowercase
    return _replacements(vocabulary.lowercase, strip_accents, vocabulary.tokenize_chinese_chars)


@cache  # 2 MB for each of the few sets of rules
def _replacements(lowercase: bool, strip_accents: bool, chinese: bool) -> Replacements:
    normalizer = bert_normalizer(lowercase, strip_accents, chinese)
    numbers: dict[tuple[int, ...], int] = {(ITSELF,): 0}
    numbers_by_point = np.zeros(_END, "uint16")
    dropped = []
    for point, text in _normalize_points(normalizer):
        if text == point and not unicodedata.combining(point):
            continue
        entry = _entry(point, text, strip_accents)
        numbers_by_point[ord(point)] = numbers.setdefault(entry, len(numbers))
        if not entry and unicodedata.category(point) == "Co":
            dropped.append(ord(point))

    lengths = [len(entry) for entry in numbers]
    values = list(itertools.chain.from_iterable(numbers))
    return Replacements(
        numbers_by_point,
        np.cumsum([0, *lengths], dtype="int32"),
        np.array(values, "int32"),
        np.array(dropped, "int32"),
    )


def _entry(point: str, text: str, marks_move: bool) -> tuple[int, ...]:
    """Return the values of a code point that becomes `text`."""
    is_stripped = marks_move and not text
    if is_stripped and unicodedata.category(point).startswith("M"):
        # A mark of class 0 ends a run of marks that are put in order.
        first = _DECOMPOSED.normalize_str(point)[0]
        return () if _class_of(first) else (GONE,)

    values = []
    for character in text:
        mark = _class_of(character) if marks_move else 0
        if mark:
            values.append(ord(character) | mark << CLASS_BITS)
        elif character == point:
            values.append(ITSELF)
        else:
            values.append(ord(character))
    return tuple(values)


def _class_of(point: str) -> int:
    """Return the combining class; 0 where the Rust package's tables, which are older, have none."""
    last = "\u0345"  # the one of the highest class
    combining_class = unicodedata.combining(point)
    if not combining_class or point == last:
        return combining_class
    moves = _DECOMPOSED.normalize_str(last + point)[0] != last
    return combining_class if moves else 0


def _normalize_points(normalizer: tokenizers.normalizers.Normalizer) -> Iterator[tuple[str, str]]:
    """Yield each code point and what it becomes, words apart; surrogates are none."""
    before_gap = range(0, _EMPTY[0], _CHUNK)
    after_gap = range(_EMPTY[1], _END, _CHUNK)
    for first in itertools.chain(before_gap, after_gap):
        points = []
        for number in range(first, first + _CHUNK):
            is_surrogate = 0xD800 <= number < 0xE000
            if not is_surrogate and chr(number) != _BETWEEN:
                points.append(chr(number))

        text = _BETWEEN.join(["", *points, ""])
        normalized = normalizer.normalize_str(text)
        replacements = _unify_spaces(normalized).split(_BETWEEN)
        yield from zip(points, replacements[1:-1], strict=True)


def _unify_spaces(text: str) -> str:
    """Return a text with one space for every kind of white space, around punctuation too."""
    pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    pieces, end = [], 0
    for piece, (start, stop) in pre_tokenizer.pre_tokenize_str(text):
        is_alone = len(piece) == 1 and piece != _BETWEEN
        pieces.append(_SPACE * (start - end))
        pieces.append(f" {piece} " if is_alone else piece)
        end = stop
    pieces.append(_SPACE * (len(text) - end))
    return "".join(pieces).replace(2 * _SPACE, _SPACE)
