"""What makes TensorFlow's first step short: blocks traced once, and Adam's own operation."""

import contextlib
import types

import keras
import numpy as np
import pytest
from helpers.engines import small_config
from helpers.marks import full
from helpers.training_batches import PREDICTIONS, arrays, batch_of

from kbert.graph import names
from kbert.graph.spec import GraphSpec
from kbert.graph.trained_parts import trained_parts
from kbert.model.builder import build
from kbert.model.layers.encoder import FeedForward
from kbert.model.lora import add_adapters
from kbert.training import backends
from kbert.training.engine import Engine
from kbert.training.optimization.optimizers import Optimizer
from kbert.training.step.trained_weights import TrainedWeights

tf = pytest.importorskip("tensorflow")
tensorflow = pytest.importorskip("kbert.training.backends.tensorflow")
BLOCKS, BATCH = 5, 13
SPEC = GraphSpec(small_config(BLOCKS), seq_len=11, max_predictions=PREDICTIONS)


def make_engine(optimizer=None, change=None, rates=None, **options):
    keras.utils.set_random_seed(5)
    backend = backends.start(1)
    with backend.scope():
        model = build(SPEC.for_training())
    if change is not None:
        change(model)
    trained = rates and TrainedWeights(model.trainable_variables, rates(model))
    return Engine(backend, model, optimizer or Optimizer(total_steps=9), trained, **options)


def set_rate(model):
    model.get_layer(names.encoder(2, names.FEED_FORWARD, "Dropout")).rate = 0.3


def replace_activation(model):
    feed_forward = model.get_layer(names.encoder(3, names.FEED_FORWARD))
    feed_forward.intermediate_dense.activation = keras.activations.tanh


def adapt_another_matrix(model):
    """An adapter on the queries of block 1, and on the values of the others: all of one shape."""
    parts = trained_parts(SPEC, lora_rank=3, lora_targets="query,value")
    chosen = []
    for matrix in parts.adapted:
        if matrix.name == ("query" if matrix.block == 1 else "value"):
            chosen.append(matrix)
    adapted = types.SimpleNamespace(adapted=chosen, rank=parts.rank, alpha=parts.alpha)
    add_adapters(model, adapted, seed=1)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (None, 2),
        full(set_rate, 3),
        full(replace_activation, 3),
        full(adapt_another_matrix, 3),
    ],
)
def test_blocks_that_are_alike_are_traced_once(monkeypatch, change, expected):
    """The last block computes the positions that are predicted alone, so it is another."""
    engine = make_engine(change=change, jit=False)
    traced = []
    call = FeedForward.call

    def count(layer, *arguments, **options):
        traced.append(layer.name)
        return call(layer, *arguments, **options)

    monkeypatch.setattr(FeedForward, "call", count)
    data = arrays("pretraining", 2, BATCH)
    for step in range(2):
        engine.update(batch_of(data, step), step)
    assert len(traced) == expected


@pytest.mark.full
def test_adamw_has_torchs_numbers():
    """torch.optim.AdamW, of the engine's own gradients; biases and LayerNorm do not decay."""
    torch = pytest.importorskip("torch")
    settings = Optimizer(learning_rate=0.01, total_steps=9, schedule="constant", weight_decay=0.3)

    def halve_every_third(model):
        count = len(model.trainable_variables)
        return [0.5 if number % 3 == 0 else 1.0 for number in range(count)]

    engine = make_engine(settings, rates=halve_every_third, clip_norm=None)
    weights = engine.state.variables.weights
    parameters = []
    groups = []
    for weight, share in zip(weights, engine.step.trained.rates, strict=True):
        parameter = torch.nn.Parameter(torch.tensor(np.array(weight.numpy())))
        decays = not weight.path.endswith(("bias", "beta", "gamma"))
        decay = 0.3 if decays else 0.0
        groups.append({"params": [parameter], "lr": 0.01 * share, "weight_decay": decay})
        parameters.append(parameter)
    peer = torch.optim.AdamW(groups, eps=1e-6)

    data = arrays("pretraining", 3, BATCH)
    for step in range(3):
        batch = batch_of(data, step)
        gradients = engine.gradients(batch, step)
        for weight, parameter in zip(weights, parameters, strict=True):
            parameter.grad = torch.tensor(np.array(gradients[weight.path]))
        peer.step()
        engine.update(batch, step)

    for weight, parameter in zip(weights, parameters, strict=True):
        # a key's bias has no gradient but rounding, which Adam makes a step of 0.01 of
        limit = 0.05 if weight.path.endswith("key/bias") else 3e-5
        difference = np.abs(weight.numpy() - parameter.detach().numpy()).max()
        assert difference < limit, weight.path


@pytest.mark.full
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_step_that_is_not_finite_changes_no_bit(bad):
    engine = make_engine(Optimizer(learning_rate=0.01, total_steps=9, weight_decay=0.3))
    data = arrays("pretraining", 3, BATCH)
    engine.update(batch_of(data, 0), 0)
    before = engine.state.all()

    batch = batch_of(data, 1)
    for name, weights in batch.weights.items():
        batch.weights[name] = np.full_like(weights, bad)
    metrics = engine.update(batch, 1)
    assert not bool(metrics["finite"])
    after = engine.state.all()
    for name, array in before.items():
        np.testing.assert_array_equal(array, after[name], err_msg=name)


def test_the_last_of_two_threads_switches_graph_optimizers_back():
    """They leave in the order in which they came, so the first one must not set anything."""
    options = tf.config.optimizer
    before = options.get_experimental_options().get("disable_meta_optimizer", False)
    switch = tensorflow.GraphAsTraced()
    first, second = contextlib.ExitStack(), contextlib.ExitStack()
    first.enter_context(switch)
    second.enter_context(switch)
    first.close()
    assert options.get_experimental_options()["disable_meta_optimizer"]
    second.close()
    assert options.get_experimental_options()["disable_meta_optimizer"] == before
