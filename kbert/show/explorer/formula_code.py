"""Formulas in the document's letters as JavaScript, from their syntax tree.

The text is that of `kbert.graph.formulas`: numbers, letters, +, ·, brackets and the size of a head,
(H/A).
"""

import ast


def javascript(formula: str) -> str:
    """Return an arrow function of an object of BigInts by letter: `({H, T}) => H * T`; "" is 0."""
    if not formula:
        return "() => 0n"
    tree = _parse(formula)
    letters = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return f"({{{', '.join(sorted(letters))}}}) => {_write(tree)}"


def _parse(formula: str) -> ast.expr:
    try:
        return ast.parse(formula.replace("·", "*"), mode="eval").body
    except SyntaxError:
        raise ValueError(
            f"a formula must be numbers, letters, +, · and brackets, got {formula!r}"
        ) from None


def _write(node: ast.expr) -> str:
    match node:
        case ast.Constant(int(number)):
            return f"{number}n"
        case ast.Name(letter):
            return letter
        case ast.BinOp(ast.Name(whole), ast.Div(), ast.Name(heads)):
            return f"({whole} / {heads})"  # of BigInts: rounded down
        case ast.BinOp(left, ast.Add(), right):
            return f"({_write(left)} + {_write(right)})"
        case ast.BinOp(left, ast.Mult(), right):
            return f"{_write(left)} * {_write(right)}"
    raise ValueError(f"a formula must not have {ast.unparse(node)!r}")
