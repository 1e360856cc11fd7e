"""A folder is whole at every moment at which its writer may be killed."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from helpers.command_line import kbert as command
from helpers.damaged_checkpoints import read_files
from helpers.errors import raises
from helpers.folder_trees import read_tree
from helpers.small_berts import small_bert
from safetensors.numpy import load_file, save_file

import kbert
from kbert.checkpoints import formats
from kbert.io import atomic_write, folders, interrupted_saves
from kbert.io.atomic_write import write_atomically
from kbert.io.folders import atomic_folder, finish

WEIGHTS = "model.safetensors"


@pytest.fixture(scope="module")
def old_and_new(small, tmp_path_factory):
    """Two checkpoints of the same shapes, with other activations and weights."""
    paths = {}
    for name, activation in (("old", "gelu"), ("new", "relu")):
        paths[name] = tmp_path_factory.mktemp("checkpoints") / name
        config = small.replace(hidden_act=activation)
        kbert.save(kbert.Bert(config, "encoder", kbert.build_encoder(config)), paths[name])
        (paths[name] / "1_Pooling").mkdir()
        (paths[name] / "1_Pooling" / "config.json").write_text(f'{{"{name}": 1}}')
    return paths


def opened(folder: Path) -> tuple[str, float]:
    """The activation and one weight, as kbert reads them."""
    with formats.open_checkpoint(folder) as checkpoint:
        weight = checkpoint.tensors["embeddings.word_embeddings.weight"].read()
        return checkpoint.spec.config.hidden_act, float(weight[1, 1])


@pytest.mark.full
def test_killed_save_leaves_the_whole_old_or_new_folder(killed_at, old_and_new, tmp_path):
    old, new = old_and_new["old"], old_and_new["new"]
    wanted = {opened(path): name for name, path in old_and_new.items()}
    pairs = [
        tuple((p / name).read_bytes() for name in ("config.json", WEIGHTS)) for p in (old, new)
    ]
    found, unfinished, step = [], 0, 0
    while True:
        step += 1
        target = shutil.copytree(old, tmp_path / f"{step}" / "bert")
        (target / "notes.txt").write_text("mine")
        (target / "1_Pooling" / "own.json").write_text("[7]")
        killed = killed_at(step, new, target)
        there = read_files(target)
        unfinished += any(name.startswith(".kbert.") and ".new/" in name for name in there)
        # Another program: it takes no configuration for weights that are not its own.
        if "config.json" in there and WEIGHTS in there:
            assert (there["config.json"], there[WEIGHTS]) in pairs
        before = read_tree(target)
        found.append(wanted[opened(target)])
        assert read_tree(target) == before
        users = {"notes.txt": b"mine", "1_Pooling/own.json": b"[7]"}
        with interrupted_saves.open_whole(target) as whole:
            visible = {n: c for n, c in read_files(whole).items() if not n.startswith(".kbert")}
        assert visible == read_files(old_and_new[found[-1]]) | users
        with atomic_folder(target) as part:  # the next write
            shutil.copytree(new, part, dirs_exist_ok=True)
        assert read_files(target) == read_files(new) | users
        assert not list(target.parent.glob("*/.*"))
        if not killed:
            break
    assert found == sorted(found, reverse=True) and set(found) == {"old", "new"}
    assert unfinished > 5  # the files of the checkpoint: all of them were waited for


@pytest.mark.full
def test_killed_first_save_leaves_no_folder(killed_at, old_and_new, tmp_path):
    target = tmp_path / "bert"
    assert killed_at(4, old_and_new["new"], target)
    assert not target.exists() and len(list(tmp_path.iterdir())) == 1
    with atomic_folder(target) as part:
        (part / "a").write_text("a")
    assert [path.name for path in tmp_path.iterdir()] == ["bert"]


def test_killed_file_write_leaves_the_old_or_new_file(killed_at, tmp_path):
    """As a .keras is: in a folder of its own, then renamed."""
    source, target = tmp_path / "source", tmp_path / "out" / "bert.keras"
    source.write_bytes(b"new")
    target.parent.mkdir()
    for step in range(1, 20):
        target.write_bytes(b"old")
        killed = killed_at(step, source, target)
        assert target.read_bytes() in (b"old", b"new")
        write_atomically(target, b"next")
        assert read_files(target.parent) == {"bert.keras": b"next"}
        assert [path.name for path in target.parent.iterdir()] == ["bert.keras"]
        if not killed:
            break
    assert 3 < step < 19


def test_partial_files_of_other_writers_are_kept(tmp_path):
    machine = atomic_write.owner()[1:9]
    elsewhere = f"{int(machine, 16) ^ 1:08x}"
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    names = {  # of a process that runs, of another machine, of one that is gone, of another file
        f".x.{machine}-{os.getppid()}.part": True,
        f".x.{elsewhere}-{gone.pid}.part": True,
        f".x.{machine}-{gone.pid}.part": False,
        f".y.{machine}-{gone.pid}.part": True,
    }
    for name in names:
        (tmp_path / name).write_text("part")
    write_atomically(tmp_path / "x", b"x")
    there = {path.name for path in tmp_path.iterdir()}
    assert there == {"x", *(name for name, stays in names.items() if stays)}


def test_file_write_keeps_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real/file")
    write_atomically(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real" / "file").read_bytes() == b"new"
    assert [entry.name for entry in (tmp_path / "real").iterdir()] == ["file"]


def test_folder_write_keeps_links_and_inode(old_and_new, tmp_path, monkeypatch):
    real = shutil.copytree(old_and_new["old"], tmp_path / "real")
    (tmp_path / "link").symlink_to(real, target_is_directory=True)
    (tmp_path / "nowhere").symlink_to(tmp_path / "made", target_is_directory=True)
    inode = real.stat().st_ino
    monkeypatch.chdir(real)
    for path in (tmp_path / "link", Path("."), tmp_path / "nowhere"):
        with atomic_folder(path) as part:
            (part / "config.json").write_text(str(path))
        assert (path / "config.json").read_text() == str(path)
    assert (tmp_path / "link").is_symlink() and (tmp_path / "nowhere").is_symlink()
    assert real.stat().st_ino == inode == Path(".").stat().st_ino
    assert (real / WEIGHTS).is_file() and (tmp_path / "made" / "config.json").is_file()


def test_folder_write_checks_all_targets_first(old_and_new, tmp_path):
    target = shutil.copytree(old_and_new["old"], tmp_path / "bert")
    (target / WEIGHTS).unlink()
    (target / WEIGHTS).mkdir()
    (target / "sub").write_text("a file")
    before = read_files(target)
    for name, named in ((WEIGHTS, WEIGHTS), ("sub/x", "sub in it")):
        with raises(OSError, named), atomic_folder(target) as part:
            (part / "config.json").write_text("new")
            (part / name).parent.mkdir(exist_ok=True)
            (part / name).write_text("new")
        assert read_files(target) == before


@pytest.mark.full
def test_reader_waits_for_a_running_writer(interrupt, old_and_new, tmp_path, monkeypatch):
    target = shutil.copytree(old_and_new["old"], tmp_path / "bert")
    left = interrupt(old_and_new["new"], target)
    new = left.rename(target / f".kbert.{atomic_write.owner()[1:9]}-{os.getppid()}.new")
    os.utime(new)
    timer = threading.Timer(0.2, lambda: new.rename(left))
    start = time.monotonic()
    timer.start()
    assert opened(target) == opened(old_and_new["new"])
    assert time.monotonic() - start > 0.1
    timer.join()
    os.utime(left.rename(new))
    timeout = "WRITER_TIMEOUT_S"  # its writer was stopped, or is on another machine
    monkeypatch.setattr(interrupted_saves, timeout, 0.1)
    assert opened(target) == opened(old_and_new["new"])


@pytest.mark.full
def test_reader_never_misses_a_save_that_a_writer_takes(
    interrupt, old_and_new, tmp_path, monkeypatch
):
    target = shutil.copytree(old_and_new["old"], tmp_path / "bert")
    left = interrupt(old_and_new["new"], target)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    taken = target / f".kbert.{atomic_write.owner()[1:9]}-{gone.pid}.new"
    calls = {"count": 0, "moment": 1}

    def take_after(function):
        def call(*arguments, **options):
            try:
                return function(*arguments, **options)
            finally:
                calls["count"] += 1
                if calls["count"] == calls["moment"]:
                    left.rename(taken)

        return call

    with monkeypatch.context() as patched:
        for name in ("listdir", "lstat"):
            patched.setattr(os, name, take_after(getattr(os, name)))
        while True:
            calls["count"] = 0
            assert interrupted_saves.find_interrupted(target) is not None, calls
            if not taken.exists():
                break
            taken.rename(left)
            calls["moment"] += 1
    assert calls["moment"] > 5


@pytest.mark.full
def test_a_folder_that_cannot_be_finished_is_one_line(
    capsys, interrupt, old_and_new, tmp_path, monkeypatch
):
    target = shutil.copytree(old_and_new["old"], tmp_path / "bert")
    interrupt(old_and_new["new"], target)

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "rename", refuse)
    done = command(capsys, "convert", old_and_new["old"], target, "--overwrite")
    assert done.status == 2 and f"kbert: {target} (DST): its writer was killed" in done.err
    assert "Make the folder writable" in done.err
    assert opened(target) == opened(old_and_new["new"])


def test_interrupted_vocabulary_write_is_read_then_finished(interrupt, tmp_path):
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]
    old = kbert.Tokenizer.from_vocab(tokens, lowercase=True)
    old.save(tmp_path / "vocab")
    kbert.Tokenizer.from_vocab([*tokens, "b"], lowercase=True).save(tmp_path / "new")
    interrupt(tmp_path / "new", tmp_path / "vocab")
    before = read_tree(tmp_path)
    assert kbert.Tokenizer.load(tmp_path / "vocab").vocab_size == 7
    assert read_tree(tmp_path) == before
    old.save(tmp_path / "vocab", overwrite=True)
    assert kbert.Tokenizer.load(tmp_path / "vocab").vocab_size == 6
    assert not list((tmp_path / "vocab").glob(".*"))


@pytest.mark.full
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names on this system")
@pytest.mark.parametrize(
    "make", [getattr(os, "mkfifo", None), lambda path: os.symlink(os.devnull, path)]
)
def test_devices_and_pipes_are_refused_and_kept(small, tmp_path, make):
    bert = kbert.Bert(small, "encoder", kbert.build_encoder(small))
    writes = {
        "json": small.to_json,
        "dot": lambda path: kbert.plot("tiny", path),
        "keras": lambda path: kbert.save(bert, path),
        "tflite": lambda path: kbert.save(bert, path),
    }
    for ending, write in writes.items():
        path = tmp_path / f"out.{ending}"
        make(path)
        mode = os.stat(path).st_mode
        with raises(OSError, path):
            write(path)
        assert os.stat(path).st_mode == mode
    assert len(list(tmp_path.iterdir())) == len(writes)


def test_unremovable_files_keep_the_old_folder_whole(tmp_path, nobody):
    target = tmp_path / "served"
    for name in ("saved_model.pb", "variables/variables.index"):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_text("old")
    (target / "variables").chmod(0o555)
    target.chmod(0o777)
    before = read_files(target)
    nobody()
    with raises(PermissionError, "variables"), atomic_folder(target, superseded=["*"]) as part:
        (part / "saved_model.pb").write_text("new")
    assert read_files(target) == before


@pytest.mark.full
def test_killed_replacement_leaves_only_the_old_or_new_folder(killed_at, tmp_path):
    """As a SavedModel is; a link to it stays one."""
    for name in ("old", "new"):
        for file in ("saved_model.pb", f"of_{name}.txt", "variables/variables.index"):
            path = tmp_path / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(name)
    old, new = read_files(tmp_path / "old"), read_files(tmp_path / "new")
    found = []
    for step in range(1, 40):
        shutil.copytree(tmp_path / "old", tmp_path / f"{step}" / "real")
        target = tmp_path / f"{step}" / "served"
        target.symlink_to("real")
        killed = killed_at(step, tmp_path / "new", target, alone=True)
        there = read_files(target)
        if there.get("saved_model.pb") == b"new":  # another program opens this file
            assert new.items() <= there.items() and "of_old.txt" not in there
        finish(target)
        found.append("old" if "of_old.txt" in read_files(target) else "new")
        visible = {n: c for n, c in read_files(target).items() if not folders.is_own(n)}
        assert visible == {"old": old, "new": new}[found[-1]]
        with atomic_folder(target, superseded=["*"]) as part:
            (part / "empty").mkdir()
        assert [entry.name for entry in target.iterdir()] == ["empty"] and target.is_symlink()
        if not killed:
            break
    assert found == sorted(found, reverse=True) and set(found) == {"old", "new"} and step < 39


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "form"), [("model", "transformers"), ("model.keras", "keras"), ("adapter", "peft")]
)
def test_model_of_a_run_is_not_replaced(small, tmp_path, name, form):
    """As `convert` refuses it; also where a link leads to it."""
    run = tmp_path / "run"
    run.mkdir()
    settings = {"task": "finetune", "run": "1", "settings": {}, "fingerprint": {}}
    (run / "settings.json").write_text(json.dumps(settings))
    (tmp_path / "link").symlink_to(run)
    bert = small_bert(small, "encoder")
    for folder in (run, tmp_path / "link"):
        with raises(ValueError, folder):
            kbert.save(bert, folder / name, format=form, overwrite=True)
    assert [entry.name for entry in run.iterdir()] == ["settings.json"]


def test_folder_write_does_not_follow_file_links(old_and_new, tmp_path):
    """As in a cache whose files are links to shared ones."""
    shared = shutil.copytree(old_and_new["old"], tmp_path / "shared")
    target = tmp_path / "bert"
    target.mkdir()
    for name in ("config.json", WEIGHTS):
        (target / name).symlink_to(shared / name)
    before = read_files(shared)
    with atomic_folder(target) as part:
        save_file({"a": np.zeros(3, "f4")}, part / WEIGHTS)
    finish(target)
    assert read_files(shared) == before
    assert list(load_file(target / WEIGHTS)) == ["a"]
