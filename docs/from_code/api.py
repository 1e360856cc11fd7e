"""The public names of kbert, by what they are for; Sphinx takes the rest from their docstrings."""

import kbert

_SECTIONS = {
    "Configurations and counts": "kbert.graph",
    "Models": "kbert.model",
    "Pictures and checks": "kbert.show",
    "Checkpoints": "kbert.checkpoints",
    "Tasks": "kbert.tasks",
    "Text and batches": "kbert.data",
    "Training on slices": "kbert.training",
}
_VALUES = ("PRESETS", "base", "large")


def page() -> str:
    """Every public name under the part of kbert that it is of."""
    parts = []
    homes = {name: _home(name) for name in kbert.__all__ if name != "__version__"}
    for heading, folder in _SECTIONS.items():
        names = sorted((name for name in homes if homes[name] == folder), key=str.lower)
        directives = "\n\n".join(_directive(name) for name in names)
        parts.append(f"## {heading}\n\n```{{eval-rst}}\n{directives}\n```\n")
    return "\n".join(parts)


def _home(name: str) -> str:
    """The folder of kbert that a name is of; values, which know none, are the presets."""
    module = getattr(getattr(kbert, name), "__module__", None) or "kbert.graph"
    return ".".join(module.split(".")[:2])


def _directive(name: str) -> str:
    if name in _VALUES:
        return f".. autodata:: kbert.{name}\n   :no-value:"
    if name[0].isupper():
        return f".. autoclass:: kbert.{name}\n   :members:"
    return f".. autofunction:: kbert.{name}"
