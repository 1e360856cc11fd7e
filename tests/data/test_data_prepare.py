"""Shards: the tokenizer's ids, the same bytes whatever happened meanwhile, and what is refused."""

import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from helpers.corpora import SHARD, content, folders, read_documents, text_files, wikitext_shards
from helpers.errors import raises
from helpers.folder_trees import read_tree
from helpers.marks import full, nightly
from helpers.sizes import ROOT

from kbert.data.corpus.preparing import prepare
from kbert.data.tokenization.tokenizer import Tokenizer


@pytest.fixture
def damaged(tmp_path):
    """A copy of the shards."""
    shutil.copytree(folders()[1], tmp_path / "copy")
    return tmp_path / "copy"


def test_shards_hold_the_tokenizers_ids():
    shards, tokenizer = wikitext_shards(), Tokenizer.load(folders()[0])
    documents = list(read_documents(text_files()))
    sentences = [sentence for document in documents for sentence in document]
    expected = [
        encoding.ids
        for encoding in tokenizer.encode_batch(sentences, add_special_tokens=False).encodings
    ]
    assert len(shards.offsets) - 1 == len(sentences)
    assert np.array_equal(np.diff(shards.offsets), list(map(len, expected)))
    every = shards.take(np.arange(shards.offsets[-1]))
    assert np.array_equal(every, np.concatenate(expected))
    ends = np.cumsum(list(map(len, documents)))
    assert np.array_equal(shards.ends, ends) and np.array_equal(shards.starts[1:], ends[:-1])
    assert len(list(folders()[1].glob("tokens-*"))) == 3  # several shards
    assert np.load(folders()[1] / "tokens-00000.npy").dtype == np.uint16
    assert np.array_equal(shards.sentence(999), expected[999])


@pytest.mark.full
@pytest.mark.parametrize("processes", [full(1), 3])
def test_any_number_of_processes_gives_the_same_shards(tmp_path, processes):
    prepare(text_files(), folders()[0], tmp_path, shard_tokens=SHARD, processes=processes)
    assert content(tmp_path) == content(folders()[1])


@pytest.mark.full
def test_other_files_in_the_folder_stay(tmp_path):
    names = ("part-list.txt", "part-00000.txt", "tokens-mine.npy", ".notes.part", "readme")
    for name in names:
        (tmp_path / name).write_text("mine")
    text = tmp_path.parent / f"{tmp_path.name}.txt"
    text.write_bytes(b"\xff\n")  # the shards are given up
    with raises(ValueError, text.name, "line 1", "UTF-8"):
        prepare(text, folders()[0], tmp_path, corpus_format="sentences")
    text.write_text("the game was released\n\nthe cat\n")
    prepare(text, folders()[0], tmp_path, corpus_format="sentences")
    for name in names:
        assert (tmp_path / name).read_text() == "mine"


@pytest.mark.parametrize("name", ["vocabulary", "begun.json", "tokens-00000.npy"])
def test_shards_are_not_written_through_links(tmp_path, name):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "vocab.txt").write_text("mine")
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / name).symlink_to(mine if name == "vocabulary" else mine / "vocab.txt")
    before = read_tree(mine)
    with raises(ValueError, name, "link"):
        prepare(text_files(), folders()[0], tmp_path / "shards", shard_tokens=SHARD)
    assert read_tree(mine) == before


def test_second_preparation_changes_nothing(damaged):
    before = {path: path.stat().st_mtime_ns for path in damaged.rglob("*")}
    prepare(text_files(), folders()[0], damaged, shard_tokens=SHARD)
    assert before == {path: path.stat().st_mtime_ns for path in damaged.rglob("*")}


_KILLED = """
import os, signal, sys
import kbert.io.atomic_write
from kbert.data.corpus import blocks
blocks.BLOCK = 1 << 16
after, number = sys.argv[1] == "after", int(sys.argv[2])
replace, rename, calls = os.replace, os.rename, [0]
def kill(call):
    def wrapped(*arguments):
        calls[0] += 1
        if calls[0] == number and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        call(*arguments)
        if calls[0] == number and after:
            os.kill(os.getpid(), signal.SIGKILL)
    return wrapped
os.replace, os.rename = kill(replace), kill(rename)
from kbert.data.corpus.preparing import prepare
files, mix = sys.argv[6:], sys.argv[5] or None
if mix:
    files = [f"{name}={file}" for name, file in zip("ab", files)]
prepare(files, sys.argv[3], sys.argv[4], mix=mix, shard_tokens=120_000, processes=1)
"""
MIX = "a=3,b=1"


