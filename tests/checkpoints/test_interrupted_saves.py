"""What a folder holds of an interrupted save: readers change nothing, writers touch nothing else.

The oracle is the file system: all entries with their times, before and after.
"""

import dataclasses
import hashlib
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from helpers.command_line import kbert as command
from helpers.damaged_checkpoints import read_files
from helpers.errors import raises
from helpers.folder_trees import read_tree
from helpers.marks import full
from helpers.small_berts import small_bert
from safetensors.numpy import load_file, save_file

import kbert
from kbert.io import interrupted_saves
from kbert.io.folders import atomic_folder
from kbert.io.interrupted_saves import open_whole

WEIGHTS = "model.safetensors"
RECORD = ".kbert.json"


@pytest.fixture(scope="module")
def berts_of_two(small):
    """Two models of one shape and other weights, activations and vocabularies."""
    old = small_bert(small.replace(num_hidden_layers=1), "encoder")
    new = small_bert(small.replace(num_hidden_layers=1, hidden_act="gelu_new"), "encoder")
    for weight in new.model.weights:
        weight.assign(weight.numpy() * 1.5)
    tokens = [*new.tokenizer.tokens[:-1], "another"]
    words = kbert.Tokenizer.from_vocab(tokens, lowercase=True)
    return {"old": old, "new": dataclasses.replace(new, tokenizer=words)}


@pytest.fixture(scope="module")
def pair(berts_of_two, tmp_path_factory):
    """The folders of the two in transformers' format."""
    folder = tmp_path_factory.mktemp("pair")
    for name, bert in berts_of_two.items():
        kbert.save(bert, folder / name)
    return folder


@pytest.fixture
def mine(tmp_path):
    """A folder of the user's, which nothing may change."""
    folder = tmp_path / "mine"
    (folder / "sub").mkdir(parents=True)
    for name in ("thesis.txt", "sub/photo.jpg", WEIGHTS, "config.json"):
        (folder / name).write_text("mine")
    return folder


def describe(bert) -> tuple:
    first = bert.model.get_layer("Embedding-Token").get_weights()[0]
    return bert.config.hidden_act, float(first[1, 1]), bert.tokenizer.tokens[-1]


def read_in_each_way(folder: Path) -> None:
    """Read a folder with every reader of folders; whether it is refused is not the question."""
    readers = (
        kbert.load,
        kbert.inspect,
        kbert.get_config,
        kbert.account,
        kbert.Tokenizer.load,
        lambda path: kbert.load(path, adapter=path),
        lambda path: kbert.load(path / WEIGHTS),
        lambda path: kbert.Tokenizer.load(path / "vocab.txt"),
        lambda path: kbert.push(path, "hf://org/name"),
        lambda path: kbert.evaluate(path, "classify", path / "no.tsv"),
    )
    for read in readers:
        try:
            read(folder)
        except (OSError, ValueError) as error:
            assert "\n" not in str(error)


@pytest.mark.full
@pytest.mark.parametrize(
    ("form", "moved"),
    [
        ("transformers", 0),
        ("transformers", 3),
        ("google", 1),
        ("keras_hub", 1),
        full("transformers", 1),
        full("google", 0),
        full("google", 3),
        full("keras_hub", 0),
        full("keras_hub", 3),
    ],
)
def test_interrupted_save_is_read_whole_in_each_format(
    interrupt, berts_of_two, tmp_path, form, moved
):
    if form == "google":
        pytest.importorskip("tensorflow")
    for name, bert in berts_of_two.items():
        kbert.save(bert, tmp_path / name, format=form)
    interrupt(tmp_path / "new", tmp_path / "old", moved=moved)
    before = read_tree(tmp_path)
    wanted = describe(kbert.load(tmp_path / "new"))
    assert wanted[0] == "gelu_new"
    assert describe(kbert.load(tmp_path / "old")) == wanted
    assert kbert.inspect(tmp_path / "old").config == kbert.inspect(tmp_path / "new").config
    read_in_each_way(tmp_path / "old")
    assert read_tree(tmp_path) == before


