"""Runs of blanks, and words of thousands of characters, shortened before a text is tokenized.

WordPiece gives nothing for blanks, and one unknown token for a word that is too long: the middle of
such a run changes no token. The Rust package takes 80 bytes and a microsecond for each character.
"""

import bisect
import re
from collections.abc import Collection

# Characters of which each stays one of a word, at least, by every vocabulary's rules: letters of
# the common alphabets, Hangul and kana, and emoji. Ideographs are words of their own.
LETTERS = (
    r"0-9A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02af\u0391-\u03a1\u03a3-\u03c9\u0400-\u0481"
    r"\u05d0-\u05ea\u0620-\u064a\u0905-\u0939\u0e01-\u0e30\u3041-\u3096\u30a1-\u30fa\uac00-\ud7a3"
    r"\U0001f300-\U0001faff"
)
BLANKS = r" \t\n\r\u00a0\u3000"
_ACCENTS = r"\u0300-\u036f"  # which stay, or are stripped, and end no word
_WORD, _BLANK = re.compile(f"[{LETTERS}{_ACCENTS}]+"), re.compile(f"[{BLANKS}]+")
_LETTER, _MARK = re.compile(f"[{LETTERS}]"), re.compile(f"[{_ACCENTS}]")
_PUNCTUATION = re.compile(r"[!-/:-@\[-`{-~]")
_BLOCK = 1024  # characters of a run that stay, at each end; no added token may be as long
_LONGEST_TOKEN = 256

Cuts = list[tuple[int, int]]  # where a text was cut, and how many characters are gone up to there


def may_shorten(added: Collection[str]) -> bool:
    """Return whether no added token can be within a run: each has punctuation, and no blank."""
    return all(_is_outside_runs(token) for token in added)


def _is_outside_runs(token: str) -> bool:
    if len(token) > _LONGEST_TOKEN or re.search(r"\s", token):
        return False
    return bool(_PUNCTUATION.search(token))


def shorten(text: str, max_word_chars: int) -> tuple[str, Cuts]:
    """Return a text with the same tokens, whose runs have a few thousand characters at most."""
    pieces: list[str] = []
    cuts: Cuts = []
    position, start, gone = 0, 0, 0
    while position < len(text):
        run = _WORD.match(text, position) or _BLANK.match(text, position)
        position += _BLOCK  # a long run has one of these positions
        if run is None:
            continue

        position = max(position, run.end())
        cut, end = _find_middle(run, max_word_chars)
        if cut < end:
            pieces.append(text[start:cut])
            gone += end - cut
            start = end
            cuts.append((end - gone, gone))

    if not cuts:
        return text, []
    pieces.append(text[start:])
    return "".join(pieces), cuts


def _find_middle(run: re.Match, max_word_chars: int) -> tuple[int, int]:
    """Return where the middle of a run begins and ends; it is empty if the run is short."""
    cut, end = run.start() + _BLOCK, run.end() - _BLOCK
    if end - cut < _BLOCK:
        return 0, 0
    if run.re is _BLANK:
        return cut, end

    first = _LETTER.search(run.string, cut, end)
    last = _LETTER.search(run.string, end, run.end())
    if first is None or last is None:
        return 0, 0
    before = run.string[run.start() : first.start()]
    letters = len(before) - len(_MARK.findall(before))
    if letters <= max_word_chars:
        return 0, 0
    return first.start(), last.start()


def find_original(offset: int, cuts: Cuts) -> int:
    """Return where an offset of a shortened text was before."""
    number = bisect.bisect_right(cuts, offset, key=lambda cut: cut[0])
    if number == 0:
        return offset
    _, gone = cuts[number - 1]
    return offset + gone
