"""What the data side of pretraining refuses, in one line each."""

import json
import os
import shutil

import numpy as np
import pytest
from helpers.corpora import SHARD, folders, small_blocks, text_files, wikitext_shards
from helpers.damaged_checkpoints import read_files
from helpers.errors import logged, raises
from helpers.marks import full

import kbert
from kbert.cli.inputs import check_file, read_lines
from kbert.data.corpus.preparing import prepare
from kbert.data.corpus.shards import open_shards
from kbert.data.npy_files import read_npy
from kbert.data.pretraining.pretraining_batches import PretrainingBatches, warn_of_long
from kbert.data.tokenization.tokenizer import Tokenizer
from kbert.io import json_schema as js
from kbert.tasks.classification.training import TASK as CLASSIFY


@pytest.fixture
def damaged(tmp_path):
    """A copy of the shards, which are three."""
    shutil.copytree(folders()[1], tmp_path / "copy")
    return tmp_path / "copy"


@pytest.mark.full
@pytest.mark.parametrize("resumed", [False, full(True)])
def test_corrected_text_is_prepared_into_the_same_folder(tmp_path, resumed):
    """What was begun of the bad text does not stand in the way, shards of it neither."""
    path, output = tmp_path / "text.txt", tmp_path / "shards"
    good = b"the game was released\n\n" * 3_000
    path.write_bytes(good + b"not \xff so\n")
    vocabulary, _ = folders()  # with usual blocks: other tests share them
    with small_blocks():
        for _ in range(1 + resumed):
            with raises(ValueError, "text.txt, line 6001", "UTF-8"):
                prepare(path, vocabulary, output, shard_tokens=2_000)
            assert not output.exists()
        path.write_bytes(good)
        shards = prepare(path, vocabulary, output, shard_tokens=2_000)
    assert shards.documents == 3_000


@pytest.mark.parametrize("text", [b"", b"good\n\nnot \xff so\n"])
def test_refused_text_leaves_the_users_files(tmp_path, text):
    """Also a vocabulary that is equal to the tokenizer's."""
    path, output = tmp_path / "text.txt", tmp_path / "shards"
    path.write_bytes(text)
    shutil.copytree(folders()[1] / "vocabulary", output / "vocabulary")
    (output / "vocabulary" / "mine").mkdir()
    for name in ("README.md", "mine/notes.txt", "../thesis.txt"):
        (output / "vocabulary" / name).write_text("mine")
    before = read_files(output)
    with raises(ValueError, "text.txt"):
        prepare(path, folders()[0], output)
    assert read_files(output) == before


@pytest.mark.parametrize(
    "name",
    ["tokens-00000.npy", "tokens-00001.npy", "sentences.npy", "documents.npy", "part-00000.json"],
)
@pytest.mark.parametrize("text", [b"", b"the game was released\n\n"])
def test_users_file_of_a_shards_name_is_refused(tmp_path, name, text):
    path, output = tmp_path / "text.txt", tmp_path / "shards"
    path.write_bytes(text)
    output.mkdir()
    (output / name).write_text("mine")
    with raises(FileExistsError, name):
        prepare(path, folders()[0], output)
    assert read_files(output) == {name: b"mine"}


@pytest.mark.full
def test_damaged_npy_header_is_one_line(tmp_path):
    """NumPy's parser raises TokenError, SyntaxError, TypeError and others of these."""
    path, array = tmp_path / "a.npy", np.arange(7, dtype="int64")
    np.save(path, array)
    whole, random = path.read_bytes(), np.random.default_rng(3)
    refused = 0
    for place in range(len(whole) - array.nbytes):
        for value in (0, ord("("), ord("'"), ord("9"), 255, int(random.integers(256))):
            path.write_bytes(whole[:place] + bytes([value]) + whole[place + 1 :])
            for mode in (None, "r"):
                try:
                    found = read_npy(path, mode)
                except ValueError as error:
                    said, refused = str(error), refused + 1
                    assert said.startswith(f"{path} must be a whole .npy file") and "\n" not in said
                else:
                    assert isinstance(found, np.ndarray)
                    del found
    assert refused > 400
    path.write_text("a film\n")
    with raises(ValueError, path, ".npy", "another kind"):
        read_npy(path)


def test_fifo_and_device_are_refused_at_once(tmp_path):
    """Reading it would wait for ever, or never end."""
    os.mkfifo(tmp_path / "fifo")
    for name in (tmp_path / "fifo", "/dev/zero"):
        kind = "FIFO" if name != "/dev/zero" else "device"
        for read in (
            read_npy,
            js.read,
            Tokenizer.from_vocab,
            CLASSIFY.read,
            check_file,
            read_lines,
            kbert.load,
            lambda path: prepare(path, folders()[0], tmp_path / "shards"),
        ):
            options = {"lowercase": True} if read == Tokenizer.from_vocab else {}
            with raises(OSError, name, "regular file", kind) as error:
                read(name, **options)
            assert str(error.value).startswith(f"{name}: ")


def test_shell_pipes_are_read(tmp_path):
    reader, writer = os.pipe()
    os.write(writer, b"a text\n")
    os.close(writer)
    try:
        assert read_lines(f"/dev/fd/{reader}") == ["a text"]
        with raises(OSError, "/dev/fd/", "regular file"):
            prepare(f"/dev/fd/{reader}", folders()[0], tmp_path / "shards")
    finally:
        os.close(reader)


@pytest.mark.parametrize("processes", [0, -1, 10_000, 1.0, True, "2"])
def test_bad_number_of_processes_is_refused(tmp_path, processes):
    """Before anything is read: there is no corpus."""
    with raises(ValueError, "processes", repr(processes)):
        prepare(tmp_path / "nowhere", tmp_path, tmp_path / "shards", processes=processes)
    assert list(tmp_path.iterdir()) == []


