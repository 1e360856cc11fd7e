"""Detection of a checkpoint's format, and the readers and writers of all formats."""

import contextlib
import dataclasses
import importlib
import os
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbert.checkpoints import run_models
from kbert.checkpoints.model_files import SOURCE_FILE
from kbert.checkpoints.zip_archive import unpack
from kbert.graph.config import BertConfig
from kbert.io import bounds, folders
from kbert.io.atomic_write import check_new_file, refuse_existing
from kbert.io.file_kinds import hint_of_ending
from kbert.io.interrupted_saves import is_unmoved, open_whole
from kbert.io.wording import check_choice, way_to_overwrite

if TYPE_CHECKING:
    from kbert.checkpoints.checkpoint import Backbone, Checkpoint

# Modules of `kbert.hub`, which imports this folder: imported where they are needed.
HUB = {
    "fetching": "kbert.hub.fetching",
    "names": "kbert.hub.names",
    "pushing": "kbert.hub.pushing",
}
# Each reader has `is_checkpoint(path)` and `open_checkpoint(path, config)`.
READERS = {
    "transformers": "kbert.checkpoints.transformers.folder",
    "google": "kbert.checkpoints.google_folder",
    "keras_bert": "kbert.checkpoints.keras_bert_file",
    "keras": "kbert.checkpoints.keras.file",
    "keras_hub": "kbert.checkpoints.keras_hub.preset",
}
# Patterns of the files in a folder of each format. A folder with one of them may be of that
# format: its reader then decides.
_IN_FOLDERS = {
    "transformers": (
        "model.safetensors",
        "model.safetensors.index.json",
        "pytorch_model.bin",
        "pytorch_model.bin.index.json",
        "tf_model.h5",
        "tf_model.h5.index.json",
        "modules.json",
    ),
    "google": ("*.ckpt*.index",),
    "keras_hub": ("model.weights.h5", "model.weights.json"),
}
# The formats that a file may have, by the ending of its name.
_OF_FILES = {
    ".safetensors": ("transformers",),
    ".bin": ("transformers",),
    ".pt": ("transformers",),
    ".pth": ("transformers",),
    ".ckpt": ("transformers",),
    ".h5": ("transformers", "keras_bert", "keras"),
    ".hdf5": ("transformers", "keras_bert", "keras"),
    ".index": ("google",),
    ".keras": ("keras", "keras_hub"),
}
# Each writer is a function of (bert, path) and its own of `OPTIONS`.
WRITERS = {
    "transformers": "kbert.checkpoints.transformers.folder",
    "transformers_onnx": "kbert.exports.onnx_folder",
    "google": "kbert.checkpoints.google_folder",
    "keras_hub": "kbert.checkpoints.keras_hub.writer",
    "keras": "kbert.checkpoints.keras.file",
    "saved_model": "kbert.exports.saved_model",
    "onnx": "kbert.exports.onnx",
    "litert": "kbert.exports.litert",
    "peft": "kbert.checkpoints.adapters.peft_folder",
}
OPTIONS = {  # of `save`, and the formats that have them
    "architecture": ("transformers", "transformers_onnx"),
    "quantize": ("onnx", "transformers_onnx"),
    "calibration": ("onnx", "transformers_onnx"),
    "text": ("saved_model",),
}
_READ_AS = {"transformers_onnx": "transformers"}  # what reads a format that is called otherwise
_ENDINGS = {".keras": "keras", ".onnx": "onnx", ".tflite": "litert"}
_FOR_INFERENCE = "which is for inference: give the checkpoint that it was made from"
# What lies in a folder, or ends a file's name, that kbert knows and does not read.
_OTHERS = {
    "flax_model.msgpack": "weights of transformers' Flax classes",
    "saved_model.pb": "a SavedModel, which is for serving",
    "adapter_config.json": "an adapter of PEFT, which kbert.load(BASE, adapter=…) opens",
    "*.onnx": f"an ONNX model, {_FOR_INFERENCE}",
    "onnx/*.onnx": f"an ONNX model, {_FOR_INFERENCE}",
    "openvino_model.xml": f"an OpenVINO model, {_FOR_INFERENCE}",
    "openvino/*.xml": f"an OpenVINO model, {_FOR_INFERENCE}",
    "*.tflite": f"a LiteRT model, {_FOR_INFERENCE}",
    "*.gguf": f"a GGUF model, {_FOR_INFERENCE}",
    "rust_model.ot": "weights of rust-bert",
}
# Endings of paths that mean a file; any other, as in bert-base.en, is of a folder's name.
_OF_OTHER_FILES = re.compile(
    r"\.(bin|ckpt|gguf|hdf5|index|mlmodel|mlpackage|msgpack|np[yz]|ot|pb|pickle|pkl|pth?|safetensors"
    r"|csv|html?|jsonl?|md|tsv|txt|xml|ya?ml|gz|pdf|png|svg|tar|tgz)",
    re.IGNORECASE,
)
_OTHER_FILES = {".onnx": "an ONNX file", ".tflite": "a LiteRT file"}
# Paths in the caches of Hugging Face (models--OWNER--NAME) and Kaggle (models/, five levels).
_IN_CACHE = re.compile(r"/models--|/models/([^/]+/){4}\d+(/|$)")


