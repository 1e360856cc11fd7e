"""Formulas in the document's letters: a text that is shown, put into numbers and computed.

One text serves all three, so what is shown is what was counted. The letters are document 004's
(T tokens, H hidden size, A heads, L layers, P positions, FFD feed-forward size), and S (tokens in
a sequence), B (sequences in a batch), M (predicted positions of a sequence), w (bytes of a
number).
"""

import re

_TOKEN = re.compile(r"\(H/A\)|[A-Za-z]+")


def put_in_numbers(formula: str, letters: dict[str, int]) -> str:
    """`H·H + H` with H = 768 is `768·768 + 768`; (H/A) is shown as the size of a head."""

    def number(match: re.Match) -> str:
        if match[0] == "(H/A)":
            return str(letters["H"] // letters["A"])
        return str(letters[match[0]])

    return _TOKEN.sub(number, formula)


def compute(formula: str, letters: dict[str, int]) -> int:
    """The value of a formula of numbers, letters, +, · and brackets; "" is 0."""
    total, rest = _sum(put_in_numbers(formula, letters).replace(" ", ""))
    if rest:
        raise ValueError(f"{formula!r} must be made of letters, numbers, +, · and brackets")
    return total


def _sum(text: str) -> tuple[int, str]:
    total, rest = _product(text)
    while rest.startswith("+"):
        term, rest = _product(rest[1:])
        total += term
    return total, rest


def _product(text: str) -> tuple[int, str]:
    total, rest = _factor(text)
    while rest.startswith("·"):
        factor, rest = _factor(rest[1:])
        total *= factor
    return total, rest


def _factor(text: str) -> tuple[int, str]:
    if text.startswith("("):
        value, rest = _sum(text[1:])
        return value, rest.removeprefix(")")
    digits = re.match(r"\d*", text)[0]
    return int(digits or 0), text[len(digits) :]
