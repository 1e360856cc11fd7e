"""Damage checkpoints, and check what is said of them."""

import json
from pathlib import Path

import pytest
from safetensors.numpy import load_file, save_file

import kbert
from helpers.command_line import kbert as command
from helpers.errors import check_named, raises
from helpers.texts import TOKENS

WEIGHTS = "model.safetensors"
BIAS = "bert.pooler.dense.bias"
VOCABULARY = [*TOKENS, *(f"[unused{n}]" for n in range(1, 100))][:99]


def change_tensors(folder, change) -> None:
    tensors = load_file(folder / WEIGHTS)
    change(tensors)
    save_file(tensors, folder / WEIGHTS)


def change_json(file, **values) -> None:
    before = json.loads(file.read_text()) if file.is_file() else {}
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(before | values))


def refused(capsys, folder, *said, **options) -> str:
    """What `load` says of a checkpoint; the command line says the same, in one line."""
    with pytest.raises((ValueError, OSError, ImportError)) as raised:
        kbert.load(folder, **options)
    message = str(raised.value)
    check_named(message, *said)
    if not options:
        done = command(capsys, "convert", folder, folder.parent / "out")
        assert (done.status, done.out) == (2, "")
        line = done.err.removesuffix("\n")
        assert line.startswith("kbert: ") and "\n" not in line and "Traceback" not in line
        check_named(line, *said)
        assert not (folder.parent / "out").exists()
    return message


def load_error(path, *things, **options) -> str:
    """What `load` says of a path: one line that names each of the things."""
    with raises((ValueError, OSError), *things) as raised:
        kbert.load(path, **options)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def put(name, value):
    return lambda tensors: tensors.update({name: value})


def as_torch(folder, **options) -> Path:
    """Write the weights into pytorch_model.bin instead; options are torch.save's."""
    torch, file = pytest.importorskip("torch"), folder / "pytorch_model.bin"
    tensors = {name: torch.tensor(array) for name, array in load_file(folder / WEIGHTS).items()}
    (folder / WEIGHTS).unlink()
    torch.save(tensors, file, **options)
    return file


def split_weights(folder, count: int = 2) -> dict:
    """Cut the weights in some files, without an index; return the index's weight_map."""
    tensors = load_file(folder / WEIGHTS)
    (folder / WEIGHTS).unlink()
    names = sorted(tensors)
    files = {
        name: f"model-0000{1 + number % count}-of-0000{count}.safetensors"
        for number, name in enumerate(names)
    }
    for file in set(files.values()):
        save_file({name: tensors[name] for name in names if files[name] == file}, folder / file)
    return files


def read_files(folder) -> dict[str, bytes]:
    """All files of a folder by their paths in it."""
    files = (file for file in folder.rglob("*") if file.is_file())
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}
