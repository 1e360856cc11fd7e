"""Memory that an update gives back is there for the next one, by Linux's count of new pages."""

import os
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

# 7,711 tokens, of which torch's or XLA's temporary tensors take hundreds of MiB
_UPDATES = """
import resource
import kbert
from kbert.training import engines
from kbert.training.optimizers import Optimizer
from training_batches import PREDICTIONS, arrays, batch_of

engine, data = engines.start(1), arrays("pretraining", 10, 701)
config = kbert.get_config("mini").replace(vocab_size=99, type_vocab_size=3)
engine.prepare(kbert.build_bert(config, seq_len=11, max_predictions=PREDICTIONS), Optimizer())
for step in range(20):  # heaps grow by what does not fit between others, for some updates
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    float(engine.update(batch_of(data, step % 10), step)["loss"])
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
_CONSOLE = """
from kbert.training.engines import kept_memory
kept_memory.take_one_heap = lambda: print("one heap")
from kbert.cli.console import starting_keras
with starting_keras():
    pass
"""


def said(program: str, **variables) -> list[str]:
    paths = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    run = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": paths} | variables,
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout.split("\n")[:-1]


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's alone")
def test_later_updates_ask_for_no_new_memory():
    counts = [int(line) for line in said(_UPDATES, MALLOC_ARENA_MAX="1")]
    assert statistics.median(counts[-4:]) < 3_000 < counts[0]  # pages of 4 KiB


def test_commands_have_one_heap_on_jax(backend):
    assert said(_CONSOLE) == (["one heap"] if backend == "jax" else [])
