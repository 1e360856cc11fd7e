"""A checkpoint is converted whole or not at all, and the old one is never lost."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys

import keras
import pytest
from helpers.command_line import kbert as command
from helpers.damaged_checkpoints import WEIGHTS, read_files
from helpers.errors import raises
from helpers.marks import full
from numpy.testing import assert_array_equal
from safetensors.numpy import load_file

import kbert
from kbert.checkpoints.sentence_settings import SentenceSettings

SENTENCE = SentenceSettings("cls", True, 11, include_prompt=False)


@pytest.fixture
def both(saved, tmp_path):
    return shutil.copytree(saved[0] / "pretraining", tmp_path / "both")


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "options", "left_out"),
    [
        full("BertForPreTraining", [], []),
        ("BertForMaskedLM", [], ["pooler.", "cls.seq"]),
        full("BertForNextSentencePrediction", [], ["cls.predictions"]),
        full("BertModel", ["--head", "encoder"], ["cls."]),
        ("BertForQuestionAnswering", ["--head", "qa"], ["pooler.", "cls."]),
    ],
)
def test_convert_between_transformers_classes(capsys, both, tmp_path, name, options, left_out):
    out = tmp_path / "out"
    done = command(capsys, "convert", both, out, "--architecture", name, *options)
    assert done.status == 0 and str(out) in done.out
    assert json.loads((out / "config.json").read_text())["architectures"] == [name]
    before = {key.removeprefix("bert."): value for key, value in load_file(both / WEIGHTS).items()}
    after = {key.removeprefix("bert."): value for key, value in load_file(out / WEIGHTS).items()}
    kept = {key for key in before if not key.startswith(tuple(left_out))}
    assert {key for key in after if not key.startswith("qa_outputs")} == kept
    for key in kept:
        assert_array_equal(before[key], after[key], strict=True)
    assert read_files(both)["vocab.txt"] == read_files(out)["vocab.txt"]
    assert kbert.inspect(out).problems == ()


def test_convert_keeps_sentence_settings(capsys, berts, tmp_path):
    source, out = tmp_path / "sentence", tmp_path / "out"
    kbert.save(dataclasses.replace(berts["encoder"], sentence=SENTENCE), source)
    assert command(capsys, "convert", source, out).status == 0
    assert kbert.inspect(out).sentence == SENTENCE
    assert read_files(out) == read_files(source)


def test_convert_over_itself_loses_nothing(capsys, both):
    before = read_files(both)
    (both / "README.md").write_text("mine")
    assert command(capsys, "convert", both, both, "--overwrite").status == 0
    assert read_files(both) == before | {"README.md": b"mine"}


def test_convert_does_not_replace_what_it_reads_by_a_part_of_it(capsys, both, tmp_path):
    (tmp_path / "link").symlink_to(both)
    before = read_files(both)
    for target in (both, tmp_path / "link"):
        done = command(capsys, "convert", both, target, "--head", "encoder", "--overwrite")
        assert done.status == 2 and str(target) in done.err
    assert read_files(both) == before


@pytest.mark.full
@pytest.mark.parametrize(
    ("form", "name"),
    [
        ("transformers", "out"),
        ("keras", "out.keras"),
        full("saved_model", "out"),
    ],
)
def test_convert_replaces_a_model_only_if_told_to(capsys, both, tmp_path, form, name):
    if form == "saved_model" and keras.backend.backend() != "tensorflow":
        pytest.skip("TensorFlow writes it")
    words = ("convert", both, tmp_path / name, "--to", form)
    said = command(capsys, *words).out
    assert said.startswith(f"wrote {tmp_path / name} ({form}, pretraining, ")
    done = command(capsys, *words)
    assert (done.status, done.out) == (2, "") and ": replace it with --overwrite" in done.err
    done = command(capsys, *words, "--overwrite")
    assert done.out == said.rstrip("\n") + ", in place of the old one\n"


@pytest.mark.full
def test_convert_adds_a_vocabulary_to_a_model_without_one(capsys, both, tmp_path):
    text = (both / "vocab.txt").read_text()
    (tmp_path / "words.txt").write_text(text)
    for name in ("vocab.txt", "tokenizer.json", "tokenizer_config.json"):
        (both / name).unlink(missing_ok=True)
    given = (both, tmp_path / "out", "--vocab", tmp_path / "words.txt")
    assert "--vocab FILE needs --uncased or --cased" in command(capsys, "convert", *given).err
    assert command(capsys, "convert", *given, "--uncased").status == 0
    found = kbert.load(tmp_path / "out")
    assert list(found.tokenizer.tokens) == text.splitlines()
    assert found.tokenizer.lowercase
    (tmp_path / "words.txt").write_text(text + "".join(f"more{n}\n" for n in range(200)))
    said = command(capsys, "convert", *given[:1], tmp_path / "no", *given[2:], "--uncased").err
    assert "words.txt does not fit" in said and not (tmp_path / "no").exists()


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("pytorch_model.bin", "pytorch_model.bin"),
        ("model.safetensors.index.json", "index.json"),
        ("modules.json", "modules.json"),
    ],
)
def test_save_refuses_a_folder_with_other_weight_files(capsys, both, tmp_path, name, said):
    out = tmp_path / "out"
    out.mkdir()
    (out / name).write_text("[]")
    done = command(capsys, "convert", both, out)
    assert done.status == 2 and "out holds files: write into it with --overwrite" in done.err
    done = command(capsys, "convert", both, out, "--overwrite")
    assert done.status == 2 and said in done.err and "choose another folder" in done.err
    assert read_files(out) == {name: b"[]"}


def test_save_without_tokenizer_refuses_an_old_vocabulary(small, both):
    before = read_files(both)
    bert = kbert.load(both, tokenizer=False)
    with raises(ValueError, "tokenizer.json", "vocab.txt"):
        kbert.save(bert, both, overwrite=True)
    assert read_files(both) == before


def test_save_names_a_folder_that_is_not_writable(both, tmp_path, nobody):
    bert = kbert.load(both)
    (tmp_path / "closed").mkdir(mode=0o555)
    nobody()
    with pytest.raises(PermissionError) as raised:
        kbert.save(bert, tmp_path / "closed" / "out")
    assert raised.value.filename == str(tmp_path / "closed" / "out")


def test_saved_files_have_the_umasks_permissions(both):
    """safetensors makes its file for the owner alone."""
    mask = os.umask(0o022)
    try:
        kbert.save(kbert.load(both), both.parent / "new" / "sub")
    finally:
        os.umask(mask)
    modes = {f.name: f.stat().st_mode & 0o777 for f in (both.parent / "new" / "sub").iterdir()}
    assert set(modes.values()) == {0o644} and WEIGHTS in modes
    assert (both.parent / "new" / "sub").stat().st_mode & 0o777 == 0o755


FILLS = """
import resource, signal, sys
from pathlib import Path
import kbert
folder = Path(sys.argv[1])
forms = {"transformers": "tf", "google": "ckpt", "keras": "b.keras", "keras_hub": "hub",
         "saved_model": "sm", "onnx": "b.onnx", "litert": "b.tflite"}
