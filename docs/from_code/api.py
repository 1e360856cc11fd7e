"""The pages of the Python API: a page per group of public names.

Each page begins with a table of its names, which a code host shows. Below it, Sphinx takes each
name's signature and docstring.
"""

import inspect
import re
from dataclasses import dataclass

import kbert
from from_code.table import table

_VALUES = {
    "PRESETS": "Every preset's `BertConfig` by its name.",
    "base": "The `BertConfig` of the paper's base, with 30,000 tokens.",
    "large": "The `BertConfig` of the paper's large, with 30,000 tokens.",
}


@dataclass(frozen=True)
class Group:
    """A page of the API: its title, and the folders of kbert whose public names it has."""

    title: str
    folders: tuple[str, ...]


# By the name of the page in docs/reference/api.
GROUPS = {
    "counts": Group("Configurations and counts", ("kbert.graph",)),
    "models": Group("Models", ("kbert.model",)),
    "pictures": Group("Pictures and checks", ("kbert.show",)),
    "checkpoints": Group("Checkpoints", ("kbert.checkpoints", "kbert.hub")),
    "tasks": Group("Tasks", ("kbert.tasks",)),
    "text": Group("Text and batches", ("kbert.data",)),
    "training": Group("Training on slices", ("kbert.training", "kbert.planning")),
    "types": Group("Types of arguments, results and exceptions", ()),
}


def index() -> str:
    """Return a table of all public names, in the order of the alphabet, with links."""
    lines = []
    for name in sorted(_public_names(), key=str.lower):
        page = _find_group(name)
        title = GROUPS[page].title
        lines.append(
            (
                f"[`{name}`](api/{page}.md#kbert.{name})",
                _describe(name),
                f"[{title}](api/{page}.md)",
            )
        )
    return table(("name", "what it does", "page"), lines)


def page(group: str) -> str:
    """Return a group's names: the table, then what Sphinx makes of the docstrings."""
    if group == "types":
        return _types_page()

    names = [name for name in _public_names() if _find_group(name) == group]
    names.sort(key=str.lower)
    summary = table(
        ("name", "what it does"),
        [(f"[`{name}`]({group}.md#kbert.{name})", _describe(name)) for name in names],
    )
    return f"{summary}\n{_for_sphinx([_directive(name) for name in names])}"


def _types_page() -> str:
    classes = [getattr(kbert.types, name) for name in kbert.types.__all__]
    lines = []
    for found in classes:
        link = f"[`{found.__name__}`](types.md#kbert.types.{found.__name__})"
        lines.append((link, _find_first_sentence(inspect.getdoc(found))))
    summary = table(("class", "what it is"), lines)
    return f"{summary}\n{_for_sphinx([_directive_of_type(found) for found in classes])}"


def _for_sphinx(directives: list[str]) -> str:
    text = "\n\n".join(directives)
    return f"```{{eval-rst}}\n{text}\n```\n"


def _public_names() -> list[str]:
    return [name for name in kbert.__all__ if name != "__version__"]


def _find_group(name: str) -> str:
    """Return the group of a name: that of the folder it comes from. The values are presets."""
    if name in _VALUES:
        folder = "kbert.graph"
    else:
        folder = ".".join(getattr(kbert, name).__module__.split(".")[:2])

    pages = [page for page, group in GROUPS.items() if folder in group.folders]
    return pages[0]


def _describe(name: str) -> str:
    return _VALUES.get(name) or _find_first_sentence(inspect.getdoc(getattr(kbert, name)))


def _find_first_sentence(docstring: str | None) -> str:
    paragraph = " ".join((docstring or "").partition("\n\n")[0].split())
    sentence = re.split(r"(?<=[.:])\s", paragraph)[0]
    return sentence.rstrip(".:") + "."


def _directive(name: str) -> str:
    if name in _VALUES:
        return f".. py:data:: kbert.{name}\n\n   {_VALUES[name]}"
    if name[0].isupper():
        return f".. autoclass:: kbert.{name}\n   :members:"
    return f".. autofunction:: kbert.{name}"


def _directive_of_type(found: type) -> str:
    name = f"kbert.types.{found.__name__}"
    if issubclass(found, BaseException):
        return f".. autoexception:: {name}"
    if issubclass(found, dict) or not _is_ours(found):
        return f".. autoclass:: {name}"
    return f".. autoclass:: {name}\n   :members:"


def _is_ours(found: type) -> bool:
    """Whether its members are kbert's own, not those of Keras."""
    return all(base.__module__.startswith(("kbert", "builtins")) for base in found.__mro__)
