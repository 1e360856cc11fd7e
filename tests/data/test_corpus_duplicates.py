"""Near-duplicates that are left out: the peer is Jaccard's similarity of all pairs, computed."""

import json
import random
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
from helpers.corpora import content, small_blocks
from helpers.errors import raises
from helpers.marks import full, nightly
from helpers.sizes import ROOT

import kbert

pytest.importorskip("rensa")
WORDS = [f"w{number}" for number in range(3000)]


def make_documents() -> list[str]:
    """Return 230 documents: new ones, copies, copies with one or with many words changed."""
    rng = random.Random(11)
    documents: list[str] = []
    for number in range(230):
        words = rng.choices(WORDS, k=rng.randint(301, 404))
        original = documents[5 * rng.randrange(1 + number // 5)] if number % 5 else ""
        if number % 5 == 1:  # equal but for case and spaces
            words = original.upper().split()
        if number % 5 == 2:  # five 5-grams of at least 297 are others
            words = original.split()
            words[rng.randrange(10, 290)] = "changed"
        if number % 5 == 3:  # a third of the 5-grams of both are common
            words = original.split()
            words[: len(words) // 2] = rng.choices(WORDS, k=len(words) // 2)
        documents.append(" ".join(words))
    return documents


def grams(document: str) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", document.lower())
    return {tuple(words[begin : begin + 5]) for begin in range(len(words) - 4)}


def drop_similar(documents: list[str], similarity: float = 0.8) -> list[str]:
    """Return the documents that are less similar than that to each that was kept before."""
    kept, sets = [], []
    for document in documents:
        one = grams(document)
        if all(len(one & other) < similarity * len(one | other) for other in sets):
            kept.append(document)
            sets.append(one)
    return kept


def write_json(path, documents):
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in documents))
    return path


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A folder with the documents in one file, and those of the brute force in another."""
    folder = tmp_path_factory.mktemp("duplicates")
    documents = make_documents()
    write_json(folder / "all.jsonl", documents)
    write_json(folder / "kept.jsonl", drop_similar(documents))
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "changed", *WORDS]
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    return folder


def prepare(corpus, source, output, **options):
    options.setdefault("drop_duplicates", 0.8)
    with small_blocks():
        return kbert.prepare(source, corpus / "vocab.txt", output, lowercase=True, **options)


def tokens_of(shards) -> list[list[int]]:
    """Return the token ids of each document."""
    documents = []
    for first, last in zip(shards.starts, shards.ends, strict=True):
        sentences = [shards.sentence(number) for number in range(first, last)]
        documents.append(np.concatenate(sentences).tolist())
    return documents


@pytest.mark.parametrize("shard_tokens", [3001, 1 << 24])
@pytest.mark.parametrize("processes", [1, full(3)])
def test_kept_documents_are_those_of_all_pairs(corpus, tmp_path, shard_tokens, processes):
    options = {"shard_tokens": shard_tokens, "processes": processes}
    shards = prepare(corpus, corpus / "all.jsonl", tmp_path / "one", **options)
    plain = prepare(corpus, corpus / "kept.jsonl", tmp_path / "two", drop_duplicates=None)
    assert 60 < plain.documents < 200
    assert tokens_of(shards) == tokens_of(plain)
    assert shards.index["duplicates"] == 230 - plain.documents


def test_without_duplicates_the_shards_are_the_same(corpus, tmp_path):
    for name, similarity in (("one", 0.8), ("two", None)):
        prepare(corpus, corpus / "kept.jsonl", tmp_path / name, drop_duplicates=similarity)
    one, two = content(tmp_path / "one"), content(tmp_path / "two")
    assert one.pop("index.json") != two.pop("index.json")
    assert one == two


@pytest.mark.parametrize("similarity", [0.5, 0.7, 0.9])
def test_similarity_is_where_half_of_the_pairs_are_dropped(corpus, tmp_path, similarity):
    """Of pairs at the similarity some stay; of those 0.2 above or below nearly all do as asked."""
    rng = random.Random(3)
    shares = {}
    for offset in (-0.2, 0.0, 0.09):
        common = round(200 * 2 * (similarity + offset) / (1 + similarity + offset))  # of 200
        documents = []
        for _ in range(60):
            words = rng.choices(WORDS, k=204)
            other = words[: common + 4] + rng.choices(WORDS, k=200 - common)
            documents += [" ".join(words), " ".join(other)]
        path = write_json(tmp_path / f"{offset}.jsonl", documents)
        shards = prepare(corpus, path, tmp_path / str(offset), drop_duplicates=similarity)
        shares[offset] = shards.index["duplicates"] / 60
    assert shares[-0.2] < 0.2 < shares[0.0] < 0.9 < shares[0.09] + 0.1


def test_sources_and_mixes_count_their_duplicates(corpus, tmp_path):
    lines = (corpus / "all.jsonl").read_text().splitlines(keepends=True)
    paths = {}
    for name, part in (("wiki", lines[:90]), ("books", lines[90:])):
        paths[name] = tmp_path / f"{name}.jsonl"
        paths[name].write_text("".join(part))
    shards = prepare(corpus, paths, tmp_path / "all")
    kept = (corpus / "kept.jsonl").read_text().splitlines(keepends=True)
    wiki = len([line for line in lines[:90] if line in kept])
    assert shards.index["duplicates"] == {"wiki": 90 - wiki, "books": 140 - (len(kept) - wiki)}

    mixed = prepare(corpus, paths, tmp_path / "mix", mix={"wiki": 0.6, "books": 0.4})
    documents = tokens_of(mixed)
    assert len(set(map(tuple, documents))) == len(documents)
    assert sum(mixed.index["sources"].values()) == mixed.index["tokens"]
    assert abs(mixed.index["sources"]["wiki"] / mixed.index["tokens"] - 0.6) < 0.03


def test_documents_across_blocks_are_told(corpus, tmp_path):
    """A text file's documents go on in the next block; short ones and ones without a word count."""
    rng = random.Random(5)
    long = [[" ".join(rng.choices(WORDS, k=31)) for _ in range(80)] for _ in range(3)]
    documents = [*long, long[1], ["w1 w2"], ["..."], ["W1, w2"], ["!"], ["..."], long[0]]
    text = tmp_path / "a.txt"
    text.write_text("\n\n".join("\n".join(document) for document in documents))
    shards = prepare(corpus, text, tmp_path / "shards", corpus_format="sentences")
    assert shards.documents == 6 and shards.index["duplicates"] == 4


_KILLED = """
import os, signal, sys
import kbert.io.atomic_write
from kbert.data.corpus import blocks
blocks.BLOCK = 1 << 12
number, calls, replace = int(sys.argv[1]), [0], os.replace
def kill(*arguments):
    calls[0] += 1
    if calls[0] == number:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(*arguments)
os.replace = kill
import kbert
kbert.prepare(sys.argv[2], sys.argv[3], sys.argv[4], lowercase=True, drop_duplicates=0.8,
    shard_tokens=3001, processes=1)
"""


def run_killed(corpus, output, number: int) -> int:
    arguments = [str(number), corpus / "all.jsonl", corpus / "vocab.txt", output]
    command = [sys.executable, "-c", _KILLED, *arguments]
    return subprocess.run(command, cwd=ROOT, timeout=120).returncode


@pytest.fixture(scope="module")
def uninterrupted(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "shards"
    assert run_killed(corpus, folder, 10_000) == 0
    return content(folder)


@pytest.mark.parametrize("number", [23, full(8), *(nightly(n) for n in (5, 6, 12, 31))])
def test_killed_preparation_drops_the_same(corpus, tmp_path, uninterrupted, number):
    assert run_killed(corpus, tmp_path / "shards", number) == -signal.SIGKILL
    assert run_killed(corpus, tmp_path / "shards", 10_000) == 0
    assert content(tmp_path / "shards") == uninterrupted


def test_other_similarities_are_refused(corpus, tmp_path, monkeypatch):
    for similarity in (0, 1.01, float("nan"), True):
        with raises(ValueError, "drop_duplicates", str(similarity)):
            prepare(corpus, corpus / "all.jsonl", tmp_path / "no", drop_duplicates=similarity)
    prepare(corpus, corpus / "all.jsonl", tmp_path / "shards")
    for similarity in (0.7, None):
        with raises(ValueError, "drop_duplicates"):
            prepare(corpus, corpus / "all.jsonl", tmp_path / "shards", drop_duplicates=similarity)
    monkeypatch.setitem(sys.modules, "rensa", None)
    with raises(ImportError, "drop_duplicates", "rensa"):
        prepare(corpus, corpus / "all.jsonl", tmp_path / "no")
    assert not (tmp_path / "no").exists()
