"""The classes of kbert's arguments and results, and its exceptions: for annotations and `except`.

def pick_best(labels: list[kbert.types.Label]) -> str: ...

Like the names of `kbert` itself, they are imported when they are first used. `types.pyi` lists
them.
"""

from kbert.graph import public_names

__getattr__, __all__ = public_names.attach(__name__, __file__)


def __dir__() -> list[str]:
    return __all__
