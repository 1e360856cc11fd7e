"""A process that was forked after a call raises one error at once, and computes on torch."""

import os
import signal
import subprocess
import sys
import time

import pytest
from helpers.labelled_texts import write_texts
from helpers.small_berts import TEXTS, small_bert

import kbert

pytestmark = pytest.mark.filterwarnings("ignore")  # Python and JAX warn of a fork
SECONDS = 30


@pytest.fixture(scope="module")
def berts(small):
    small = small.replace(num_hidden_layers=1)
    return {head: small_bert(small, head) for head in ("encoder", "classifier", "pretraining")}


def call_in_fork(function) -> str:
    """Return what a function returns or raises in a forked process, as text."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = repr(function())
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(writing, answer[:2000].encode())
        os._exit(0)
    os.close(writing)
    end = time.monotonic() + SECONDS
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            break
        time.sleep(0.01)
    with os.fdopen(reading) as pipe:
        return pipe.read() or "no answer"


def calls_of(berts, folder):
    """The calls of a server, and of a training."""
    train, path = folder / "train.tsv", folder / "bert"
    write_texts(train, 13, 1)
    kbert.save(berts["encoder"], path)
    options = {"train": train, "output": folder / "run", "progress": False}
    return {
        "embed": lambda: kbert.embed(berts["encoder"], TEXTS, progress=False).shape,
        "classify": lambda: kbert.classify(berts["classifier"], TEXTS[0], progress=False),
        "fill_mask": lambda: kbert.fill_mask(berts["pretraining"], "a [MASK]", progress=False),
        "attention": lambda: kbert.attention(berts["encoder"], "a cat"),
        "attribute": lambda: kbert.attribute(berts["classifier"], "a cat"),
        "predict": lambda: kbert.predict(berts["encoder"].model, [[2, 7, 3]]),
        "load": lambda: kbert.load(path),
        "build": lambda: kbert.build_encoder(berts["encoder"].config),
        "finetune": lambda: kbert.finetune(path, "classify", epochs=1, **options),
    }


@pytest.mark.full
def test_calls_in_a_forked_process_end_at_once(berts, backend, tmp_path):
    calls = calls_of(berts, tmp_path)
    here = repr(calls["classify"]())
    if backend == "torch":
        import torch

        threads = torch.get_num_threads()
        torch.set_num_threads(2)
        torch.softmax(torch.ones(400, 4000), -1)  # starts the thread that a fork does not have
        try:
            assert call_in_fork(calls["classify"]) == here
            assert call_in_fork(calls["embed"]) == repr(calls["embed"]())
        finally:
            torch.set_num_threads(threads)
        return
    for name, call in calls.items():
        said = call_in_fork(call)
        assert said.startswith("RuntimeError: this process was forked"), (name, said)
        assert backend in said and "after the fork" in said and "\n" not in said
    assert not (tmp_path / "run").exists()
    assert repr(calls["classify"]()) == here


@pytest.mark.full
def test_numpy_computes_in_a_forked_process(tmp_path, small):
    kbert.save(small_bert(small.replace(num_hidden_layers=1), "encoder"), tmp_path / "bert")
    program = (
        "import os, sys, kbert\n"
        "bert = kbert.load(sys.argv[1])\n"
        "print(kbert.embed(bert, 'a cat', progress=False).tolist(), flush=True)\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    print(kbert.embed(bert, 'a cat', progress=False).tolist(), flush=True)\n"
        "    os._exit(0)\n"
        "os.waitpid(child, 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "bert"],
        env=os.environ | {"KERAS_BACKEND": "numpy"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 2 and lines[0] == lines[1], done.stderr
