"""`kbert.inspect` says what is at a path, without reading a weight."""

import json
import math
import os
import shutil
import struct

import numpy as np
import pytest
from helpers.command_line import kbert as command
from helpers.damaged_checkpoints import WEIGHTS, change_json, change_tensors, put, split_weights
from helpers.marks import full
from safetensors.numpy import load_file

import kbert
from kbert.graph.reference import named_parameters, published_totals

BYTES = {"F32": 4, "F16": 2, "BF16": 2}


def header(file) -> dict:
    """The header of a safetensors file, read as its documentation says."""
    with open(file, "rb") as opened:
        length = struct.unpack("<Q", opened.read(8))[0]
        found = json.loads(opened.read(length))
    found.pop("__metadata__", None)
    return found


def write_without_numbers(file, shapes: dict, dtype: str = "F32") -> int:
    """A safetensors file whose numbers are a hole in it; returns its size in bytes."""
    place, entries = 0, {}
    for name, shape in shapes.items():
        end = place + math.prod(shape) * BYTES[dtype]
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [place, end]}
        place = end
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    with open(file, "wb") as opened:
        opened.write(struct.pack("<Q", len(text)) + text)
    os.truncate(file, 8 + len(text) + place)
    return 8 + len(text) + place


@pytest.fixture
def folder(saved, tmp_path):
    return shutil.copytree(saved[0] / "pretraining", tmp_path / "bert")


def test_inspect_counts_are_the_headers(folder):
    entries = header(folder / WEIGHTS)
    found = kbert.inspect(folder)
    expected = {name.removeprefix("bert."): tuple(e["shape"]) for name, e in entries.items()}
    assert {tensor.name: tensor.shape for tensor in found.tensors} == expected
    assert found.params == sum(map(math.prod, expected.values()))
    ends = [entry["data_offsets"][1] for entry in entries.values()]
    assert found.bytes == max(ends)
    assert (found.format, found.architecture, found.head) == (
        "transformers",
        "BertForPreTraining",
        "pretraining",
    )
    assert (found.vocab_size, found.lowercase, found.sentence, found.problems) == (
        99,
        True,
        None,
        (),
    )


@pytest.mark.parametrize(("name", "dtype"), [("base", "F32"), full("large", "BF16")])
def test_inspect_gives_published_totals_and_reads_no_tensor(tmp_path, name, dtype, monkeypatch):
    """transformers' named parameters, as the documents list them; the numbers are a hole."""
    model = f"{name}_uncased"
    shapes = {row.parameter: row.shape for row in named_parameters(model)}
    size = write_without_numbers(tmp_path / WEIGHTS, shapes, dtype)
    (tmp_path / "config.json").write_text(kbert.get_config(model).to_json())
    assert (tmp_path / WEIGHTS).stat().st_blocks * 512 < size / 100
    monkeypatch.setattr("numpy.memmap", lambda *_: pytest.fail("a tensor was read"))
    found = kbert.inspect(tmp_path)
    assert found.problems == ()
    published = [total for total in published_totals() if total.config == found.config]
    (total,) = {one.params_encoder_and_pooler for one in published}
    assert found.params == total
    assert found.bytes == total * BYTES[dtype]
    with pytest.raises(pytest.fail.Exception):
        kbert.load(tmp_path)  # which does read


def test_inspect_text_fits_80_columns(capsys, folder):
    done = command(capsys, "inspect", folder)
    assert (done.status, done.err) == (0, "")
    path, *lines = done.out.splitlines()
    assert path == str(folder)
    assert max(map(len, lines)) <= 80
    assert f"{kbert.inspect(folder).params:,}" in done.out
    assert "99 tokens, uncased" in done.out
    assert "Every tensor is there" in done.out
    every = command(capsys, "inspect", folder, "--tensors").out
    assert "  embeddings.word_embeddings.weight " in every and "99 × 24" in every


def test_inspect_lists_ignored_keys(capsys, folder):
    more = {"my_own_note": 1, "adapters": {}, "transformers.js_config": {}}
    change_json(folder / "config.json", **more)
    (line,) = (line for line in kbert.inspect(folder).ignored if line.startswith("config.json: "))
    assert {"my_own_note", "adapters", "transformers.js_config", "dtype"} <= set(
        line.removeprefix("config.json: ").split(", ")
    )
    assert "  ignored: config.json: " in command(capsys, "inspect", folder).out


def test_inspect_lists_every_problem_with_status_1(capsys, folder):
    change_tensors(folder, put("bert.pooler.dense.bias", np.zeros(23, "f4")))
    change_json(folder / "config.json", num_hidden_layers=12)
    done = command(capsys, "inspect", folder)
    assert (done.status, done.err) == (1, "")
    lines = [line.strip() for line in done.out.splitlines()]
    at = lines.index("162 problems:")
    assert lines[at + 1] == "num_hidden_layers is 12 in the configuration, 2 in the tensors"
    missing = {line.split()[1] for line in lines if line.startswith("missing: ")}
    suffixes = {
        name.split(".", 4)[4] for name in load_file(folder / WEIGHTS) if ".layer.0." in name
    }
    assert missing == {f"encoder.layer.{n}.{suffix}" for n in range(2, 12) for suffix in suffixes}
    assert lines[-1] == "shape of pooler.dense.bias: expected (24,), found (23,)"
    as_json = command(capsys, "inspect", folder, "--format", "json")
    assert as_json.status == 1
    assert json.loads(as_json.out)["problems"] == lines[at + 1 :]


def test_inspect_counts_shards_as_one_file(folder, tmp_path):
    whole = kbert.inspect(folder)
    other = shutil.copytree(folder, tmp_path / "shards")
    index = {"weight_map": split_weights(other, 3)}
    (other / "model.safetensors.index.json").write_text(json.dumps(index))
    found = kbert.inspect(other)
    assert (found.tensors, found.params, found.problems) == (whole.tensors, whole.params, ())
