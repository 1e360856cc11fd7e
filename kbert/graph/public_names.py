"""Public names of a module, which are imported when they are first used."""

import ast
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def attach(module: str, file: str) -> tuple[Callable[[str], Any], list[str]]:
    """Return a module's `__getattr__`, and its public names in order.

    The stub beside the module's file, which type checkers read, imports each name from where it is.
    """
    modules = _read_stub(Path(file).with_suffix(".pyi"))

    def import_name(name: str) -> Any:
        if name not in modules:
            from kbert.graph import aliases

            owner = module.rpartition(".")[2]
            aliases.refuse_attribute(owner, name, modules)
        value = getattr(importlib.import_module(modules[name]), name)
        setattr(sys.modules[module], name, value)
        return value

    return import_name, sorted(modules)


def _read_stub(file: Path) -> dict[str, str]:
    """Return the modules from which a stub imports names, by these names."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    modules = {}
    for statement in tree.body:
        if isinstance(statement, ast.ImportFrom) and statement.module:
            for alias in statement.names:
                modules[alias.name] = statement.module
    return modules