@pytest.mark.full
@pytest.mark.parametrize("moved", [0, 3])
def test_a_file_of_an_interrupted_save_is_opened_as_a_whole_one(interrupt, pair, tmp_path, moved):
    target = shutil.copytree(pair / "old", tmp_path / "bert")
    interrupt(pair / "new", target, moved=moved)
    before = read_tree(target)
    wanted = kbert.inspect(pair / "new" / "model.safetensors")
    assert kbert.inspect(target / "model.safetensors").config == wanted.config
    with raises(ValueError, target):
        kbert.inspect(target / "config.json")
    assert read_tree(target) == before


@pytest.mark.full
def test_interrupted_save_is_read_in_a_folder_that_is_read_only(interrupt, pair, tmp_path, nobody):
    target = shutil.copytree(pair / "old", tmp_path / "bert")
    interrupt(pair / "new", target)
    for folder in [path for path in (target, *target.rglob("*")) if path.is_dir()]:
        folder.chmod(0o555)
    before = read_tree(target)
    wanted = describe(kbert.load(pair / "new"))
    nobody()
    assert describe(kbert.load(target)) == wanted
    assert kbert.get_config(target).hidden_act == wanted[0]
    assert read_tree(target) == before


def test_tokenizer_in_an_interrupted_folder_is_read_whole(interrupt, berts_of_two, tmp_path):
    """As a SavedModel's, which is in a folder of it."""
    for name, bert in berts_of_two.items():
        bert.tokenizer.save(tmp_path / name / "tokenizer", max_length=len(name) + 17)
        (tmp_path / name / "saved_model.pb").write_text(name)
    (tmp_path / "new" / "saved_model.pb").write_text("longer")
    interrupt(tmp_path / "new", tmp_path / "old", alone=True, moved=2)
    before = read_tree(tmp_path)
    found = kbert.Tokenizer.load(tmp_path / "old" / "tokenizer")
    assert found.tokens[-1] == "another" and found.vocabulary.max_length == 20
    assert read_tree(tmp_path) == before


def test_interrupted_adapter_is_read_whole(interrupt, tmp_path):
    """As PEFT's folders have it: a configuration, and what it scales."""
    for name, alpha in (("old", 2), ("new", 8)):
        config = {"peft_type": "LORA", "r": 2, "lora_alpha": alpha, "target_modules": ["query"]}
        matrix = "base_model.model.encoder.layer.0.attention.self.query.lora_"
        numbers = {f"{matrix}A.weight": np.ones((2, 24), "f4") * alpha}
        numbers |= {f"{matrix}B.weight": np.ones((24, 2), "f4")}
        (tmp_path / name).mkdir()
        (tmp_path / name / "adapter_config.json").write_text(json.dumps(config))
        save_file(numbers, tmp_path / name / "adapter_model.safetensors")
    interrupt(tmp_path / "new", tmp_path / "old")
    from kbert.checkpoints.adapters import peft_folder

    before = read_tree(tmp_path)
    (pair,) = peft_folder.read(tmp_path / "old").pairs.values()
    assert pair.scale == 8 / 2 and pair.a[0, 0] == 8
    assert read_tree(tmp_path) == before


@pytest.mark.full
@pytest.mark.parametrize("name", [".kbert.0-1.new", ".kbert.0-1.alone.new"])
def test_a_link_to_a_folder_is_left_alone(pair, mine, tmp_path, name, capsys):
    target = shutil.copytree(pair / "old", tmp_path / "bert")
    (target / name).symlink_to(mine)
    before = read_tree(tmp_path)
    wanted = describe(kbert.load(pair / "old"))
    assert describe(kbert.load(target)) == wanted
    assert command(capsys, "inspect", target).status == 0
    read_in_each_way(target)
    assert read_tree(tmp_path) == before

    of_mine = read_tree(mine)
    with atomic_folder(target) as part:
        shutil.copytree(pair / "new", part, dirs_exist_ok=True)
    assert describe(kbert.load(target)) == describe(kbert.load(pair / "new"))
    with atomic_folder(target, superseded=["*"]) as part:
        (part / "a").write_text("a")
    assert read_tree(mine) == of_mine


