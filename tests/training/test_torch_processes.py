"""torch trains on several devices, one process each: they sum, and one that fails ends all."""

import pytest
from test_training_processes import environments

PAIR = """
import sys
import keras
import numpy as np
import torch
import kbert
from kbert.training import backends
from kbert.training.engine import Engine
from kbert.training.backends import torch_hosts
from kbert.training.optimization.optimizers import Optimizer
from helpers.sizes import SIZES
from helpers.training_batches import PREDICTIONS, arrays, batch_of
"""
MASKS = """
backend = backends.start()
torch_hosts.BUCKET_BYTES = 5000  # of 0.1 MB of gradients
keras.utils.set_random_seed(backend.process)  # other weights in each, until prepared
model = kbert.build_bert(kbert.BertConfig(**SIZES), seq_len=11, max_predictions=PREDICTIONS)
engine = Engine(backend, model, Optimizer(total_steps=9), accumulation_steps=2)
data = arrays("pretraining", 3, 12)

def norm_of(step, local):
    # of all rows, their masks by replica, computed here
    engine.backend.local = local
    found = engine.gradients(batch_of(data, step), step)
    return float(np.sqrt(sum((gradient ** 2).sum() for gradient in found.values())))

for step in range(3):
    expected = norm_of(step, 2), norm_of(step, 1)
    figures = engine.update(batch_of(data, step).select(engine.slice_examples(12)), step)
    print("of", float(figures["gradient_norm"]), *expected)
print("of", *[float(weight.value.detach().abs().sum()) for weight in model.weights])
"""
LEAVES = """
if engine.backend.process == 1:
    raise OSError(5, "the disk is gone")
try:
    engine.barrier()
except RuntimeError as error:
    print(type(error).__name__, engine.backend.is_process_failure(error), str(error).splitlines())
"""


@pytest.fixture(scope="module")
def pair(forks, tmp_path_factory) -> list[tuple[int, str]]:
    """Two processes that train with dropout, then the second fails: status, what each printed."""
    folder, running = tmp_path_factory.mktemp("pair"), []
    for index, variables in enumerate(environments("torch_processes")):
        asked = "builtins:exec", PAIR + MASKS + LEAVES, {}
        out = folder / f"{index}.txt"
        running.append((forks("torch").start(*asked, out=out, env=variables), out))
    return [(forks("torch").wait(number, 120), out.read_text()) for number, out in running]


@pytest.mark.full
def test_torch_replicas_draw_own_masks_and_share_one_update(pair):
    """With dropout, over micro-batches: the sum of what one process computes for each replica."""
    (status, one), (_, two) = pair
    assert status == 0, one[-2000:] + two[-2000:]
    lines = [line for line in one.splitlines() if line.startswith("of ")]
    updates = [line.removeprefix("of ") for line in lines[:-1]]
    assert len(updates) == 3
    assert lines == [line for line in two.splitlines() if line.startswith("of ")]  # to a digit
    for line in updates:
        found, expected, of_one_replica = map(float, line.split())
        assert abs(found / expected - 1) < 1e-5
        assert abs(found / of_one_replica - 1) > 1e-3


@pytest.mark.full
def test_error_in_one_process_ends_the_others(pair):
    (_, one), (status, two) = pair
    assert status == 1 and "the disk is gone" in two
    (line,) = (line for line in one.splitlines() if line.startswith("ProcessFailed"))
    name, known, lines = line.split(maxsplit=2)
    assert (name, known) == ("ProcessFailed", "True") and "', '" not in lines
    assert lines.startswith("['the sum over processes failed: ")
