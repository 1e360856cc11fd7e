"""kbert's own file: a .keras that Keras opens, with the tokenizer and settings beside the weights.

    config.json, model.weights.h5, metadata.json    Keras's, as `model.save` writes them
    kbert/bert.json                                 configuration, head, labels, sentence settings
    kbert/vocab.txt, kbert/tokenizer.json, …        the tokenizer's files

A file without the folder kbert, from a plain `model.save`, is read as well. Nothing in the file is
run or deserialized by Keras: the graph is compared with kbert's, and the numbers are read alone.
"""

import contextlib
import dataclasses
import json
import os
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from kbert.checkpoints import tables
from kbert.checkpoints.checkpoint import Checkpoint, Tensor
from kbert.checkpoints.keras_archive import KerasArchive
from kbert.checkpoints.keras_graph import Graph, read_graph
from kbert.config import BertConfig
from kbert.files import beside
from kbert.sentence import SentenceSettings

_OWN = "kbert/bert.json"
_DTYPES = ("float32", "float16", "bfloat16", "float64")
_TOKENIZER = ("vocab.txt", "tokenizer.json", "tokenizer_config.json")


def is_one(path: Path) -> bool:
    """Whether a path is that of a .keras file."""
    return path.suffix == ".keras" and path.is_file()


@contextlib.contextmanager
def opened(path: Path, config: BertConfig | None = None) -> Iterator[Checkpoint]:
    """The checkpoint in a .keras file, for as long as its numbers are read.

    Args:
        path: the file, from `write` or a plain `model.save`.
        config: the configuration to go by; None: the file's.

    Raises:
        OSError: it cannot be read.
        ValueError: a damaged file, another graph than kbert builds, settings that contradict it.
    """
    with contextlib.ExitStack() as stack:
        archive = stack.enter_context(KerasArchive(path))
        own = archive.json(_OWN) if _OWN in archive else {}
        graph = read_graph(archive.json("config.json"), str(path), config or _own_config(own, path))
        tensors, left_out = _tensors(archive, graph)
        yield Checkpoint(
            source=str(path),
            format="keras",
            column="kbert",
            config=graph.config,
            head=graph.head,
            tensors=tensors,
            num_labels=graph.num_labels,
            vocabulary=_vocabulary(archive, stack),
            left_out=left_out,
            **_own_settings(own, graph, path),
        )


def head_said(path: Path) -> str | None:
    """The head that kbert has written beside the weights."""
    with KerasArchive(path) as archive:
        own = archive.json(_OWN) if _OWN in archive else {}
    return own.get("head") if isinstance(own, dict) else None


def check(path: Path) -> None:
    """A ValueError for a path that does not end in .keras."""
    if path.suffix != ".keras":
        raise ValueError(f"the path of a .keras file must end in .keras, got {path}")


def write(bert, path: str | os.PathLike) -> None:
    """Writes a `kbert.Bert` as one file; after `import kbert`, `keras.saving.load_model` opens it.

    The model is saved as it is: its length, dtype policy and, where it is compiled, its optimizer.

    Raises:
        ValueError: a path that does not end in .keras, as Keras wants it.
        OSError: it cannot be written; an old file stays.
    """
    path = Path(path)
    check(path)
    with beside(path) as part, tempfile.TemporaryDirectory(dir=path.parent) as folder:
        whole = Path(folder) / "bert.keras"
        bert.model.save(whole)
        with zipfile.ZipFile(whole, "a", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(_OWN, json.dumps(_settings(bert), indent=2) + "\n")
            if bert.tokenizer is not None:
                positions = bert.config.max_position_embeddings
                bert.tokenizer.save(Path(folder) / "kbert", max_length=positions)
                for name in _TOKENIZER:
                    archive.write(Path(folder) / "kbert" / name, f"kbert/{name}")
        os.replace(whole, part)


def _settings(bert) -> dict:
    return {
        "config": bert.config.to_dict(),
        "head": bert.head,
        "architecture": bert.architecture,
        "labels": bert.labels,
        "sentence": bert.sentence and dataclasses.asdict(bert.sentence),
    }


def _own_config(own: dict, path: Path) -> BertConfig | None:
    if not isinstance(own, dict) or not isinstance(own.get("config", {}), dict):
        raise ValueError(f"{path}: {_OWN} must be an object with a config, got {type(own)}")
    return BertConfig.from_dict(own["config"], source=f"{path}: {_OWN}") if own else None


def _own_settings(own: dict, graph: Graph, path: Path) -> dict:
    """Architecture, labels and sentence settings, as `Checkpoint` has them."""
    labels, sentence = own.get("labels"), own.get("sentence")
    if own and own.get("head") != graph.head:
        raise ValueError(
            f"{path}: {_OWN} must say the head that the graph has, {graph.head}, got "
            f"{own.get('head')!r}"
        )
    if labels is not None and len(labels) != graph.num_labels:
        raise ValueError(
            f"{path}: {_OWN} must have {graph.num_labels} labels, as the graph, got {labels!r}"
        )
    try:
        sentence = sentence and SentenceSettings(**sentence)
    except TypeError:
        fields = ", ".join(field.name for field in dataclasses.fields(SentenceSettings))
        raise ValueError(f"{path}: {_OWN}: sentence must have {fields}, got {sentence}") from None
    return {
        "architecture": own.get("architecture"),
        "labels": labels and tuple(labels),
        "sentence": sentence,
    }


def _tensors(archive, graph: Graph) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """The weights by kbert's names, and what else the file holds: an optimizer's variables."""
    places = _places(graph)
    tensors, left_out = {}, []
    for variable in archive.variables():
        if variable.layer is None:
            left_out.append(variable.path)
            continue
        place = (variable.layer, variable.sublayer, variable.number)
        name = places.get(place, variable.path)
        if place in places and variable.dtype not in _DTYPES:
            raise ValueError(
                f"{archive.path}: {name} must be in one of {', '.join(_DTYPES)}, got "
                f"{variable.dtype}: a quantized model"
            )
        tensors[name] = Tensor(name, variable.shape, variable.dtype, variable.read)
    return tensors, tuple(left_out)


def _places(graph: Graph) -> dict[tuple, str]:
    """kbert's name by (layer, sublayer, number), which is how Keras numbers a layer's variables."""
    counts: dict[tuple[str, str], int] = {}
    places = {}
    for part in tables.PARTS_OF_HEAD[graph.head]:
        for row in tables.rows_of(part, graph.config):
            sublayer = row.variable.rpartition("/")[0]
            number = counts[row.layer, sublayer] = counts.get((row.layer, sublayer), -1) + 1
            places[row.layer, sublayer, str(number)] = row.kbert
    return places


def _vocabulary(archive, stack: contextlib.ExitStack) -> Path | None:
    """A folder with the tokenizer's files; members have fixed names, and cannot leave it."""
    present = [name for name in _TOKENIZER if f"kbert/{name}" in archive]
    if not present:
        return None
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kbert-")))
    for name in present:
        (folder / name).write_bytes(archive.text(f"kbert/{name}"))
    return folder
