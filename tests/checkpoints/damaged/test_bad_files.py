"""Files that are damaged, foreign, dangerous or missing are one clear line each."""

import json
import os
import pickle
import shutil
import struct
import sys
from pathlib import Path

import pytest
from helpers.command_line import kbert as command
from helpers.damaged_checkpoints import BIAS, WEIGHTS, as_torch, load_error, refused, split_weights
from numpy.testing import assert_equal

import kbert


def header_length(content: bytes) -> int:
    return struct.unpack("<Q", content[:8])[0]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda whole: whole[:5], "(5 bytes)"),
        (lambda whole: whole[: header_length(whole) // 2], "invalid header length"),
        (lambda whole: whole[:-7], "not fully covered"),
        (lambda whole: b"", "(0 bytes)"),
        (lambda whole: struct.pack("<Q", 10**15) + whole[8:], "header too large"),
        (lambda whole: struct.pack("<Q", header_length(whole) - 3) + whole[8:], "whole"),
        (lambda whole: b"this is text and no weights", "whole safetensors file"),
        (lambda whole: whole + b"more", "not fully covered"),
        (lambda whole: b"version https://git-lfs.github.com/spec/v1\nsize 9\n", "git lfs pull"),
    ],
)
def test_a_damaged_safetensors_file(capsys, folder, damage, said):
    (folder / WEIGHTS).write_bytes(damage((folder / WEIGHTS).read_bytes()))
    refused(capsys, folder, str(folder / WEIGHTS), said)


class RunsCode:
    """Unpickled, it makes a folder."""

    def __init__(self, marker):
        self.marker = str(marker)

    def __reduce__(self):
        return os.mkdir, (self.marker,)


@pytest.mark.parametrize("by", ["torch", "pickle"])
def test_a_pickle_that_would_run_code_does_not(capsys, folder, by):
    torch = pytest.importorskip("torch")
    (folder / WEIGHTS).unlink()
    file, marker = folder / "pytorch_model.bin", folder.parent / "marker"
    content = {BIAS: RunsCode(marker)}
    torch.save(content, file) if by == "torch" else file.write_bytes(pickle.dumps(content, 2))
    refused(capsys, folder, "pytorch_model.bin")
    assert not marker.exists()
    with open(file, "rb") as opened:  # it would have: pickle's own loader runs it
        if by == "pickle":
            pickle.load(opened)
            assert marker.is_dir()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (lambda torch, whole: whole[: len(whole) // 2], "a whole file of torch.save"),
        (lambda torch, whole: b"", "a whole file of torch.save"),
        (lambda torch, whole: b"some text", "a whole file of torch.save"),
        (lambda torch, whole: [torch.zeros(3)], "must hold tensors by name, got a list"),
        (lambda torch, whole: {"step": 7, BIAS: torch.zeros(24)}, "plain tensors by name alone"),
        (lambda torch, whole: {"weights": {BIAS: torch.zeros(24)}}, "'weights' (dict)"),
        (lambda torch, whole: {BIAS: torch.zeros(24).to_sparse()}, "plain tensors"),
        (lambda torch, whole: torch.nn.Linear(2, 3), "Linear, which is no tensor"),
    ],
)
def test_a_foreign_or_damaged_pytorch_model(capsys, folder, content, said):
    torch = pytest.importorskip("torch")
    file = as_torch(folder)
    made = content(torch, file.read_bytes())
    file.write_bytes(made) if isinstance(made, bytes) else torch.save(made, file)
    refused(capsys, folder, str(file), said)


def test_a_pickle_of_before_torch_1_6_opens(good, folder):
    as_torch(folder, _use_new_zipfile_serialization=False)
    assert_equal(*(kbert.load(path).model.get_weights() for path in (good, folder)))


def test_a_pickle_without_torch(capsys, folder, monkeypatch):
    (folder / WEIGHTS).rename(folder / "pytorch_model.bin")
    monkeypatch.setitem(sys.modules, "torch", None)
    refused(capsys, folder, "torch", 'pip install ".[torch]"')


