"""BERT in plain Keras 3: inspect its architecture, load a checkpoint, fine-tune, pretrain, export.

Public names are imported when they are first used: `import kbert` does not import Keras. So are
those of `kbert.types`, the classes of arguments and results, and the exceptions. `__init__.pyi`
lists them.
"""

import logging

from kbert import types as types
from kbert.graph import public_names
from kbert.io import printable
from kbert.model.registration import register_with_keras
from kbert.version import __version__ as __version__

__getattr__, _names = public_names.attach(__name__, __file__)
__all__ = ["__version__", *_names]


def __dir__() -> list[str]:
    return sorted(__all__)


logging.getLogger("kbert").addFilter(printable.escape_record)
register_with_keras()