def forge(new: Path, source: Path, **record) -> None:
    """Write what a stranger can: files, and a record of them."""
    shutil.copytree(source, new)
    files = {name: stamp_of(new / name) for name in read_files(new)}
    values = {"files": files, "folders": [], "replaced": {}, "replaced_folders": []} | record
    (new / RECORD).write_text(json.dumps(values))


def stamp_of(path: Path) -> str:
    content = path.read_bytes()
    return f"{len(content)} bytes, {hashlib.blake2b(content, digest_size=16).hexdigest()}"


@pytest.mark.parametrize(
    "how",
    [
        "no record",
        "files of the same names",
        "removes",
        "outside",
        "absolute",
        "link",
        "link of folder",
    ],
)
def test_what_a_stranger_left_beside_files_of_the_user_changes_none(
    pair, mine, tmp_path, how, capsys, monkeypatch
):
    monkeypatch.setattr(interrupted_saves, "WRITER_TIMEOUT_S", 0.0)
    new = mine / ".kbert.00000000-1.new"
    away = tmp_path / "away"
    away.mkdir()
    (away / "key").write_text("mine")
    stuff = tmp_path / "stuff"  # no names of the user's
    stuff.mkdir()
    (stuff / "stuff.txt").write_text("a stranger's")
    if how == "no record":
        shutil.copytree(pair / "new", mine / ".kbert.00000000-1.alone.new")
    elif how == "files of the same names":
        forge(new, pair / "new")
    elif how == "removes":
        forge(new, stuff, replaced={"thesis.txt": "4 bytes, " + "0" * 32})
    elif how in ("outside", "absolute"):
        path = "../away/key" if how == "outside" else str(away / "key")
        forge(new, stuff, replaced={path: stamp_of(away / "key")})
    elif how == "link":
        forge(new, stuff, files={"stuff.txt": stamp_of(away / "key")})
        (new / "stuff.txt").unlink()
        (new / "stuff.txt").symlink_to(away / "key")
    else:
        (mine / "linked").symlink_to(away)
        forge(new, stuff, replaced={"linked/key": stamp_of(away / "key")})
    before = read_tree(tmp_path)
    read_in_each_way(mine)
    with raises(ValueError, mine):
        kbert.load(mine / WEIGHTS)
    for superseded in ([], ["*"]):
        with raises(ValueError, mine), atomic_folder(mine, superseded=superseded):
            raise AssertionError("nothing may be written")
    done = command(capsys, "convert", pair / "old", mine, "--overwrite")
    assert done.status == 2 and done.err.count("\n") == 1
    assert read_tree(tmp_path) == before


def test_files_that_were_changed_since_are_kept(interrupt, pair, tmp_path):
    target = shutil.copytree(pair / "old", tmp_path / "bert")
    (target / "notes.txt").write_text("mine")
    interrupt(pair / "new", target)
    config = json.loads((pair / "old" / "config.json").read_text())
    (target / "config.json").write_text(json.dumps(config))  # by the user
    before = read_tree(target)
    for read in (kbert.load, kbert.get_config, kbert.Tokenizer.load):
        with raises(ValueError, "config.json", target):
            read(target)
    with raises(ValueError, "config.json", target), atomic_folder(target):
        raise AssertionError("nothing may be written")
    assert read_tree(target) == before


@pytest.mark.full
@pytest.mark.parametrize("moved", [0, 1, 3])
def test_copy_of_an_interrupted_save_is_read_and_finished(interrupt, pair, tmp_path, moved):
    """`cp -r` and archives give files other times."""
    target = shutil.copytree(pair / "old", tmp_path / "bert")
    interrupt(pair / "new", target, moved=moved)
    shutil.copytree(target, tmp_path / "copy", copy_function=shutil.copyfile)
    for number, path in enumerate(sorted((tmp_path / "copy").rglob("*"))):
        os.utime(path, (number, number))
    assert describe(kbert.load(tmp_path / "copy")) == describe(kbert.load(pair / "new"))
    with atomic_folder(tmp_path / "copy") as part:
        (part / "a").write_text("a")
    assert read_files(tmp_path / "copy") == read_files(pair / "new") | {"a": b"a"}