def test_changed_settings_text_or_vocabulary_are_named(damaged, tmp_path):
    options = {"shard_tokens": SHARD}
    with raises(ValueError, "settings.language", "'en'", "'de'"):
        prepare(text_files(), folders()[0], damaged, language="de", **options)
    with raises(ValueError, "corpus", "2 entries", "1 now"):
        prepare(text_files()[:1], folders()[0], damaged, **options)
    with raises(ValueError, "vocabulary.lowercase", True, False):
        cased = Tokenizer.from_vocab(folders()[0] / "vocab.txt", lowercase=False)
        prepare(text_files(), cased, damaged, **options)
    for path in text_files():
        shutil.copy(path, tmp_path)
    size = (tmp_path / "valid.txt").stat().st_size
    with open(tmp_path / "valid.txt", "ab") as file:
        file.write(b" More . \n")
    changed = [tmp_path / path.name for path in text_files()]
    with raises(ValueError, "corpus[valid.txt].bytes", size, size + 9):
        prepare(changed, folders()[0], damaged, **options)


def test_two_preparations_of_one_folder_are_refused(damaged):
    fcntl = pytest.importorskip("fcntl")
    handle = os.open(damaged, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with raises(RuntimeError, damaged, "process"):
        prepare(text_files(), folders()[0], damaged, shard_tokens=SHARD)
    os.close(handle)


def test_damaged_shards_are_refused(damaged):
    tokens, other = damaged / "tokens-00001.npy", damaged / "tokens-00002.npy"
    good = tokens.read_bytes()
    tokens.write_bytes(good[:-2])
    with raises(ValueError, "tokens-00001.npy"):
        open_shards(damaged)
    tokens.write_bytes(other.read_bytes())
    with raises(ValueError, "tokens-00001.npy"):
        open_shards(damaged)
    tokens.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    with raises(ValueError, "tokens-00001.npy", "index"):
        open_shards(damaged)
    assert open_shards(damaged, check=False).documents == wikitext_shards().documents
    tokens.write_bytes(b"")
    with raises(ValueError, "tokens-00001.npy"):
        open_shards(damaged)
    tokens.unlink()
    with raises(FileNotFoundError, "tokens-00001.npy"):
        open_shards(damaged)


@pytest.mark.parametrize(
    ("change", "things"),
    [
        ({"kbert_shards": 2}, ("index.json", "got 2")),
        ({"files": None}, ("index.json", "files", "list", "None")),
        ({"sentences": 7}, ("sentences.npy", "8", "int64")),
        ({"dtype": "uint32"}, ("tokens-00000.npy", "uint32")),
    ],
)
def test_a_damaged_index_is_refused(damaged, change, things):
    index = json.loads((damaged / "index.json").read_text())
    (damaged / "index.json").write_text(json.dumps(index | change))
    with raises(ValueError, *things):
        open_shards(damaged)


def test_folder_without_shards_is_refused(tmp_path):
    with raises(FileNotFoundError, "nowhere"):
        open_shards(tmp_path / "nowhere")
    with raises(ValueError, tmp_path, "index.json"):
        open_shards(tmp_path)


@pytest.mark.parametrize("how", ["gone", "cut"])
def test_shard_lost_while_training_is_named(damaged, how):
    source = PretrainingBatches(open_shards(damaged), batch_size=64, seq_len=61)
    source.batch(0)
    path = damaged / "tokens-00002.npy"
    if how == "gone":
        path.unlink()
    else:
        os.truncate(path, 1000)
    with raises(OSError, path) as caught:
        source.batch(1)
    assert caught.value.filename == str(path)


def test_bad_batch_settings_are_refused(tmp_path):
    shards = wikitext_shards()
    for options, expected in (
        ({"seq_len": 5}, "at least 8"),
        ({"batch_size": 0}, "at least 1"),
        ({"max_predictions": 0}, "at least 1"),
        ({"mlm_probability": 0}, "0"),
        ({"short_seq_probability": 1.5}, "1.5"),
    ):
        with raises(ValueError, *options, expected):
            PretrainingBatches(shards, **{"batch_size": 3, "seq_len": 61} | options)
    with raises(ValueError, "step", "at least 0", -1):
        PretrainingBatches(shards, batch_size=3, seq_len=61).batch(-1)
    for share in (0, 1, -0.5):
        with raises(ValueError, "dev_ratio", share):
            shards.split(share)
    path = tmp_path / "one.txt"
    path.write_text("the game\nwas released\n", "utf-8")
    one = prepare(path, folders()[0], tmp_path / "one")
    with raises(ValueError, "two documents", "next-sentence"):
        PretrainingBatches(one, batch_size=3, seq_len=61)
    assert len(PretrainingBatches(one, batch_size=3, seq_len=61, mlm_only=True).batch(0)) == 3
    part = shards.split(1.1 / shards.documents)[1]
    with raises(ValueError, "dev_ratio"):
        PretrainingBatches(part, batch_size=3, seq_len=61)
    with raises(ValueError, "dev_ratio", "got 1"):
        one.split(0.5)


def test_sentences_longer_than_the_model_are_counted(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("the game\n" + "the game " * 50 + "\n\nwas released\n", "utf-8")
    shards = prepare(path, folders()[0], tmp_path / "shards")
    source = PretrainingBatches(shards, batch_size=3, seq_len=21)
    with logged("1 of 3", "seq_len=21", "78.8 %"):
        warn_of_long(shards, 21)
    assert len(source.batch(0)) == 3