bert = kbert.load(folder / "both", head="encoder")
contents = lambda: {f: f.read_bytes() for f in folder.rglob("*") if f.is_file()}
for form, name in forms.items():
    kbert.save(bert, folder / name, format=form)
before = contents()
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write beyond the limit fails, as on a full disk
for form, name in forms.items():
    resource.setrlimit(resource.RLIMIT_FSIZE, (3_000, resource.RLIM_INFINITY))
    try:
        kbert.save(bert, folder / name, format=form, overwrite=True)
        said = "saved"
    except Exception as error:
        said = f"{type(error).__name__} {error}"
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(form, contents() == before, folder.joinpath(name).name in said, said, sep="|")
"""


@pytest.mark.full
def test_full_disk_keeps_the_old_file_of_every_format(both):
    pytest.importorskip("resource", reason="no file size limits on this system")
    pytest.importorskip("tf2onnx")
    command = [sys.executable, "-c", FILLS, str(both.parent)]
    done = subprocess.run(command, capture_output=True, text=True)
    lines = [line.split("|", 3) for line in done.stdout.splitlines() if line.count("|") >= 3]
    forms = ["transformers", "google", "keras", "keras_hub", "saved_model", "onnx", "litert"]
    assert [line[0] for line in lines] == forms, done.stderr[-2000:]
    for form, survived, named, said in lines:
        assert (survived, named) == ("True", "True"), (form, said)
        assert said.startswith("OSError"), (form, said)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_interrupted_save_keeps_the_old_checkpoint(both, tmp_path, monkeypatch, error):
    bert = kbert.load(both)
    before = read_files(tmp_path)

    def stop(*_, **__):
        raise error

    monkeypatch.setattr(
        "kbert.data.tokenization.tokenizer.Tokenizer.save", stop
    )  # weights and config are written
    for path in (both, tmp_path / "new"):
        with pytest.raises(error):
            kbert.save(bert, path, overwrite=True)
    assert read_files(tmp_path) == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["both"]