@pytest.mark.parametrize(
    ("index", "said"),
    [
        (lambda files: "{nope", ["must be JSON"]),
        (lambda files: {"metadata": {}}, ["weight_map must be file names by tensor, got nothing"]),
        (lambda files: {"weight_map": {"a": 3}}, ["weight_map.a must be a text, got 3"]),
        (lambda files: {"weight_map": {}}, ["must name the files of the weights, got none"]),
        (
            lambda files: {"weight_map": files | {"a": "../x"}},
            ["must be in the same folder, got '../x'"],
        ),
        (lambda files: {"weight_map": files | {"a": "/etc/passwd"}}, ["got '/etc/passwd'"]),
        (lambda files: {"weight_map": files | {"a": ""}}, ["must be in the same folder, got ''"]),
        (
            lambda files: {"weight_map": files | {"a": "3.safetensors", "b": "4.safetensors"}},
            ["names shards not there: 3.safetensors, 4.safetensors"],
        ),
        (
            lambda files: {"weight_map": files | {"a": "model-00001-of-00002.safetensors"}},
            ["must name what its shards hold", "does not: a"],
        ),
    ],
)
def test_a_damaged_index(capsys, folder, index, said):
    content = index(split_weights(folder))
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / "model.safetensors.index.json").write_text(text)
    (folder.parent / "x").write_bytes(b"outside")
    refused(capsys, folder, *said)


def test_paths_that_are_no_checkpoint(capsys, folder):
    for name in ("config.json", "vocab.txt"):
        refused(capsys, folder / name, folder)
    empty = folder.parent / "empty"
    empty.mkdir()
    refused(capsys, empty, empty, "transformers", "google")
    above = folder.parent / "above"
    shutil.copytree(folder, above / "inner")
    refused(capsys, above, above / "inner")
    refused(capsys, folder.parent / "nowhere", folder.parent / "nowhere")
    refused(capsys, Path("org/nowhere"), "kbert download org/nowhere")
    (folder / WEIGHTS).unlink()
    refused(capsys, folder, "model.safetensors", "pytorch_model.bin", "tf_model.h5")


def test_formats_that_are_not_read_are_named(capsys, folder):
    (folder / WEIGHTS).rename(folder / "saved_model.pb")
    refused(capsys, folder, "saved_model.pb", "a SavedModel")
    (folder / "saved_model.pb").rename(folder / "flax_model.msgpack")
    refused(capsys, folder, "flax_model.msgpack", "Flax classes")
    (folder / "bert.onnx").write_bytes(b"\x08\x07")
    refused(capsys, folder / "bert.onnx", folder / "bert.onnx", "ONNX")


@pytest.mark.full
def test_two_formats_in_a_folder_are_named_and_either_opens(capsys, good, tmp_path):
    pytest.importorskip("tensorflow")
    both = tmp_path / "both"
    kbert.save(kbert.load(good), both, format="google")
    for file in good.iterdir():
        shutil.copy(file, both)
    refused(capsys, both, "transformers", "google", "format=")
    opened = [kbert.load(both, format=form) for form in ("transformers", "google")]
    assert_equal(*(bert.model.get_weights() for bert in opened))
    assert command(capsys, "inspect", both, "--from-format", "google").status == 0


@pytest.mark.full
@pytest.mark.parametrize("name", ["config.json", WEIGHTS, "tokenizer.json"])
def test_a_file_that_may_not_be_read(folder, nobody, name):
    kbert.load(folder)  # everything is imported
    (folder / name).chmod(0)
    nobody()
    with pytest.raises(PermissionError) as raised:
        kbert.load(folder)
    assert str(folder / name) in str(raised.value)


def test_a_folder_is_no_keras_bert_file(tmp_path):
    load_error(tmp_path, "keras_bert", ".h5", format="keras_bert")