@contextlib.contextmanager
def open_checkpoint(
    source: "str | os.PathLike | Backbone",
    config: BertConfig | None = None,
    form: str | None = None,
) -> "Iterator[Checkpoint]":
    """Open a checkpoint by path or name, or a KerasHub backbone; read its tensors meanwhile."""
    if not isinstance(source, (str, os.PathLike)):
        with _reader("keras_hub").open_backbone(source) as checkpoint:
            yield dataclasses.replace(checkpoint, format="keras_hub")
        return

    path = locate(source)
    address = _find_address(path)
    is_in_run = (path.parent / run_models.SETTINGS_FILE).is_file()
    card = run_models.find_card(path) if is_in_run else None
    with contextlib.ExitStack() as stack:
        opening = unpack(path) if path.suffix == ".zip" else open_whole(path)
        path = stack.enter_context(opening)
        form = form or recognize(path)
        checkpoint = stack.enter_context(_reader(form).open_checkpoint(path, config))
        blocks = checkpoint.spec.config.num_hidden_layers
        bounds.check_blocks(str(path), blocks, len(checkpoint.tensors))
        yield dataclasses.replace(
            checkpoint,
            source=str(source),
            format=form,
            address=address,
            card=card,
            files=checkpoint.files or (path.name,),
        )


def locate(source: str | os.PathLike) -> Path:
    """Return the file or folder of a path or a model's name; download the model if necessary.

    A run's folder leads to its model, Google's prefix to the index of that name.
    """
    path = Path(source)
    if not os.fspath(source):
        raise ValueError("a checkpoint's path must be given, got an empty one")
    if is_unmoved(path):
        return path

    if not path.exists() and path.with_name(f"{path.name}.index").is_file():
        # bert_model.ckpt, as Google's own code is given it
        path = path.with_name(f"{path.name}.index")
    else:
        path = find_path(source)
    bounds.check_regular(path)

    has_settings = (path / run_models.SETTINGS_FILE).is_file()
    is_run = has_settings and run_models.is_run(path)
    return run_models.model_of(path) if is_run else path


def find_path(source: str | os.PathLike) -> Path:
    """Return the path of a local path, else of a model's name, which `kbert.hub` knows.

    `kbert.hub` is also asked about a local path of one or two parts, such as owner/name: it says
    which of the two is taken.
    """
    path = Path(source)
    may_be_name = len(path.parts) <= 2 and not path.is_absolute()
    if path.exists() and not may_be_name and not _is_in_cache(path):
        return path
    return import_hub("fetching").locate(source)


