"""WikiText-2 as shards, made once a test run, with a vocabulary of its own."""

import atexit
import functools
import shutil
import tempfile
from pathlib import Path

import pytest

from helpers.sizes import SHARED

VOCABULARY, SHARD = 2003, 150_001  # tokens


def text_files() -> list[Path]:
    folder = SHARED / "data" / "wikitext-2"
    if not folder.is_dir():
        pytest.skip("no ../shared beside the project: no WikiText-2")
    return sorted(folder.glob("*.txt"))


@functools.cache
def folders() -> tuple[Path, Path]:
    """The folders of the vocabulary and the shards."""
    from kbert.data.corpus.preparing import prepare
    from kbert.data.corpus.vocab_training import train_vocab

    files = text_files()
    folder = Path(tempfile.mkdtemp(prefix="kbert-wikitext-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    train_vocab(files, VOCABULARY, folder / "vocabulary")
    prepare(files, folder / "vocabulary", folder / "shards", shard_tokens=SHARD)
    return folder / "vocabulary", folder / "shards"


@functools.cache
def wikitext_shards():
    from kbert.data.corpus.shards import open_shards

    return open_shards(folders()[1])
