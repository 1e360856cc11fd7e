"""The .h5 that `model.save("m.h5")` of Keras 3 writes of kbert's models, ModelCheckpoint's too.

    model_config (an attribute)                      the graph, as config.json of a .keras has it
    model_weights/LAYER/LAYER/intermediate/kernel    a variable, by its layer's name and its own
    optimizer_weights/…                              an optimizer's

Nothing in the file is run: the graph is compared with kbert's, and the numbers are read alone.
"""

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path

from kbert.checkpoints import hdf5
from kbert.checkpoints.checkpoint import Checkpoint
from kbert.graph.config import BertConfig
from kbert.graph.keras_config import read_graph
from kbert.io import json_schema as js
from kbert.io.bounds import damage_in_one_line

_CONFIG, _WEIGHTS = "model_config", "model_weights"
_PACKAGE = "kbert>"  # before the names of kbert's classes
_MODEL = js.fields({"config": js.fields({"layers": js.list_of(js.OBJECT)})})


def is_checkpoint(path: Path) -> bool:
    """Return whether a path is the .h5 file of a model that kbert built."""
    if path.suffix not in (".h5", ".hdf5") or not path.is_file():
        return False
    with contextlib.suppress(ValueError), hdf5.open_file(path) as file:
        return f'"{_PACKAGE}TokenEmbedding"' in _read_text(path, file)
    return False


@contextlib.contextmanager
def open_checkpoint(path: Path, config: BertConfig | None = None) -> Iterator[Checkpoint]:
    """Open the checkpoint in the file, which has no vocabulary."""
    with hdf5.open_file(path) as file:
        values = js.parse(_read_text(path, file), _MODEL, f"{path}: {_CONFIG}")
        for layer in values["config"]["layers"]:
            if isinstance(name := layer.get("class_name"), str):
                layer["class_name"] = name.removeprefix(_PACKAGE)
        tensors, left_out = {}, []
        for path_in_file, tensor in hdf5.list_tensors(path, file).items():
            group, _, name = path_in_file.partition("/")
            if group != _WEIGHTS:
                left_out.append(path_in_file)
                continue
            layer, _, inner = name.partition("/")
            name = inner if inner.startswith(f"{layer}/") else name
            tensors[name] = dataclasses.replace(tensor, name=name)
        graph = read_graph(values, str(path), config)
        yield Checkpoint(str(path), "keras", "kbert", graph, tensors, left_out=tuple(left_out))


def _read_text(path: Path, file) -> str:
    with damage_in_one_line(path, "HDF5"):
        text = file.attrs.get(_CONFIG, "")
    return text.decode(errors="replace") if isinstance(text, bytes) else str(text)