def _find_address(path: Path) -> str | None:
    """Return the address, with the commit, of a path in a hub's cache or a downloaded copy."""
    if _is_in_cache(path) or (path / SOURCE_FILE).is_file():
        return import_hub("fetching").address_of(path)
    return None


def _is_in_cache(path: Path) -> bool:
    """Return whether a path looks like one in a hub's cache."""
    return _IN_CACHE.search(path.absolute().as_posix()) is not None


def import_hub(module: str) -> Any:
    """Import one of the modules of `HUB`."""
    return importlib.import_module(HUB[module])


def recognize(path: Path) -> str:
    """Return the format at a path, one of `READERS`; raise for none, several or unread ones."""
    matches = _list_formats(path)
    if len(matches) > 1:
        raise ValueError(
            f"{path} must hold one checkpoint, got files of {' and of '.join(matches)}: choose "
            "with format= (--format of kbert convert)"
        )
    if not matches:
        raise _explain_unread(path)
    return matches[0]


def _explain_unread(path: Path) -> Exception:
    """Return the error for a path without a checkpoint that kbert reads: what it has, or lacks."""
    for pattern, what in _OTHERS.items():
        files = sorted(path.glob(pattern)) if path.is_dir() else []
        if files:
            name = files[0].relative_to(path)
            return ValueError(
                f"{path} must hold weights that kbert reads, got {name} alone: {what}"
            )

    kind = _OTHER_FILES.get(path.suffix)
    if kind:
        return ValueError(f"{path} must be a checkpoint, got {kind}, which is for inference")
    if not path.is_file():
        return FileNotFoundError(f"{path}: {_what_is_missing(path)}")

    message = (
        f"{path} must be a folder, a .zip, a .keras or a keras_bert .h5 file, or weights "
        "(.safetensors, .bin, .pt, …) with config.json in their folder, got another file"
    )
    endings = (".json", ".safetensors", ".bin", ".h5", ".index", ".txt")
    looks_like_part = path.suffix in endings or ".data-" in path.name
    if looks_like_part and _list_formats(path.parent):
        message += f": give its folder, {path.parent}"
    return ValueError(message)


def read_head(source: str | os.PathLike, form: str | None = None) -> str | None:
    """Return the head that a checkpoint's own description states; None if it states none."""
    path = locate(source)
    if path.suffix == ".zip":
        return None
    with open_whole(path) as whole:
        read = getattr(_reader(form or recognize(whole)), "read_head", None)
        try:
            return read and read(whole)
        except ValueError:  # what is wrong with it is said when it is opened
            return None


def format_for(path: Path) -> str:
    """Return the format for the ending of a path to write to; refuse those that are only read."""
    path = Path(path)
    if path.suffix in _ENDINGS:
        return _ENDINGS[path.suffix]

    expected = f"{path} must be a folder, or a file that ends in {', '.join(_ENDINGS)}, got "
    if path.suffix in (".zip", ".h5"):
        raise ValueError(f"{expected}{path.suffix}, which kbert reads and does not write")
    near = hint_of_ending(path, _ENDINGS)
    means_a_file = near or _OF_OTHER_FILES.fullmatch(path.suffix)
    if means_a_file and not path.is_dir():
        way = "For a folder of that name, give format='transformers' (--to transformers)"
        raise ValueError(f"{expected}{path.suffix}: {near or 'leave it out.'} {way}")
    return "transformers"


def writer(form: str):
    """Return the function (bert, path) that writes a format."""
    check_choice(form, WRITERS, "format")
    return importlib.import_module(WRITERS[form]).write


def check_options(form: str, options: Collection[str]) -> None:
    """Raise a ValueError for an option that a format does not have."""
    for name in options:
        if form not in OPTIONS[name]:
            forms = " or ".join(OPTIONS[name])
            raise ValueError(f"{name} is an option of the format {forms}, got the format {form}")