def run_killed(output: Path, when: str, number: int, mix: str = "", files=()) -> int:
    """The exit status of a preparation that is killed at one of its writes."""
    command = [
        sys.executable,
        "-c",
        _KILLED,
        when,
        str(number),
        folders()[0],
        output,
        mix,
        *(files or text_files()),
    ]
    return subprocess.run(command, cwd=ROOT, timeout=120).returncode


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "shards"
    assert run_killed(folder, "before", 10_000) == 0
    return content(folder)


@pytest.mark.parametrize(
    "number", [*(full(n) for n in (1, 7, 28)), *(nightly(n) for n in (3, 12, 26, 29, 30))]
)
def test_prepare_killed_at_any_write_is_bit_equal(tmp_path, uninterrupted, number):
    when = random.Random(number).choice(["before", "after"])
    status = run_killed(tmp_path / "shards", when, number)
    assert status == -signal.SIGKILL
    assert run_killed(tmp_path / "shards", "before", 10_000) == 0
    assert content(tmp_path / "shards") == uninterrupted


@pytest.fixture(scope="module")
def uninterrupted_mix(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "shards"
    assert run_killed(folder, "before", 10_000, MIX) == 0
    return content(folder)


@pytest.mark.parametrize("number", [full(7), *(nightly(n) for n in (2, 5, 9, 12))])
def test_mix_killed_at_any_write_is_bit_equal(tmp_path, uninterrupted_mix, number):
    when = random.Random(number).choice(["before", "after"])
    assert run_killed(tmp_path / "shards", when, number, MIX) == -signal.SIGKILL
    assert run_killed(tmp_path / "shards", "before", 10_000, MIX) == 0
    assert content(tmp_path / "shards") == uninterrupted_mix


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A Parquet file of the documents, five in a group of rows, and its uninterrupted shards."""
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    folder = tmp_path_factory.mktemp("table")
    texts = ["\n".join(sentences) for sentences in read_documents(text_files())]
    file = folder / "documents.parquet"
    parquet.write_table(pyarrow.table({"text": texts}), file, row_group_size=5)
    assert run_killed(folder / "shards", "before", 10_000, files=[file]) == 0
    return file, content(folder / "shards")


@pytest.mark.parametrize("number", [full(16), *(nightly(n) for n in (14, 19, 25))])
def test_table_killed_at_any_write_is_bit_equal(tmp_path, table, number):
    file, whole = table
    when = random.Random(number).choice(["before", "after"])
    assert run_killed(tmp_path / "shards", when, number, files=[file]) == -signal.SIGKILL
    assert list((tmp_path / "shards").glob("part-*.json"))  # a shard to resume behind
    assert run_killed(tmp_path / "shards", "before", 10_000, files=[file]) == 0
    assert content(tmp_path / "shards") == whole


@pytest.mark.full
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="only Linux lists children")
def test_killed_prepare_leaves_no_process(tmp_path):
    text = tmp_path / "long.txt"
    text.write_bytes(b"".join(path.read_bytes() for path in text_files()) * 20)
    code = (
        "from kbert.data.corpus.preparing import prepare; "
        f"prepare({str(text)!r}, {str(folders()[0])!r}, {str(tmp_path / 'o')!r}, processes=2)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    deadline = time.time() + 30
    while not (workers := children(process.pid)) and time.time() < deadline:
        time.sleep(0.02)
    time.sleep(0.5)
    process.kill()
    process.wait()
    while any(Path(f"/proc/{pid}/cmdline").exists() for pid in workers):
        assert time.time() < deadline, "a process of a killed preparation still runs"
        time.sleep(0.05)
    assert len(workers) >= 1


def children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        found += map(int, task.read_text().split())
    return found


def test_special_tokens_in_a_text_become_unknown(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("the [SEP] game [MASK] was\n\x01\x02\n\n\x03\n\n[PAD] [CLS] [UNK]\n", "utf-8")
    tokenizer = Tokenizer.load(folders()[0])
    shards = prepare(path, tokenizer, tmp_path / "shards")
    game = [tokenizer.id_of(token) for token in ("the", "[UNK]", "game", "[UNK]", "was")]
    assert shards.sentence(0).tolist() == game
    assert shards.sentence(1).tolist() == [tokenizer.unk_id] * 3
    assert shards.documents == 2 and len(shards.offsets) == 3  # control characters are no sentence


@pytest.mark.full
def test_a_huge_line_is_tokenized_in_pieces(tmp_path):
    path = tmp_path / "text.txt"
    line = "the game was released " * 20_000  # more than three pieces
    path.write_text(f"{line}\n\nother\n", "utf-8")
    tokenizer = Tokenizer.load(folders()[0])
    shards = prepare(path, tokenizer, tmp_path / "shards")
    assert shards.sentence(0).tolist() == tokenizer.encode(line, add_special_tokens=False).ids
