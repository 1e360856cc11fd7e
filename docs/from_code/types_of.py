"""The classes of kbert that its public names take, give and raise: they are documented too."""

import ast
import functools
import importlib
import inspect
import re
import sys
from collections.abc import Iterable, Iterator


def classes_of(objects: Iterable) -> list[type]:
    """Classes that signatures and docstrings name, and those that theirs do."""
    objects = list(objects)
    found: dict[type, None] = {}
    waiting = list(objects)
    while waiting:
        for one in _named(waiting.pop()):
            if one not in found and one not in objects:
                found[one] = None
                waiting.append(one)
    return sorted(found, key=lambda one: one.__name__)


def _named(thing) -> Iterator[type]:
    module = sys.modules.get(getattr(thing, "__module__", None) or "")
    if module is None or not module.__name__.startswith("kbert"):
        return
    for text in _texts(thing):
        for name in re.findall(r"(?<![\w.])[A-Z]\w+", text):
            yield from _class(_resolved(module, name))
        for path in re.findall(r"kbert(?:\.\w+)+\.[A-Z]\w+", text):
            home, _, name = path.rpartition(".")
            yield from _class(getattr(importlib.import_module(home), name, None))


def _texts(thing) -> Iterator[str]:
    """Annotations and docstrings, of a class with its public members'."""
    members = [value for name, value in vars(thing).items() if name[0] != "_" or name == "__init__"]
    for member in [thing, *(members if isinstance(thing, type) else ())]:
        member = getattr(member, "fget", None) or getattr(member, "__func__", member)
        notes = getattr(member, "__annotations__", None) or {}
        yield from (note if isinstance(note, str) else str(note) for note in notes.values())
        if inspect.isfunction(member) or isinstance(member, type):
            yield inspect.getdoc(member) or ""


def _class(found) -> Iterator[type]:
    if isinstance(found, type) and found.__module__.startswith("kbert"):
        yield found


def _resolved(module, name: str):
    """What a name of a module is; also one that only type checkers import there."""
    return getattr(module, name, None) or _for_checkers(module).get(name)


@functools.cache
def _for_checkers(module) -> dict[str, type]:
    found = {}
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kbert"):
            home = importlib.import_module(node.module)
            found |= {one.name: getattr(home, one.name, None) for one in node.names}
    return found
