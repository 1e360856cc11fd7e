"""Formulas in the document's letters: a text that is shown, put into numbers and computed.

One text serves all three, so what is shown is what was counted. The letters are those of the
article "Understanding BERT architecture" (T tokens, H hidden size, A heads, L layers, P positions,
FFD feed-forward size), and S (tokens in a sequence), B (sequences in a batch), M (predicted
positions of a sequence), R (positions of a sequence that the last block computes), X (packed texts
in a batch), w (bytes of a number).
"""

import ast
import re
from collections.abc import Mapping
from typing import Any

_TOKEN = re.compile(r"\(H/A\)|(?<![0-9])[A-Za-z]+")  # a letter right after a number is none
_ARITHMETIC = re.compile(r"[0-9+·() ]*")


def put_in_numbers(formula: str, letters: Mapping[str, Any]) -> str:
    """`H·H + H` with H = 768 is `768·768 + 768`; (H/A) is shown as the size of a head.

    In a shape a letter may stand for None: any size.
    """

    def number(match: re.Match) -> str:
        if match[0] == "(H/A)":
            return str(letters["H"] // letters["A"])
        return str(letters[match[0]])

    return _TOKEN.sub(number, formula)


def compute(formula: str, letters: Mapping[str, int]) -> int:
    """Return the value of a formula of numbers, letters, +, · and brackets; "" is 0."""
    if not formula:
        return 0
    try:
        source = put_in_numbers(formula, letters)
        if not _ARITHMETIC.fullmatch(source):
            raise SyntaxError
        expression = source.replace("·", "*")
        tree = ast.parse(expression, mode="eval")
        return _value(tree.body)
    except SyntaxError:
        raise ValueError(
            f"a formula must be numbers, letters, +, · and brackets, got {formula!r}"
        ) from None


def _value(node: ast.expr) -> int:
    match node:
        case ast.BinOp(left, ast.Add(), right):
            return _value(left) + _value(right)
        case ast.BinOp(left, ast.Mult(), right):
            return _value(left) * _value(right)
        case ast.Constant(int(number)):
            return number
    raise SyntaxError
