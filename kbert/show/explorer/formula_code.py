"""Formulas in the document's letters as JavaScript and as MathML, from one syntax tree.

The text is that of `kbert.graph.formulas`: numbers, letters, +, ·, brackets and the size of a head,
(H/A).
"""

import ast
from collections.abc import Iterable


def javascript(formula: str) -> str:
    """Return an arrow function of an object of BigInts by letter: `({H, T}) => H * T`; "" is 0."""
    if not formula:
        return "() => 0n"
    _, tree = _parse(formula)
    letters = sorted({node.id for node in ast.walk(tree) if isinstance(node, ast.Name)})
    return f"({{{', '.join(letters)}}}) => {_js(tree)}"


def functions(formulas: Iterable[str]) -> str:
    """Return a JavaScript object of those functions, by their formulas' texts."""
    lines = [f'"{formula}": {javascript(formula)}' for formula in sorted(set(formulas))]
    return "{\n" + ",\n".join(lines) + "\n}"


def mathml(formula: str) -> str:
    """Return the formula as MathML, which browsers set without a script; its brackets are kept."""
    source, tree = _parse(formula)
    return f"<math>{_ml(tree, source)}</math>"


def _parse(formula: str) -> tuple[str, ast.expr]:
    source = formula.replace("·", "*")
    try:
        return source, ast.parse(source, mode="eval").body
    except SyntaxError:
        raise ValueError(
            f"a formula must be numbers, letters, +, · and brackets, got {formula!r}"
        ) from None


def _js(node: ast.expr) -> str:
    match node:
        case ast.BinOp(left, ast.Add(), right):
            return f"({_js(left)} + {_js(right)})"
        case ast.BinOp(left, ast.Mult(), right):
            return f"{_js(left)} * {_js(right)}"
        case ast.BinOp(ast.Name(whole), ast.Div(), ast.Name(heads)):
            return f"({whole} / {heads})"  # of BigInts: rounded down
        case ast.Constant(int(number)):
            return f"{number}n"
        case ast.Name(letter):
            return letter
    raise ValueError(f"a formula must not have {ast.unparse(node)!r}")


def _ml(node: ast.expr, source: str) -> str:
    match node:
        case ast.BinOp(left, ast.Add(), right):
            inner = f"{_ml(left, source)}<mo>+</mo>{_ml(right, source)}"
        case ast.BinOp(left, ast.Mult(), right):
            inner = f"{_ml(left, source)}<mo>·</mo>{_ml(right, source)}"
        case ast.BinOp(left, ast.Div(), right):
            return f"<mfrac>{_ml(left, source)}{_ml(right, source)}</mfrac>"
        case ast.Constant(int(number)):
            return f"<mn>{number}</mn>"
        case ast.Name(letter):
            return f"<mi>{letter}</mi>"
        case _:
            raise ValueError(f"a formula must not have {ast.unparse(node)!r}")
    return f"<mrow><mo>(</mo>{inner}<mo>)</mo></mrow>" if _has_brackets(node, source) else inner


def _has_brackets(node: ast.expr, source: str) -> bool:
    """Return whether a node has brackets in the source; the tree alone does not tell."""
    before = source.encode()[: node.col_offset].rstrip()
    after = source.encode()[node.end_col_offset :].lstrip()
    return before.endswith(b"(") and after.startswith(b")")
