"""Fragments among docstrings: first words that begin no sentence, such as "What" and "Of"."""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

FRAGMENTS = frozenset(
    ("What", "Whether", "Of", "As", "Which", "Where", "Those", "That", "Whose", "Whoever")
)


def read_docstrings(files: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """Yield ("file:line", docstring) of the modules, classes and functions in some files."""
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                text = ast.get_docstring(node)
                if text:
                    yield f"{file}:{node.body[0].lineno}", text


def is_fragment(docstring: str) -> bool:
    return re.split(r"\W", docstring, maxsplit=1)[0] in FRAGMENTS


def find_fragments(files: Iterable[Path]) -> tuple[list[str], int]:
    """Return a line for each fragment in some files, and the number of docstrings."""
    docstrings = list(read_docstrings(files))
    fragments = [
        f"{place} {text.splitlines()[0]}" for place, text in docstrings if is_fragment(text)
    ]
    return fragments, len(docstrings)
