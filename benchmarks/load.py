"""Times and weighs opening a checkpoint beside reading its file and beside the peers.

    python benchmarks/load.py [FOLDER] [--rounds 5]

FOLDER is a transformers folder with one model.safetensors; default: base_uncased with both heads
and random weights, written for the occasion. Every figure is the median of fresh processes, with
minimum and maximum, taken in turns: seconds after the libraries are imported and a tiny model has
been through them, and the most memory that the process held during the call beyond what it held
before, as a multiple of the file's size (all resident pages, a mapped file's included).
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

MEASURE = """
import json, os, sys, threading, time

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def measured(call, file):
    held, peak, done = resident(), [0], threading.Event()
    def watch():
        while not done.wait(0.002):
            peak[0] = max(peak[0], resident())
    watcher = threading.Thread(target=watch)
    watcher.start()
    start = time.perf_counter()
    result = call()
    seconds = time.perf_counter() - start
    done.set()
    watcher.join()
    size = os.path.getsize(file)
    print(json.dumps({"seconds": seconds, "memory": (peak[0] - held) / size}))

def evict():
    with open(file, "rb") as opened:
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

folder = sys.argv[1]
file = folder + "/model.safetensors"
"""
CALLS = {
    "reading the file": "measured(lambda: open(file, 'rb').read(), file)",
    "reading the file, not cached": "evict(); measured(lambda: open(file, 'rb').read(), file)",
    "kbert.load, not cached": (
        "import kbert; kbert.build_encoder('tiny'); evict(); "
        "measured(lambda: kbert.load(folder), file)"
    ),
    "safetensors' load_file": (
        "from safetensors.numpy import load_file; measured(lambda: load_file(file), file)"
    ),
    "kbert.load": (
        "import kbert; kbert.build_encoder('tiny'); measured(lambda: kbert.load(folder), file)"
    ),
    "kbert.build_bert alone": (
        "import kbert; kbert.build_encoder('tiny'); c = kbert.BertConfig.from_json("
        "folder + '/config.json'); measured(lambda: kbert.build_bert(c), file)"
    ),
    "transformers' from_pretrained": (
        "import transformers; c = transformers.BertConfig(hidden_size=24, num_attention_heads=4); "
        "transformers.BertModel(c); name = json.load(open(folder + '/config.json'))"
        "['architectures'][0]; kind = getattr(transformers, name); "
        "measured(lambda: kind.from_pretrained(folder), file)"
    ),
}
PAIRS = (
    ("kbert.load", "reading the file"),
    ("kbert.load", "safetensors' load_file"),
    ("kbert.load", "transformers' from_pretrained"),
    ("kbert.load, not cached", "reading the file, not cached"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = arguments.folder or written(made)
        size = os.path.getsize(Path(folder) / "model.safetensors")
        print(f"{size:,} bytes, {os.cpu_count()} cores")
        found = {name: [] for name in CALLS}
        for turn in range(arguments.rounds + 1):
            for name, call in CALLS.items():
                figures = in_a_process(call, folder)
                if turn:
                    found[name].append(figures)
    for name, figures in found.items():
        show(f"{name}, s", [figure["seconds"] for figure in figures])
        show(f"{name}, × the file", [figure["memory"] for figure in figures])
    for ours, peer in PAIRS:
        pairs = zip(found[ours], found[peer], strict=True)
        show(f"{ours} / {peer}", [our["seconds"] / their["seconds"] for our, their in pairs])


def written(folder: str) -> str:
    """A folder with base_uncased, both heads."""
    code = (
        "import sys, kbert; config = kbert.get_config('base_uncased'); kbert.save(kbert.Bert("
        "config, 'pretraining', kbert.build_bert(config)), sys.argv[1])"
    )
    subprocess.run([sys.executable, "-c", code, folder], check=True, capture_output=True)
    return folder


def in_a_process(call: str, folder: str) -> dict:
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", MEASURE + call, folder]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])


def show(name: str, values: list[float]) -> None:
    middle, low, high = statistics.median(values), min(values), max(values)
    print(f"{name:<56}{middle:8.3f}  ({low:.3f} to {high:.3f})", flush=True)


if __name__ == "__main__":
    main()
