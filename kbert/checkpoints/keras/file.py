"""kbert's own file: a .keras that Keras opens, with weights, tokenizer and settings.

    config.json, model.weights.h5, metadata.json    Keras's, as `model.save` writes them
    kbert/bert.json                                 configuration, head, labels, sentence settings
    kbert/sentence.safetensors                      the dense layers of sentence vectors, if any
    kbert/vocab.txt, kbert/tokenizer.json, …        the tokenizer's files

A file without the folder kbert, from a plain `model.save`, is read as well. So is the .h5 that
`model.save("m.h5")` of Keras 3 and ModelCheckpoint write of kbert's models:

    model_config (an attribute)                      the graph, as config.json of a .keras has it
    model_weights/LAYER/LAYER/intermediate/kernel    a variable, by its layer's name and its own
    optimizer_weights/…                              an optimizer's

Nothing in the files is run or deserialized by Keras: the graph is compared with kbert's, and the
numbers are read alone.
"""

import contextlib
import dataclasses
import json
import os
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from kbert.checkpoints import hdf5, untrained_weights, weight_names
from kbert.checkpoints.checkpoint import HEAD_SETTINGS, Checkpoint, Tensor
from kbert.checkpoints.keras.archive import KerasArchive, package_of
from kbert.checkpoints.sentence_settings import CrossEncoderSettings, SentenceSettings
from kbert.checkpoints.zip_archive import temporary_folder
from kbert.graph.config import BertConfig
from kbert.graph.keras_config import read_graph
from kbert.graph.spec import GraphSpec
from kbert.io import json_schema as js
from kbert.io.atomic_write import atomic_file, part_folder_of

_OWN = "kbert/bert.json"
_DENSE = "kbert/sentence.safetensors"
_SENTENCE = {  # the dataclass checks their values
    field.name: js.ANYTHING for field in dataclasses.fields(SentenceSettings)
}
_REQUIRED = {name: _SENTENCE.pop(name) for name in ("pooling", "normalize")}
_SETTINGS = js.fields(
    {"config": js.OBJECT, "head": js.TEXT},
    {
        "architecture": js.or_null(js.TEXT),
        **HEAD_SETTINGS,
        "newly_initialized": untrained_weights.DIGESTS,
        "sentence": js.or_null(js.fields(_REQUIRED, _SENTENCE, closed=True)),
        "cross_encoder": js.or_null(
            js.fields({"activation": js.or_null(js.TEXT), "prompt": js.TEXT}, closed=True)
        ),
    },
)
_PLAIN = ("architecture", "problem_type", "split_punctuation")  # as `kbert.Bert` has them
_DTYPES = ("float32", "float16", "bfloat16", "float64")
_TOKENIZER = ("vocab.txt", "tokenizer.json", "tokenizer_config.json")
_H5_CONFIG = "model_config"
_H5_WEIGHTS = "model_weights"
_MODEL = js.fields({"config": js.fields({"layers": js.list_of(js.OBJECT)})})


def is_checkpoint(path: Path) -> bool:
    """Return whether a path is a .keras or .h5 file, and no other package's model."""
    if path.suffix == ".keras" and path.is_file():
        return package_of(path) not in ("keras_hub", "keras_nlp")
    return hdf5.recognize_model(path) == "keras"


@contextlib.contextmanager
def open_checkpoint(path: Path, config: BertConfig | None = None) -> Iterator[Checkpoint]:
    """Open the checkpoint in a .keras or .h5 file, from `write` or a plain `model.save`.

    Raise a ValueError for another graph than kbert builds, or settings that contradict it.
    """
    with contextlib.ExitStack() as stack:
        if path.suffix != ".keras":
            file = stack.enter_context(hdf5.open_file(path))
            yield _read_h5_file(path, file, config)
            return

        archive = stack.enter_context(KerasArchive(path))
        settings = archive.json(_OWN, _SETTINGS) if _OWN in archive else {}
        values = archive.json("config.json", js.OBJECT)
        if settings and config is None:
            config = BertConfig.from_dict(settings["config"], source=f"{path}: {_OWN}")
        graph = read_graph(values, str(path), config)
        tensors, left_out = _name_tensors(archive, graph)
        _check_settings(settings, graph, f"{path}: {_OWN}")
        vocabulary = _unpack_tokenizer(archive, stack)

        labels = settings.get("labels")
        sentence = settings.get("sentence")
        cross_encoder = settings.get("cross_encoder")
        plain: dict = {name: settings.get(name) for name in _PLAIN}
        yield Checkpoint(
            "kbert",
            graph,
            tensors,
            **plain,
            labels=tuple(labels) if labels else None,
            sentence=sentence and _read_sentence(sentence, archive),
            untrained=settings.get("newly_initialized") or {},
            cross_encoder=cross_encoder and CrossEncoderSettings(**cross_encoder),
            vocabulary=vocabulary,
            left_out=left_out,
        )


def _unpack_tokenizer(archive: KerasArchive, stack: contextlib.ExitStack) -> Path | None:
    """Write the tokenizer's files to a folder as long as the stack lasts; None without any."""
    # members have fixed names, and cannot leave the folder
    members = [name for name in _TOKENIZER if f"kbert/{name}" in archive]
    if not members:
        return None
    folder = stack.enter_context(temporary_folder(f"{archive.path}: kbert"))
    for name in members:
        (folder / name).write_bytes(archive.text(f"kbert/{name}"))
    return folder


