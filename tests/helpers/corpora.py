"""Corpora for tests: a small one in two formats, WikiText-2, their shards, and what they hold."""

import atexit
import contextlib
import functools
import gzip
import hashlib
import itertools
import json
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from helpers.sizes import SHARED
from kbert.data.corpus import blocks
from kbert.data.corpus.preparing import prepare
from kbert.data.corpus.sentences import parse_corpus
from kbert.data.tokenization.tokenizer import Tokenizer
from kbert.data.tokenization.vocabulary import SPECIAL_TOKENS

SMALL_BLOCK, SMALL_SHARD = 1 << 12, 20_011  # bytes, tokens
VOCABULARY, SHARD = 2003, 150_001  # tokens of WikiText-2's vocabulary and shards
WIKITEXT = SHARED / "data" / "wikitext-2"


def content(folder: Path) -> dict[str, str]:
    """Return the hash of every file in a folder, hidden ones included."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def read_documents(corpus, **options) -> Iterator[list[str]]:
    """Yield the documents of a corpus as lists of sentences; options are `parse_corpus`'s.

    A document ends with its file at the latest.
    """
    document, last = [], None
    for path, sentences in parse_corpus(corpus, **options):
        ends, last = [""] * (path != last), path
        for sentence in [*ends, *sentences]:
            if sentence:
                document.append(sentence)
            elif document:
                yield document
                document = []
    if document:
        yield document


@contextlib.contextmanager
def small_blocks():
    """Have this process read text in blocks of `SMALL_BLOCK` bytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK", SMALL_BLOCK)
        yield


def write_corpus(folder: Path) -> None:
    """Write a.txt, b.jsonl.gz and the folder vocabulary: many small blocks, several shards."""
    syllables = [c + v for c in "bcdfghjklmnprstvw" for v in "aeiou"]
    words = ["".join(pair) for pair in itertools.product(syllables, repeat=2)]
    rng = random.Random(0)
    sentences = [" ".join(rng.choices(words, k=rng.randint(5, 40))) for _ in range(6_000)]
    documents = [sentences[start : start + 37] for start in range(0, len(sentences), 37)]
    (folder / "a.txt").write_text("\n\n".join("\n".join(one) for one in documents[:120]))
    lines = [json.dumps({"text": ". ".join(one)}) for one in documents[120:]]
    (folder / "b.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    tokens = [*SPECIAL_TOKENS.values(), *syllables, *(f"##{one}" for one in syllables), "."]
    Tokenizer.from_vocab(tokens + words[::3], lowercase=True).save(folder / "vocabulary")


def prepare_some(folder: Path, output: Path, **options):
    """Prepare what `write_corpus` wrote."""
    files = [folder / "a.txt", folder / "b.jsonl.gz"]
    return prepare(files, folder / "vocabulary", output, shard_tokens=SMALL_SHARD, **options)


def wikitext_files() -> list[Path]:
    """Return WikiText-2's two files; skip the test where they are missing."""
    if not WIKITEXT.is_dir():
        pytest.skip("no ../shared beside the project: no WikiText-2")
    return sorted(WIKITEXT.glob("*.txt"))


@functools.cache
def text_files() -> list[Path]:
    """Return WikiText-2's two files, or random ones where there is no WikiText-2."""
    return wikitext_files() if WIKITEXT.is_dir() else random_files()


def random_files() -> list[Path]:
    """Write two files like WikiText's, nearly as large: 60 articles each, words by Zipf's law."""
    rng = np.random.default_rng(7)
    letters = np.array(list("etaoinshrdlucmfw"))
    words = ["".join(rng.choice(letters, size)) for size in rng.integers(2, 11, 6000)]
    words[:6] = ["the", "in", "was", "game", "released", "japan"]
    weights = 1 / np.arange(1, len(words) + 1)
    folder = temporary_folder()
    for name in ("test", "valid"):
        lines = []
        for article in range(60):
            lines += ["", f"= Article {article} =", ""]
            for sentences in rng.integers(3, 8, rng.integers(12, 46)):
                lines.append("")
                for length in rng.integers(5, 40, sentences):
                    sentence = rng.choice(words, length, p=weights / weights.sum())
                    lines[-1] += f"{' '.join(sentence).capitalize()} . "
        text = "".join(f" {line.rstrip()} \n" for line in lines)
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    return sorted(folder.glob("*.txt"))


def temporary_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="kbert-wikitext-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@functools.cache
def folders() -> tuple[Path, Path]:
    """Return the folders of the vocabulary and the shards of `text_files`."""
    from kbert.data.corpus.vocab_training import train_vocab

    folder = temporary_folder()
    train_vocab(text_files(), VOCABULARY, folder / "vocabulary")
    prepare(text_files(), folder / "vocabulary", folder / "shards", shard_tokens=SHARD)
    return folder / "vocabulary", folder / "shards"


@functools.cache
def wikitext_shards():
    from kbert.data.corpus.shards import open_shards

    return open_shards(folders()[1])
