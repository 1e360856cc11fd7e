"""Formulas in the document's letters: a text that is shown, put into numbers and computed.

One text serves all three, so what is shown is what was counted. The letters are document 004's
(T tokens, H hidden size, A heads, L layers, P positions, FFD feed-forward size), and S (tokens in
a sequence), B (sequences in a batch), M (predicted positions of a sequence), w (bytes of a
number).
"""

import re

_TOKEN = re.compile(r"\(H/A\)|(?<![0-9])[A-Za-z]+")  # a letter right after a number is none


def put_in_numbers(formula: str, letters: dict[str, int]) -> str:
    """`H·H + H` with H = 768 is `768·768 + 768`; (H/A) is shown as the size of a head."""

    def number(match: re.Match) -> str:
        if match[0] == "(H/A)":
            return str(letters["H"] // letters["A"])
        return str(letters[match[0]])

    return _TOKEN.sub(number, formula)


def compute(formula: str, letters: dict[str, int]) -> int:
    """The value of a formula of numbers, letters, +, · and brackets; "" is 0.

    Raises:
        ValueError: anything else.
        KeyError: a letter that `letters` lacks.
    """
    if not formula:
        return 0
    total, rest = _sum(put_in_numbers(formula, letters).replace(" ", ""), formula)
    if rest:
        raise _refused(formula)
    return total


def _sum(text: str, formula: str) -> tuple[int, str]:
    total, rest = _product(text, formula)
    while rest.startswith("+"):
        term, rest = _product(rest[1:], formula)
        total += term
    return total, rest


def _product(text: str, formula: str) -> tuple[int, str]:
    total, rest = _factor(text, formula)
    while rest.startswith("·"):
        factor, rest = _factor(rest[1:], formula)
        total *= factor
    return total, rest


def _factor(text: str, formula: str) -> tuple[int, str]:
    if text.startswith("("):
        value, rest = _sum(text[1:], formula)
        if not rest.startswith(")"):
            raise _refused(formula)
        return value, rest[1:]
    digits = re.match(r"[0-9]*", text)[0]
    if not digits:
        raise _refused(formula)
    return int(digits), text[len(digits) :]


def _refused(formula: str) -> ValueError:
    return ValueError(f"a formula must be numbers, letters, +, · and brackets, got {formula!r}")
