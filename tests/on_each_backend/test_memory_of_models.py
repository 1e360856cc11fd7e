"""Memory is flat over models that are built and trained one after the other in one process."""

import sys

import pytest
from helpers.backends import nightly_on
from helpers.marks import nightly

# Models that an engine trains, then others that `fit` trains: after each, the custom gradients in
# TensorFlow's registry, and MiB of the process. A plain Keras model leaves 2.5 MiB per `fit`.
_TRAINING = """
import gc, sys
import keras
import kbert
from kbert.training import backends
from kbert.training.engine import Engine
from kbert.training.optimization.optimizers import Optimizer
from helpers.training_batches import PREDICTIONS, arrays, batch_of

sizes = {"hidden_size": 26, "num_attention_heads": 2, "intermediate_size": 37}
sizes |= {"vocab_size": 99, "type_vocab_size": 3, "num_hidden_layers": 1}
config = kbert.get_config("tiny").replace(**sizes)
data = arrays("pretraining", 2, 7)

def registered():
    if "tensorflow" not in sys.modules:
        return 0
    from tensorflow.python.framework import ops
    return len(ops.gradient_registry.list())

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 >> 20

def train_by_engine():
    model = kbert.build_bert(config, seq_len=11, max_predictions=PREDICTIONS)
    backend = backends.start(1)
    engine = Engine(backend, model, Optimizer())
    for step in range(2):
        logs = engine.update(batch_of(data, step), step)
    float(logs["loss"])

def train_by_fit():
    batch = batch_of(data, 0)
    model = kbert.build_bert(config, seq_len=11, max_predictions=PREDICTIONS)
    model.compile("adam", loss="sparse_categorical_crossentropy")
    inputs = [batch.inputs[name] for name in model.input_names]
    labels = [batch.labels[name] for name in model.output_names]
    for _ in range(2):
        model.fit(inputs, labels, verbose=0)

for train in [train_by_engine] * int(sys.argv[1]) + [train_by_fit] * int(sys.argv[2]):
    train()
    gc.collect()
    print(registered(), resident(), flush=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's count of pages")
@pytest.mark.parametrize(
    ("engines", "fits", "by_engine", "by_fit"),
    [
        pytest.param(9, 5, 8, 16, marks=[pytest.mark.full, nightly_on("jax", "torch")]),
        nightly(20, 10, 20, 30),
    ],
)
def test_memory_is_flat_over_many_models(run_python, engines, fits, by_engine, by_fit):
    """From the fifth model on, and from the third that `fit` trains, in MiB."""
    found = run_python(_TRAINING, engines, fits, JAX_PLATFORMS="cpu").stdout
    pairs = [[int(number) for number in line.split()] for line in found.splitlines()]
    gradients, memory = zip(*pairs[-engines - fits :], strict=True)
    assert len(set(gradients[:engines])) == len(set(gradients[engines:])) == 1, gradients
    assert memory[engines - 1] - memory[4] < by_engine, memory
    assert memory[-1] - memory[engines + 2] < by_fit, memory
