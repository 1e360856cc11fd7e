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
for step in range(14):  # heaps grow by what does not fit between others, for some updates
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    float(engine.update(batch_of(data, step % 10), step)["loss"])
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
# the next is sent before the last one is there: pages that updates take once memory has settled
_SENT = (
    _UPDATES.split("for step")[0]
    + """
def sent(steps):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for step in steps:
        logs = engine.update(batch_of(data, step % 10), step)
    float(logs["loss"])
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
for step in range(3):
    sent([step])
print(sent(range(3, 9)))
"""
)


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
    counts = [int(line) for line in said(_UPDATES)]
    assert statistics.median(counts[-4:]) < 3_000 < counts[0]  # pages of 4 KiB


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's alone")
def test_an_update_sent_before_the_last_is_there_asks_for_no_new_memory(backend):
    if backend != "jax":
        pytest.skip("the others give memory back before an update is there")
    (taken,) = said(_SENT)
    assert int(taken) < 10_000
