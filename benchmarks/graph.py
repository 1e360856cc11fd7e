"""Times building and summing BERT base beside KerasHub, and kbert's commands as whole processes.

    python benchmarks/graph.py [--rounds 5]

Every figure is the median of fresh processes, with minimum and maximum; the two libraries take
turns, and their ratio is taken round by round. Needs keras-hub (pip install keras-hub).
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

KBERT = """
import json, sys, time
import keras
start = time.perf_counter()
import kbert
model = kbert.build_bert("base")
built = time.perf_counter()
model.summary(print_fn=lambda line: None)
summed = time.perf_counter()
report = kbert.verify(model)
verified = time.perf_counter()
assert report.ok
kbert.plot(model, sys.argv[1] + "/bert.svg")
svg = time.perf_counter()
kbert.plot(model, sys.argv[1] + "/bert.png")
png = time.perf_counter()
kbert.plot(model, sys.argv[1] + "/all.png", collapse=False)
every = time.perf_counter()
print(json.dumps({"build": built - start, "summary": summed - built,
                  "verify a built model": verified - summed, "plot svg": svg - verified,
                  "plot png": png - svg, "plot png, 112 nodes": every - png}))
"""

# The encoder with the MLM head, the nearest thing that KerasHub has to document 004's graph.
KERAS_HUB = """
import json, time
import keras
import keras_hub
start = time.perf_counter()
backbone = keras_hub.models.BertBackbone(
    vocabulary_size=30000, num_layers=12, num_heads=12, hidden_dim=768, intermediate_dim=3072)
model = keras_hub.models.BertMaskedLM(backbone=backbone, preprocessor=None)
built = time.perf_counter()
model.summary(print_fn=lambda text: None)
print(json.dumps({"build": built - start, "summary": time.perf_counter() - built}))
"""

COMMANDS = {
    "import kbert": [sys.executable, "-c", "import kbert"],
    "kbert --help": ["kbert", "--help"],
    "kbert account base": ["kbert", "account", "base"],
    "kbert params base_uncased": ["kbert", "params", "base_uncased"],
    "kbert summary base": ["kbert", "summary", "base"],
    "kbert verify": ["kbert", "verify"],
    "kbert plot base": ["kbert", "plot", "base", "-o", "{folder}/bert.png"],
    "kbert demo": ["kbert", "demo", "-o", "{folder}/bert.png"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = [], []
        for _ in range(rounds):
            ours.append(measured(KBERT, folder))
            theirs.append(measured(KERAS_HUB, folder))
        print(f"seconds, median (minimum to maximum) of {rounds} processes")
        for name in ours[0]:
            show(name, [run[name] for run in ours])
        for name in theirs[0]:
            show(f"KerasHub: {name}", [run[name] for run in theirs])
            ratios = [a[name] / b[name] for a, b in zip(ours, theirs, strict=True)]
            show(f"kbert / KerasHub: {name}", ratios)
        for name, command in COMMANDS.items():
            command = [part.format(folder=folder) for part in command]
            show(name, [wall(command) for _ in range(rounds + 1)][1:])


def measured(code: str, folder: str) -> dict[str, float]:
    command = [sys.executable, "-c", code, folder]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def wall(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, capture_output=True, check=True)
    return time.perf_counter() - start


def show(name: str, values: list[float]) -> None:
    middle, low, high = statistics.median(values), min(values), max(values)
    print(f"{name:<32}{middle:8.3f}  ({low:.3f} to {high:.3f})", flush=True)


if __name__ == "__main__":
    main()
