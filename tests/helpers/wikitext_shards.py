"""WikiText-2 as shards, made once a test run, with a vocabulary of its own."""

import atexit
import functools
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest

from helpers.sizes import SHARED

VOCABULARY, SHARD = 2003, 150_001  # tokens


FOLDER = SHARED / "data" / "wikitext-2"


def wikitext_files() -> list[Path]:
    """Return WikiText-2's two files; the test is skipped where they are missing."""
    if not FOLDER.is_dir():
        pytest.skip("no ../shared beside the project: no WikiText-2")
    return sorted(FOLDER.glob("*.txt"))


@functools.cache
def text_files() -> list[Path]:
    """Return WikiText-2's two files, or random ones where there is no WikiText-2."""
    return wikitext_files() if FOLDER.is_dir() else random_files()


def random_files() -> list[Path]:
    """Two files as WikiText has them, nearly as large: words by Zipf's law, 60 articles each."""
    random = np.random.default_rng(7)
    letters = np.array(list("etaoinshrdlucmfw"))
    words = ["".join(random.choice(letters, size)) for size in random.integers(2, 11, 6000)]
    words[:6] = ["the", "in", "was", "game", "released", "japan"]
    shares = 1 / np.arange(1, len(words) + 1)
    folder = temporary_folder()
    for name in ("test", "valid"):
        lines = []
        for article in range(60):
            lines += ["", f"= Article {article} =", ""]
            for sentences in random.integers(3, 8, random.integers(12, 46)):
                lines.append("")
                for length in random.integers(5, 40, sentences):
                    found = random.choice(words, length, p=shares / shares.sum())
                    lines[-1] += f"{' '.join(found).capitalize()} . "
        text = "".join(f" {line.rstrip()} \n" for line in lines)
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    return sorted(folder.glob("*.txt"))


def temporary_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="kbert-wikitext-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@functools.cache
def folders() -> tuple[Path, Path]:
    """The folders of the vocabulary and the shards: of random text where there is no WikiText-2."""
    from kbert.data.corpus.preparing import prepare
    from kbert.data.corpus.vocab_training import train_vocab

    files = text_files()
    folder = temporary_folder()
    train_vocab(files, VOCABULARY, folder / "vocabulary")
    prepare(files, folder / "vocabulary", folder / "shards", shard_tokens=SHARD)
    return folder / "vocabulary", folder / "shards"


@functools.cache
def wikitext_shards():
    from kbert.data.corpus.shards import open_shards

    return open_shards(folders()[1])
