"""The public names of kbert, by what they are for; Sphinx takes the rest from their docstrings."""

import kbert
from from_code.types_of import classes_of

_SECTIONS = {
    "Configurations and counts": "kbert.graph",
    "Models": "kbert.model",
    "Pictures and checks": "kbert.show",
    "Checkpoints": "kbert.checkpoints",
    "Tasks": "kbert.tasks",
    "Text and batches": "kbert.data",
    "Training on slices": "kbert.training",
}
_VALUES = {
    "PRESETS": "Every preset's `BertConfig` by its name.",
    "base": "The `BertConfig` of the paper's base, with 30,000 tokens.",
    "large": "The `BertConfig` of the paper's large, with 30,000 tokens.",
}


def page() -> str:
    """Every public name under the part of kbert that it is of, then the types that they give."""
    homes = {name: _home(name) for name in kbert.__all__ if name != "__version__"}
    parts = []
    for heading, folder in _SECTIONS.items():
        names = sorted((name for name in homes if homes[name] == folder), key=str.lower)
        parts.append(_section(heading, map(_directive, names)))
    objects = [getattr(kbert, name) for name in homes if name not in _VALUES]
    parts.append(
        _section("Types of arguments, results and exceptions", map(_of_type, classes_of(objects)))
    )
    return "\n".join(parts)


def _section(heading: str, directives) -> str:
    text = "\n\n".join(directives)
    return f"## {heading}\n\n```{{eval-rst}}\n{text}\n```\n"


def _home(name: str) -> str:
    """The folder of kbert that a name is of; the values are presets."""
    if name in _VALUES:
        return "kbert.graph"
    return ".".join(getattr(kbert, name).__module__.split(".")[:2])


def _directive(name: str) -> str:
    if name in _VALUES:
        return f".. py:data:: kbert.{name}\n\n   {_VALUES[name]}"
    if name[0].isupper():
        return f".. autoclass:: kbert.{name}\n   :members:"
    return f".. autofunction:: kbert.{name}"


def _of_type(found: type) -> str:
    if issubclass(found, BaseException):
        return f".. autoexception:: {found.__module__}.{found.__name__}"
    members = "" if issubclass(found, dict) or not _is_ours(found) else "\n   :members:"
    return f".. autoclass:: {found.__module__}.{found.__name__}{members}"


def _is_ours(found: type) -> bool:
    """Whether its members are kbert's own, not those of Keras."""
    return all(base.__module__.startswith(("kbert", "builtins")) for base in found.__mro__)