def check_destination(path: Path, form: str) -> None:
    """Raise if a format cannot be written to a path, or on this machine, before any computation."""
    module = importlib.import_module(WRITERS[form])
    if form in _ENDINGS.values():
        endings = [ending for ending in _ENDINGS if _ENDINGS[ending] == form]
        check_new_file(path, endings, f"the path of format {form}", overwrite=True)
    elif path.exists() and not path.is_dir():
        raise NotADirectoryError(f"{path}: a file, not a folder")
    elif path.suffix in _ENDINGS and not path.exists():
        raise ValueError(
            f"format {form} is written as a folder, got {path}: leave {path.suffix} out"
        )
    check = getattr(module, "check", None)
    if check:
        check(path)

    if not path.is_dir():
        return
    if run_models.is_run(path):
        raise ValueError(
            f"{path} is the folder of a run, which is never replaced: choose another place"
        )
    read_as = _READ_AS.get(form, form)
    with open_whole(path) as whole:
        held = [name for name in _list_formats(whole) if name != read_as]
    if held:
        raise ValueError(
            f"{path} holds a checkpoint of another format ({', '.join(held)}), which is never "
            "replaced: choose another place"
        )


def refuse_to_replace(path: Path, form: str) -> None:
    """Raise a FileExistsError for a path to write to that holds a model or other files."""
    if form in _ENDINGS.values():
        refuse_existing(path)
        return
    if is_there(path, form):
        state = "holds a model: replace it"
    elif folders.has_files(path):
        state = "holds files: write into it"
    else:
        return
    way = f"with {way_to_overwrite()}, or choose another place"
    raise FileExistsError(f"{path} {state} {way}")


def is_there(path: Path, form: str) -> bool:
    """Return whether a path to write to holds a model of that format, which will be replaced."""
    if form in _ENDINGS.values():
        return path.exists()
    marker = {"saved_model": "saved_model.pb", "peft": "adapter_config.json"}.get(form)
    if marker:
        return (path / marker).exists()
    reader = _reader(_READ_AS.get(form, form))
    return path.is_dir() and reader.is_checkpoint(path)


def _list_formats(path: Path) -> list[str]:
    """Return the formats that kbert reads of which a path has the files."""
    if path.is_file():
        candidates = list(_OF_FILES.get(path.suffix, ()))
    else:
        candidates = [form for form in _IN_FOLDERS if _has_file(path, _IN_FOLDERS[form])]
    return [form for form in candidates if _reader(form).is_checkpoint(path)]


def _has_file(folder: Path, patterns: Iterable[str]) -> bool:
    return any(any(folder.glob(pattern)) for pattern in patterns)


def _reader(form: str):
    if form not in tuple(READERS):  # not `in READERS`: what a user gives may have no hash
        check_choice(form, READERS, "format")
    return importlib.import_module(READERS[form])


def _what_is_missing(path: Path) -> str:
    """Return what a folder needs to be a whole checkpoint."""
    if (path / "config.json").is_file():
        missing = "no model.safetensors, pytorch_model.bin, tf_model.h5 or model.weights.h5"
        endings = (".pt", ".pth", ".ckpt", ".bin", ".safetensors")
        files = sorted(path.iterdir())
        weights = [file.name for file in files if file.suffix in endings]
        hint = f": give the path of one file, {path / weights[0]}" if weights else ""
        return f"{missing} beside config.json{hint}"

    if (path / "bert_config.json").is_file():
        return "no bert_model.ckpt.index or pytorch_model.bin beside bert_config.json"
    patterns = ("*.safetensors", "*.bin", "*tf_model*.h5")
    if any(any(path.glob(pattern)) for pattern in patterns):
        return "no config.json beside the weights"
    if any(path.glob("*.ckpt*.index")):
        return "no bert_config.json beside the checkpoint"

    subfolders = [entry for entry in path.iterdir() if entry.is_dir()]
    inside = [folder for folder in subfolders if _list_formats(folder)]
    hint = f": is it {inside[0]}?" if len(inside) == 1 else ""
    return f"no checkpoint of {', '.join(READERS)}{hint}"
