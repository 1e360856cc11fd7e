"""How densely a Python tree is written: `python tests/project/density.py FOLDER`.

Without docstrings and comments: code lines and tokens; functions by their number of syntax nodes, a
nested function counted in its parent; functions without paragraphs; and the constructs that save
lines and cost a reader time. `--where` lists the places of a construct.
"""

import ast
import collections
import io
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

LONG = 20  # lines: from here on a function has paragraphs
EMPTY_NAMES = {"one", "own", "each", "this", "others", "these"}
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_DISPLAYS = (ast.Tuple, ast.List, ast.Set, ast.IfExp)
_SIMPLE_STATEMENTS = (
    ast.Assign,
    ast.AnnAssign,
    ast.AugAssign,
    ast.Return,
    ast.Expr,
    ast.Raise,
    ast.Assert,
)
_NO_CODE = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
)


@dataclass
class Density:
    """What is counted over a tree.

    Attributes:
        lines, tokens: of code.
        sizes: each function's syntax nodes, by its place.
        long: the places of functions of 20 lines or more.
        unbroken: those of them without a blank line.
        places: the places of each construct.
    """

    lines: int = 0
    tokens: int = 0
    sizes: dict[str, int] = field(default_factory=dict)
    long: list[str] = field(default_factory=list)
    unbroken: list[str] = field(default_factory=list)
    places: dict[str, list[str]] = field(default_factory=lambda: collections.defaultdict(list))

    def above(self, nodes: int) -> list[str]:
        """Return the places of the functions with more syntax nodes."""
        return [place for place, size in self.sizes.items() if size > nodes]

    def per_thousand(self, construct: str) -> float:
        """Return how often a construct occurs in 1,000 code lines."""
        return 1000 * len(self.places[construct]) / self.lines

    def __str__(self) -> str:
        counts = ", ".join(f"{name} {self.per_thousand(name):.1f}" for name in self.places)
        return (
            f"{self.lines:,} code lines, {self.tokens / self.lines:.2f} tokens a line\n"
            f"{len(self.sizes):,} functions, {len(self.above(300))} above 300 nodes, "
            f"{len(self.above(400))} above 400; "
            f"{len(self.unbroken)} of {len(self.long)} long ones without a blank line\n"
            f"in 1,000 code lines: {counts}"
        )


def measure(root: Path) -> Density:
    """Return the density of a folder's Python files."""
    density = Density()
    for path in sorted(root.rglob("*.py")):
        _add_file(density, path)
    return density


def _add_file(density: Density, path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    nodes = list(ast.walk(ast.parse(source)))
    docstrings = _find_docstrings(nodes)

    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE and token.start[0] not in docstrings:
            density.tokens += 1
            lines.update(range(token.start[0], token.end[0] + 1))
    density.lines += len(lines)

    for construct, line in _find_constructs(nodes):
        density.places[construct].append(f"{path}:{line}")

    text = source.splitlines()
    for function in _find_functions(nodes):
        place = f"{path}:{function.lineno} {function.name}"
        body = [statement for statement in function.body if statement.lineno not in docstrings]
        density.sizes[place] = sum(1 for statement in body for _ in ast.walk(statement))
        if body and function.end_lineno - body[0].lineno >= LONG:
            density.long.append(place)
            if all(line.strip() for line in text[body[0].lineno : function.end_lineno]):
                density.unbroken.append(place)


def _find_docstrings(nodes: list[ast.AST]) -> set[int]:
    """Return the lines of all docstrings."""
    lines: set[int] = set()
    for node in nodes:
        may_have_one = isinstance(node, (ast.Module, ast.ClassDef, *_DEFINITIONS))
        if may_have_one and ast.get_docstring(node, clean=False) is not None:
            lines.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return lines


def _find_functions(nodes: list[ast.AST]) -> Iterator:
    """Yield functions and methods, but none that lies within another."""
    nested = set()
    for function in nodes:
        if isinstance(function, _DEFINITIONS):
            inner = [node for node in ast.walk(function) if isinstance(node, _DEFINITIONS)]
            nested.update(id(node) for node in inner if node is not function)
    for node in nodes:
        if isinstance(node, _DEFINITIONS) and id(node) not in nested:
            yield node


def _find_constructs(nodes: list[ast.AST]) -> Iterator[tuple[str, int]]:
    """Yield each construct that is written to save lines, with its line."""
    for node in nodes:
        if isinstance(node, ast.Starred) and isinstance(node.value, _DISPLAYS):
            yield "unpacked literal", node.lineno
        elif isinstance(node, _COMPREHENSIONS) and len(node.generators) > 1:
            yield "comprehension of two loops", node.lineno
        elif isinstance(node, ast.comprehension) and _has_one_element(node.iter):
            yield "loop over one", node.iter.lineno
        elif isinstance(node, ast.BinOp) and _is_list_times_condition(node):
            yield "list times condition", node.lineno
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in ("map", "filter"):
                yield "map or filter", node.lineno
        elif isinstance(node, ast.NamedExpr):
            yield "walrus", node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            if node.id in EMPTY_NAMES:
                yield "empty name", node.lineno
        elif isinstance(node, _SIMPLE_STATEMENTS) and _is_crowded(node):
            yield "crowded statement", node.lineno


def _has_one_element(node: ast.expr) -> bool:
    return isinstance(node, (ast.List, ast.Tuple)) and len(node.elts) == 1


def _is_list_times_condition(node: ast.BinOp) -> bool:
    if not isinstance(node.op, ast.Mult) or not isinstance(node.left, (ast.List, ast.Tuple)):
        return False
    if isinstance(node.right, (ast.Compare, ast.BoolOp)):
        return True
    return isinstance(node.right, ast.Name) and node.right.id.startswith("is_")


def _is_crowded(statement: ast.stmt) -> bool:
    """Return whether a statement holds more than one comprehension, lambda or condition."""
    kinds = (*_COMPREHENSIONS, ast.IfExp, ast.Lambda)
    return sum(isinstance(node, kinds) for node in ast.walk(statement)) > 1


def main(arguments: list[str]) -> None:
    where = None
    if "--where" in arguments:
        where = arguments[arguments.index("--where") + 1]
    root = Path(arguments[0]) if arguments and not arguments[0].startswith("--") else Path("kbert")
    density = measure(root)
    print("\n".join(density.places[where]) if where else density)


if __name__ == "__main__":
    main(sys.argv[1:])
