import ast
import inspect
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

import kbert

FRAGMENTS = {"What", "Whether", "Of", "As", "Which", "Where", "Those", "That", "Whose", "Whoever"}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def public_files() -> list[Path]:
    return [Path(find_spec(module).origin) for module in sorted(set(kbert._PUBLIC.values()))]


def all_files() -> list[Path]:
    return sorted(Path(kbert.__file__).parent.rglob("*.py"))


def read_docstrings(files: list[Path]) -> dict[str, str]:
    """Return the docstrings of some files by their places."""
    docstrings = {}
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, DOCUMENTED) and (text := ast.get_docstring(node)):
                docstrings[f"{file}:{node.body[0].lineno}"] = text
    return docstrings


@pytest.mark.parametrize("files", [public_files, all_files])
def test_fewer_than_3_percent_of_docstrings_are_fragments(files):
    docstrings = read_docstrings(files())
    fragments = [
        f"{place} {text.splitlines()[0]}"
        for place, text in docstrings.items()
        if re.split(r"\W", text, maxsplit=1)[0] in FRAGMENTS
    ]
    assert len(docstrings) > 300
    assert len(fragments) < 0.03 * len(docstrings), "\n".join(fragments)


@pytest.mark.parametrize("name", sorted(kbert._PUBLIC.keys() - {"PRESETS", "base", "large"}))
def test_a_public_name_has_a_docstring_that_begins_with_a_sentence(name):
    summary = inspect.getdoc(getattr(kbert, name)).split("\n\n")[0]
    assert summary[0].isupper() and summary.endswith("."), summary