def _read_h5_file(path: Path, file, config: BertConfig | None) -> Checkpoint:
    text = hdf5.read_text(path, file, _H5_CONFIG)
    values = js.parse(text, _MODEL, f"{path}: {_H5_CONFIG}")
    for layer in values["config"]["layers"]:
        class_name = layer.get("class_name")
        if isinstance(class_name, str):
            layer["class_name"] = class_name.removeprefix(hdf5.KBERT_PACKAGE)

    tensors = {}
    left_out = []
    for path_in_file, tensor in hdf5.list_tensors(path, file).items():
        group, _, name = path_in_file.partition("/")
        if group != _H5_WEIGHTS:
            left_out.append(path_in_file)
            continue
        layer_name, _, inner = name.partition("/")
        if inner.startswith(f"{layer_name}/"):
            name = inner
        tensors[name] = tensor

    graph = read_graph(values, str(path), config)
    return Checkpoint("kbert", graph, tensors, left_out=tuple(left_out))


def read_head(path: Path) -> str | None:
    """Return the head that kbert has written beside the weights."""
    if path.suffix != ".keras":
        return None
    with KerasArchive(path) as archive:
        settings = archive.json(_OWN, _SETTINGS) if _OWN in archive else {}
    return settings.get("head")


def check(path: Path) -> None:
    """Raise a ValueError for a path that does not end in .keras."""
    if path.suffix != ".keras":
        raise ValueError(f"the path of a .keras file must end in .keras, got {path}")


def write(bert, path: str | os.PathLike) -> None:
    """Write a `kbert.Bert` as one file; after `import kbert`, `keras.saving.load_model` opens it.

    The model keeps its length, dtype policy and, if it is compiled, its optimizer.
    """
    path = Path(path)
    check(path)
    untrained_weights.warn_of_untrained(bert, path)
    settings = {
        **{name: getattr(bert, name) for name in (*_PLAIN, "head", "labels")},
        "config": bert.config.to_dict(),
        "sentence": bert.sentence and bert.sentence.to_dict(),
        "newly_initialized": untrained_weights.make_digests(bert),
        "cross_encoder": bert.cross_encoder and dataclasses.asdict(bert.cross_encoder),
    }

    with atomic_file(path) as part, part_folder_of(path) as folder:
        whole = folder / "bert.keras"
        bert.model.save(whole)
        with zipfile.ZipFile(whole, "a", zipfile.ZIP_DEFLATED) as archive:
            text = json.dumps(settings, indent=2)
            archive.writestr(_OWN, text + "\n")
            if bert.sentence is not None and bert.sentence.dense:
                from safetensors.numpy import save

                archive.writestr(_DENSE, save(bert.sentence.arrays()))
            if bert.tokenizer is not None:
                _add_tokenizer(archive, bert, folder / "kbert")
        os.replace(whole, part)


def _add_tokenizer(archive: zipfile.ZipFile, bert, folder: Path) -> None:
    """Add the tokenizer's files to a .keras file by way of a folder."""
    bert.tokenizer.save(folder, max_length=bert.config.positions)
    for name in _TOKENIZER:
        if (folder / name).is_file():  # vocab.txt is WordPiece's alone
            archive.write(folder / name, f"kbert/{name}")


def _check_settings(settings: dict, graph: GraphSpec, source: str) -> None:
    """Raise a ValueError for settings that contradict the graph."""
    if settings and settings["head"] != graph.head:
        raise ValueError(
            f"{source} must say the head that the graph has, {graph.head}, got "
            f"{js.short_repr(settings['head'])}"
        )
    labels = settings.get("labels")
    if labels is not None and len(labels) != graph.num_labels:
        raise ValueError(
            f"{source} must have {graph.num_labels} labels, as the graph, got "
            f"{js.short_repr(labels)}"
        )


def _read_sentence(values: dict, archive: KerasArchive) -> SentenceSettings:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        arrays = load(archive.text(_DENSE)) if _DENSE in archive else {}
        return SentenceSettings.from_dict(values, arrays)
    except (TypeError, ValueError, SafetensorError) as error:
        raise ValueError(
            f"{archive.path}: {_OWN} must have sentence settings that fit its weights: {error}"
        ) from None


def _name_tensors(
    archive: KerasArchive, graph: GraphSpec
) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """Return the weights by kbert's names, and the paths of others: an optimizer's variables."""
    names = _number_variables(graph)
    tensors = {}
    left_out = []
    for path, tensor in archive.tensors().items():
        key = archive.find_key(path)
        if key is None:
            left_out.append(path)
            continue
        name = names.get(key, path)
        if name != path and tensor.dtype not in _DTYPES:
            raise ValueError(
                f"{archive.path}: {name} must be in one of {', '.join(_DTYPES)}, got "
                f"{tensor.dtype}: a quantized model"
            )
        tensors[name] = tensor
    return tensors, tuple(left_out)


def _number_variables(graph: GraphSpec) -> dict[tuple[str, str, str], str]:
    """Return kbert's names by layer, sublayer and Keras's number of the variable within it."""
    names = {}
    counts: Counter[tuple[str, str]] = Counter()
    for entry in weight_names.entries_of(graph, "kbert"):
        sublayer = entry.variable.rpartition("/")[0]
        number = counts[entry.layer, sublayer]
        names[entry.layer, sublayer, str(number)] = entry.name
        counts[entry.layer, sublayer] += 1
    return names
