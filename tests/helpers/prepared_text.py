"""A small corpus of two formats, and its shards: many blocks, several shards."""

import contextlib
import gzip
import itertools
import json
import random
from pathlib import Path

import pytest

from kbert.data.corpus import text_files
from kbert.data.corpus.preparing import prepare
from kbert.data.tokenization.tokenizer import Tokenizer
from kbert.data.tokenization.vocabulary import SPECIAL_TOKENS

BLOCK, SHARD = 1 << 12, 20_011  # bytes, tokens


@contextlib.contextmanager
def small_blocks():
    """Blocks of `BLOCK` bytes in this process, which reads the text."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_files, "BLOCK", BLOCK)
        yield


def write_corpus(folder: Path) -> None:
    """a.txt, b.jsonl.gz and the folder vocabulary."""
    syllables = [c + v for c in "bcdfghjklmnprstvw" for v in "aeiou"]
    words = ["".join(pair) for pair in itertools.product(syllables, repeat=2)]
    draw = random.Random(0)
    sentences = [" ".join(draw.choices(words, k=draw.randint(5, 40))) for _ in range(6_000)]
    documents = [sentences[start : start + 37] for start in range(0, len(sentences), 37)]
    (folder / "a.txt").write_text("\n\n".join("\n".join(one) for one in documents[:120]))
    lines = [json.dumps({"text": ". ".join(one)}) for one in documents[120:]]
    (folder / "b.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    tokens = [*SPECIAL_TOKENS.values(), *syllables, *(f"##{one}" for one in syllables), "."]
    Tokenizer.from_vocab(tokens + words[::3], lowercase=True).save(folder / "vocabulary")


def prepare_some(folder: Path, output: Path, **options):
    """Prepares what `write_corpus` wrote."""
    files = [folder / "a.txt", folder / "b.jsonl.gz"]
    return prepare(files, folder / "vocabulary", output, shard_tokens=SHARD, **options)
