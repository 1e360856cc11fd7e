"""Text to shards: `kbert.prepare` beside the tokenizer alone, on text that is made up.

Documents of about 40 sentences, a sentence a line, of 30,000 words by Zipf's law; the vocabulary
cuts some. The tokenizer alone is the Rust WordPiece with the same vocabulary, in one process on
all cores, over the same lines in portions; its encodings are thrown away. `prepare` reads the
file, tokenizes, writes tokens, sentences and documents with their hashes, and opens them.
"""

import itertools
from pathlib import Path

from benchmarks.claims import Claim
from benchmarks.contenders import Contender
from benchmarks.work import Work

WORDS = 30_000
PORTION = 4_000  # lines


def text(folder: str, megabytes: float):
    """Writes text.txt and the vocabulary."""
    place = Path(folder)
    write_text(place / "text.txt", int(megabytes * 1e6))
    write_vocabulary(place / "vocabulary")
    return lambda count: None


def prepare(folder: str, megabytes: float):
    import tempfile

    from kbert.data.corpus.preparing import prepare as library

    def run(count):
        for _ in range(count):
            with tempfile.TemporaryDirectory(dir=folder) as shards:
                library(f"{folder}/text.txt", f"{folder}/vocabulary", shards)

    return run


def tokenizer(folder: str, megabytes: float):
    import tokenizers

    rust = tokenizers.Tokenizer.from_file(f"{folder}/vocabulary/tokenizer.json")
    lines = [line for line in Path(folder, "text.txt").read_text().split("\n") if line]

    def run(count):
        for _ in range(count):
            for start in range(0, len(lines), PORTION):
                rust.encode_batch_fast(lines[start : start + PORTION], add_special_tokens=False)

    return run


def write_text(path: Path, size: int) -> None:
    """About that many bytes of sentences."""
    import numpy as np

    random, words = np.random.default_rng(0), np.array(synthetic_words())
    shares = 1 / np.arange(10, WORDS + 10)
    left = size
    with open(path, "wb") as file:
        while left > 0:
            drawn = words[random.choice(WORDS, 200_000, p=shares / shares.sum())]
            ends = np.cumsum(random.integers(5, 40, 9000))
            lines = [" ".join(part) + " ." for part in np.split(drawn, ends[ends < 200_000])]
            lines[::40] = ["\n" + line for line in lines[::40]]
            content = ("\n".join(lines) + "\n").encode()[:left]
            left -= file.write(content)


def synthetic_words() -> list[str]:
    """Pronounceable words."""
    import numpy as np

    random = np.random.default_rng(1)
    consonants, vowels = list("bcdfghjklmnprstvw"), list("aeiou")
    found: dict[str, None] = {}
    while len(found) < WORDS:
        count = random.integers(1, 5)
        parts = zip(random.choice(consonants, count), random.choice(vowels, count), strict=True)
        found["".join(itertools.chain(*parts)) + random.choice(["", "n", "s"])] = None
    return list(found)


def write_vocabulary(folder: Path) -> None:
    from kbert.data.tokenization.tokenizer import Tokenizer
    from kbert.data.tokenization.vocabulary import SPECIAL_TOKENS

    syllables = [c + v for c in "bcdfghjklmnprstvw" for v in "aeiou"]
    pieces = [f"##{one}" for one in syllables] + ["##n", "##s", "."]
    tokens = [*SPECIAL_TOKENS.values(), *syllables, *pieces, *synthetic_words()[:10_000]]
    Tokenizer.from_vocab(dict.fromkeys(tokens), lowercase=True).save(folder)


def works(name: str = "prepare", megabytes: float = 40) -> list[Work]:
    options = {"megabytes": megabytes}

    def contender(name, function):
        return Contender(name, f"benchmarks.corpora:{function}", options)

    alone = "nothing is read or written"
    tokens = Contender(
        "the tokenizer alone", "benchmarks.corpora:tokenizer", options, computes=alone
    )
    return [
        Work(
            name,
            f"{megabytes:g} MB of text to shards",
            (contender("kbert.prepare", "prepare"), tokens),
            [Claim("16", "kbert.prepare", (tokens.name,), 0.7, 0.85)],
            count=1,
            warm=False,
            memory=1000,
            amount=megabytes,
            unit="MB",
            files=contender("files", "text"),
        )
    ]
