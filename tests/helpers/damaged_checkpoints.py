"""Damage checkpoints, and check what is said of them."""

import json

import pytest
from safetensors.numpy import load_file, save_file

import kbert
from helpers.command_line import kbert as command
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
    for part in said:
        assert part in message
    if not options:
        done = command(capsys, "convert", folder, folder.parent / "out")
        assert (done.status, done.out) == (2, "")
        line = done.err.removesuffix("\n")
        assert line.startswith("kbert: ") and "\n" not in line and "Traceback" not in line
        for part in said:
            assert part in line
        assert not (folder.parent / "out").exists()
    return message


def put(name, value):
    return lambda tensors: tensors.update({name: value})
