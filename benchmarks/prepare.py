"""Times `prepare` on synthetic text, and its peak memory with all processes.

    python benchmarks/prepare.py [--sizes 10 100] [--gz] [--one-document] [--folder DIR]

For each size in MB: seconds, MB/s, the peak of the resident memory of all processes together
(proportional set size, sampled ten times a second, so that shared pages count once), then the
seconds of `open_shards` with all hashes, and of one epoch's plan at length 128. The text has
documents of about 40 sentences of words by Zipf's law, 30,000 of them. 1 GB: --sizes 1000.
"""

import argparse
import gzip
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

_WORDS = 30_000

_PREPARE = """
import sys, time
from kbert.data.corpus.preparing import prepare
start = time.perf_counter()
shards = prepare(sys.argv[1], sys.argv[2], sys.argv[3])
print(time.perf_counter() - start, shards.index["tokens"])
"""
_OPEN = """
import resource, sys, time
from kbert.data.pretraining.pretraining_batches import PretrainingBatches
from kbert.data.corpus.shards import open_shards
start = time.perf_counter()
shards = open_shards(sys.argv[1])
opened = time.perf_counter()
examples = PretrainingBatches(shards, batch_size=32, seq_len=128).examples_per_epoch(0)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(opened - start, time.perf_counter() - opened, examples, peak)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 100], metavar="MB")
    parser.add_argument("--gz", action="store_true", help="the text is packed")
    parser.add_argument(
        "--one-document", action="store_true", help="all but its beginning is one document"
    )
    parser.add_argument("--folder", type=Path, help="where to work; default: the system's")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=arguments.folder))
    try:
        for size in arguments.sizes:
            measure(folder, size * 10**6, arguments.gz, arguments.one_document)
    finally:
        shutil.rmtree(folder)


def measure(folder: Path, size: int, packed: bool, one_document: bool) -> None:
    text = write_text(folder / ("text.txt.gz" if packed else "text.txt"), size, one_document)
    vocabulary, shards = write_vocabulary(folder / "vocabulary"), folder / "shards"
    process = subprocess.Popen(
        [sys.executable, "-c", _PREPARE, text, vocabulary, shards],
        stdout=subprocess.PIPE,
        text=True,
    )
    with sampled_memory(process) as peak:
        seconds, tokens = map(float, process.communicate()[0].split())
    opened = subprocess.run(
        [sys.executable, "-c", _OPEN, shards], stdout=subprocess.PIPE, text=True, check=True
    )
    opening, planning, examples, rss = map(float, opened.stdout.split())
    print(
        f"{size / 1e6:6.0f} MB: {seconds:7.1f} s, {size / 1e6 / seconds:5.2f} MB/s, "
        f"{tokens / 1e6:6.1f} M tokens, peak {peak[0] / 1024:4.0f} MiB with all processes; "
        f"open {opening:.2f} s, plan {examples:,.0f} examples {planning:.2f} s, {rss:.0f} MiB",
        flush=True,
    )
    shutil.rmtree(shards)


def write_text(path: Path, size: int, one_document: bool) -> Path:
    """About that many bytes of sentences."""
    rng = np.random.default_rng(0)
    words = np.array(synthetic_words())
    weights = 1 / np.arange(10, _WORDS + 10)
    weights /= weights.sum()
    written = 0
    with gzip.open(path, "wb", 1) if path.suffix == ".gz" else open(path, "wb") as file:
        while written < size:
            drawn = words[rng.choice(_WORDS, 200_000, p=weights)]
            lengths = rng.integers(5, 40, 9000)
            ends = np.cumsum(lengths)
            lines = [" ".join(part) + " ." for part in np.split(drawn, ends[ends < 200_000])]
            for place in range(0, len(lines), 40):
                if not one_document or (written == 0 and place == 40):
                    lines[place] = "\n" + lines[place]
            content = ("\n".join(lines) + "\n").encode()[: size - written]
            file.write(content)
            written += len(content)
    return path


def synthetic_words() -> list[str]:
    """Pronounceable words, some of which the vocabulary cuts."""
    rng = np.random.default_rng(1)
    consonants, vowels = list("bcdfghjklmnprstvw"), list("aeiou")
    found = {}
    while len(found) < _WORDS:
        syllables = rng.integers(1, 5)
        parts = zip(rng.choice(consonants, syllables), rng.choice(vowels, syllables), strict=True)
        found["".join(map("".join, parts)) + rng.choice(["", "n", "s"])] = None
    return list(found)


def write_vocabulary(folder: Path) -> Path:
    from kbert.data.tokenization.tokenizer import Tokenizer
    from kbert.data.tokenization.vocabulary import SPECIAL_TOKENS

    syllables = [c + v for c in "bcdfghjklmnprstvw" for v in "aeiou"]
    pieces = [f"##{s}" for s in syllables] + ["##n", "##s", "."]
    words = [w for w in synthetic_words()[:10_000] if w not in syllables]
    tokens = dict.fromkeys([*SPECIAL_TOKENS.values(), *syllables, *pieces, *words])
    Tokenizer.from_vocab(tokens, lowercase=True).save(folder)
    return folder


class sampled_memory:
    """The peak of a process and its children, KiB, in a list of one."""

    def __init__(self, process: subprocess.Popen):
        self.process, self.peak = process, [0]

    def __enter__(self) -> list[int]:
        self.thread = threading.Thread(target=self._sample)
        self.thread.start()
        return self.peak

    def __exit__(self, *_):
        self.thread.join()

    def _sample(self) -> None:
        while self.process.poll() is None:
            self.peak[0] = max(self.peak[0], sum(map(memory, tree(self.process.pid))))
            time.sleep(0.1)


def tree(pid: int) -> list[int]:
    found = [pid]
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [number for child in path.read_text().split() for number in tree(int(child))]
        except OSError:
            continue
    return found


def memory(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:  # it has ended
        return 0
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")), 0)


if __name__ == "__main__":
    main()