@pytest.mark.parametrize("at", [0, -1])
def test_weights_of_an_interrupted_save_that_were_changed_are_refused(tmp_path, interrupt, at):
    """They are large: a digest of all would take long."""
    for name, byte in (("old", b"o"), ("new", b"n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "weights.bin").write_bytes(byte * (5 << 20))
    new = interrupt(tmp_path / "new", tmp_path / "old", moved=0)
    with open(new / "weights.bin", "r+b") as file:
        file.seek(at, os.SEEK_END if at < 0 else os.SEEK_SET)
        file.write(b"x")
    with raises(ValueError, "weights.bin"), open_whole(tmp_path / "old"):
        raise AssertionError("nothing may be read")


def test_refused_writers_do_not_finish_a_save(interrupt, pair, tmp_path, capsys):
    target = shutil.copytree(pair / "old", tmp_path / "bert")
    interrupt(pair / "new", target)
    before = read_tree(target)
    assert command(capsys, "convert", pair / "old", target).status == 2  # no --overwrite
    assert command(capsys, "convert", pair / "old", target, "--to", "google").status == 2
    with raises(ValueError, target):
        from kbert.exports import saved_model

        saved_model.check(target)
    assert read_tree(target) == before


def test_save_removes_only_what_it_replaces(killed_at, tmp_path):
    """A SavedModel replaces all of the old one, and nothing that came meanwhile."""
    for name in ("old", "new"):
        for file in ("saved_model.pb", f"variables/of_{name}.txt"):
            (tmp_path / name / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name / file).write_text(name)
    unfinished = 0
    for step in range(1, 60):
        target = shutil.copytree(tmp_path / "old", tmp_path / f"{step}")
        killed = killed_at(step, tmp_path / "new", target, alone=True)
        (target / "thesis.txt").write_text("mine")
        (target / "variables").mkdir(exist_ok=True)
        (target / "variables" / "notes.txt").write_text("mine")
        unfinished += bool(list(target.glob(".kbert.*.new")))
        mine = {"thesis.txt": b"mine", "variables/notes.txt": b"mine"}
        with open_whole(target) as whole:
            there = {n: c for n, c in read_files(whole).items() if not n.startswith(".")}
        assert there in [read_files(tmp_path / name) | mine for name in ("old", "new")]
        with atomic_folder(target) as part:
            (part / "a").write_text("a")
        assert read_files(target) == there | {"a": b"a"}
        if not killed:
            break
    assert unfinished > 3 and step < 59


def test_folder_write_does_not_go_through_links_of_folders(mine, tmp_path):
    target = tmp_path / "bert"
    target.mkdir()
    (target / "sub").symlink_to(mine / "sub")
    before = read_tree(tmp_path)
    with raises(OSError, "sub"), atomic_folder(target) as part:
        (part / "sub").mkdir()
        (part / "sub" / "photo.jpg").write_text("new")
    assert read_tree(mine) == {
        name.removeprefix("mine/") if name != "mine" else ".": facts
        for name, facts in before.items()
        if name == "mine" or name.startswith("mine/")
    }


def test_vocabulary_write_replaces_a_link_of_the_folder(mine, tmp_path):
    (tmp_path / "words").mkdir()
    (tmp_path / "words" / "vocab.txt").symlink_to(mine / "thesis.txt")
    before = read_tree(mine)
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]
    tokenizer = kbert.Tokenizer.from_vocab(tokens, lowercase=True)
    tokenizer.save(tmp_path / "words", overwrite=True)
    assert read_tree(mine) == before
    assert (tmp_path / "words" / "vocab.txt").read_text().split() == tokens


def test_finished_save_of_a_cache_leaves_the_shared_files(interrupt, pair, tmp_path):
    shared = shutil.copytree(pair / "old", tmp_path / "shared")
    target = tmp_path / "bert"
    target.mkdir()
    for name in os.listdir(shared):
        (target / name).symlink_to(shared / name)
    before = read_tree(shared)
    interrupt(pair / "new", target)
    assert describe(kbert.load(target)) == describe(kbert.load(pair / "new"))
    with atomic_folder(target) as part:
        (part / "a").write_text("a")
    assert read_files(target) == read_files(pair / "new") | {"a": b"a"}
    assert read_tree(shared) == before
    assert load_file(shared / WEIGHTS).keys() == load_file(target / WEIGHTS).keys()
