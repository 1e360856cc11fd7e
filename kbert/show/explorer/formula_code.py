"""Formulas in the document's letters as JavaScript and as MathML, from one syntax tree.

The text is that of `kbert.graph.formulas`: numbers, letters, +, ·, brackets and the size of a head,
(H/A).
"""

import ast
from collections.abc import Mapping

# How each operation, a number, a letter and a pair of brackets are written.
_JAVASCRIPT = {
    ast.Add: "({} + {})",
    ast.Mult: "{} * {}",
    ast.Div: "({} / {})",  # of BigInts: rounded down
    int: "{}n",
    str: "{}",
    tuple: "{}",
}
_MATHML = {
    ast.Add: "{}<mo>+</mo>{}",
    ast.Mult: "{}<mo>·</mo>{}",
    ast.Div: "<mfrac>{}{}</mfrac>",
    int: "<mn>{}</mn>",
    str: "<mi>{}</mi>",
    tuple: "<mrow><mo>(</mo>{}<mo>)</mo></mrow>",
}


def javascript(formula: str) -> str:
    """Return an arrow function of an object of BigInts by letter: `({H, T}) => H * T`; "" is 0."""
    if not formula:
        return "() => 0n"
    source, tree = _parse(formula)
    letters = sorted({node.id for node in ast.walk(tree) if isinstance(node, ast.Name)})
    return f"({{{', '.join(letters)}}}) => {_write(tree, source, _JAVASCRIPT)}"


def mathml(formula: str) -> str:
    """Return the formula as MathML, which browsers set without a script; its brackets are kept."""
    source, tree = _parse(formula)
    return f"<math>{_write(tree, source, _MATHML)}</math>"


def _parse(formula: str) -> tuple[str, ast.expr]:
    source = formula.replace("·", "*")
    try:
        return source, ast.parse(source, mode="eval").body
    except SyntaxError:
        raise ValueError(
            f"a formula must be numbers, letters, +, · and brackets, got {formula!r}"
        ) from None


def _write(node: ast.expr, source: str, signs: Mapping[type, str]) -> str:
    match node:
        case ast.Constant(int(number)):
            return signs[int].format(number)
        case ast.Name(letter):
            return signs[str].format(letter)
        case ast.BinOp(ast.Name(whole), ast.Div(), ast.Name(heads)):
            halves = (signs[str].format(letter) for letter in (whole, heads))
            return signs[ast.Div].format(*halves)
        case ast.BinOp(left, ast.Add() | ast.Mult(), right):
            halves = (_write(half, source, signs) for half in (left, right))
            text = signs[type(node.op)].format(*halves)
            return signs[tuple].format(text) if _has_brackets(node, source) else text
    raise ValueError(f"a formula must not have {ast.unparse(node)!r}")


def _has_brackets(node: ast.expr, source: str) -> bool:
    """Return whether a node has brackets in the source; the tree alone does not tell."""
    before = source.encode()[: node.col_offset].rstrip()
    after = source.encode()[node.end_col_offset :].lstrip()
    return before.endswith(b"(") and after.startswith(b")")
