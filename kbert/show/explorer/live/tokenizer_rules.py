"""A WordPiece tokenizer as data: its vocabulary, its rules, and what Rust does to code points."""

import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache

from tokenizers import normalizers, pre_tokenizers

from kbert.data.tokenization.tokenizer import Tokenizer
from kbert.data.tokenization.vocabulary import Vocabulary, bert_normalizer

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_CHUNK = 4096
_EMPTY = 0x40000, 0xE0000  # planes 4 to 13, which are unassigned
_END = 0x110000
_BETWEEN = "0"  # in no other code point's replacement
_LAST_MARK = "\u0345"  # the one of the highest combining class


def describe_tokenizer(tokenizer: Tokenizer, max_length: int, lowercases: bool = False) -> dict:
    """Return the data that page/live/tokenizer.js computes with.

    Texts are cut to `max_length` tokens; with `lowercases` a cased tokenizer gets them lowercased.
    """
    vocabulary = tokenizer.vocabulary
    assert isinstance(vocabulary, Vocabulary)
    strip = vocabulary.strip_accents
    if strip is None:
        strip = vocabulary.lowercase
    lowercase = vocabulary.lowercase or lowercases
    runs = describe_code_points()
    if not vocabulary.tokenize_chinese_chars:
        runs = runs | {"ideographs": ""}

    return {
        "tokens": "\n".join(vocabulary.tokens),
        "added": [_describe_added(vocabulary, entry) for entry in vocabulary.added],
        "special": vocabulary.special_tokens,
        "maskId": tokenizer.mask_id,
        "lowercase": lowercase,
        "stripAccents": strip,
        "maxWordChars": vocabulary.max_word_chars,
        "maxLength": max_length,
        "truncationSide": vocabulary.truncation_side,
        "secondSegment": tokenizer.second_segment,
        "runs": runs,
        "lowercaseRuns": describe_lowercase() if lowercase else "",
        "classes": list_classes() if strip else [],
    }


def _describe_added(vocabulary: Vocabulary, entry: dict) -> dict:
    """Return an added token with the text to look for, which may be normalized."""
    normalized = entry.get("normalized", not entry.get("special", False))
    pattern = entry["content"]
    if normalized:
        rules = vocabulary.lowercase, vocabulary.strip_accents, vocabulary.tokenize_chinese_chars
        pattern = bert_normalizer(*rules).normalize_str(pattern)
    return entry | {"normalized": normalized, "pattern": pattern}


@cache
def describe_code_points() -> dict[str, str]:
    """Return the runs of code points that Rust drops, takes for blanks, and so on."""
    cleaned = _changes(_normalizer(clean_text=True))
    stripped = _changes(_normalizer(strip_accents=True))
    decomposed = _changes(normalizers.NFD())
    accents = {point for point, text in stripped.items() if not text}
    dropped = {point for point, text in cleaned.items() if not text}
    blanks = {point for point, text in cleaned.items() if text}
    blanks |= {ord(" ")}
    return {
        "dropped": write_runs(dropped),
        "blanks": write_runs(blanks),
        "punctuation": write_runs(_find_punctuation()),
        "marks": write_runs(accents),
        "decomposes": write_runs(decomposed),
        "ideographs": write_runs(_changes(_normalizer(handle_chinese_chars=True))),
        "unordered": write_runs(point for point in accents if not _class_of(chr(point))),
    }


def _find_punctuation() -> set[int]:
    """Return the code points that are words of their own, wherever they stand."""
    split = pre_tokenizers.BertPreTokenizer().pre_tokenize_str
    punctuation = set()
    for points in _chunks():
        for word, _ in split(_BETWEEN.join(points)):
            if len(word) == 1 and word != _BETWEEN:
                punctuation.add(ord(word))
    return punctuation


def _normalizer(**options: bool) -> normalizers.Normalizer:
    names = ("clean_text", "handle_chinese_chars", "strip_accents", "lowercase")
    return normalizers.BertNormalizer(**dict.fromkeys(names, False) | options)


@cache
def describe_lowercase() -> str:
    """Return runs of (first, count, step, distance): capitals and how far their letters are."""
    changed = _changes(_normalizer(lowercase=True))
    distances = {}
    for point, text in changed.items():
        if len(text) == 1:
            distances[point] = ord(text) - point

    runs: list[list[int]] = []
    for point, distance in sorted(distances.items()):
        continued = [last for last in runs[-2:] if _continues(last, point, distance)]
        run = continued[0] if continued else None
        if run is None:
            runs.append([point, 1, 1, distance])
        else:
            if run[1] == 1:
                run[2] = point - run[0]
            run[1] += 1
    return ",".join(_write_numbers(run) for run in runs)


def _continues(run: list[int], point: int, distance: int) -> bool:
    first, count, step, distance_of_run = run
    if distance_of_run != distance:
        return False
    if count == 1:
        return point - first in (1, 2)
    return point == first + count * step


@cache
def list_classes() -> list[tuple[int, int]]:
    """Return the combining class of each mark that is not stripped."""
    stripped = _changes(_normalizer(strip_accents=True))
    classes = []
    for point in range(_END):
        if unicodedata.combining(chr(point)) and stripped.get(point) != "":
            combining_class = _class_of(chr(point))
            if combining_class:
                classes.append((point, combining_class))
    return classes


def _class_of(mark: str) -> int:
    """Return the combining class; 0 for a mark that Rust's tables, which are older, lack."""
    combining_class = unicodedata.combining(mark)
    decomposed = normalizers.NFD().normalize_str
    moves = combining_class and decomposed(_LAST_MARK + mark)[0] != _LAST_MARK
    return combining_class if moves or mark == _LAST_MARK else 0


def _changes(normalizer: normalizers.Normalizer) -> dict[int, str]:
    """Return the code points that a normalizer changes, and what they become."""
    changes = {}
    for points in _chunks():
        text = normalizer.normalize_str(_BETWEEN.join(points))
        for point, result in zip(points, text.split(_BETWEEN), strict=True):
            if result != point:
                changes[ord(point)] = result
    return changes


def _chunks() -> Iterator[list[str]]:
    """Yield all code points but surrogates and the digit that stands between them."""
    first_empty, after_empty = _EMPTY
    before = range(0, first_empty, _CHUNK)
    after = range(after_empty, _END, _CHUNK)
    for start in [*before, *after]:
        points = []
        for number in range(start, start + _CHUNK):
            is_surrogate = 0xD800 <= number < 0xE000
            if not is_surrogate and chr(number) != _BETWEEN:
                points.append(chr(number))
        if points:
            yield points


def write_runs(points: Iterable[int]) -> str:
    """Return runs of code points: the gap before each and its length, in base 36."""
    numbers: list[int] = []
    end = 0
    for point in sorted(points):
        if point == end and numbers:
            numbers[-1] += 1
        else:
            numbers += [point - end, 1]
        end = point + 1
    return _write_numbers(numbers)


def _write_numbers(numbers: Iterable[int]) -> str:
    return " ".join(_to_base_36(number) for number in numbers)


def _to_base_36(number: int) -> str:
    digits = ""
    rest = abs(number)
    while rest:
        rest, digit = divmod(rest, 36)
        digits = _DIGITS[digit] + digits
    sign = "-" if number < 0 else ""
    return sign + (digits or "0")
