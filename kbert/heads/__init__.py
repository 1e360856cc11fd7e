"""The heads of the graph, one file each: `HEAD` in every other file of this folder.

Graph, builder, checkpoints, accounting and tasks ask a head; none compares names. This package
uses only the standard library: a head names its builder, and whoever builds imports that.
"""

import functools
import importlib
import pkgutil
from collections.abc import Callable, Collection

from kbert.heads.head import Head

_FIRST = ("pretraining", "encoder", "classifier", "tokens", "qa")  # in lists; others follow


def _import_heads() -> dict[str, Head]:
    """Import the heads of this folder, by name."""
    files = {module.name for module in pkgutil.iter_modules(__path__)}
    remaining = sorted(files - {"head", *_FIRST})

    heads = {}
    for file in (*_FIRST, *remaining):
        head = importlib.import_module(f"{__name__}.{file}").HEAD
        heads[head.name] = head
    return heads


HEADS = _import_heads()
HEADS_WITH_LABELS = tuple(name for name, head in HEADS.items() if head.has_labels)


@functools.cache
def load_function(path: str) -> Callable:
    """Import the function that a head names as "module:function"."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def find_head(layers: Collection[str], model_name: str | None = None) -> Head:
    """Return the head of a graph with these layers, given by name, and with this model's name."""
    counts = {name: len(set(head.layers) & set(layers)) for name, head in HEADS.items()}
    most = max(counts.values())
    if not most:
        return HEADS["encoder"]

    matching = [HEADS[name] for name, count in counts.items() if count == most]
    for head in matching:
        if head.model_name == model_name:
            return head
    return matching[0]
