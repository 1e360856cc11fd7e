"""TensorFlow's step with a compiled program per kind of weight equals the uncompiled step."""

import keras
import numpy as np
import pytest
from helpers.sizes import SIZES
from helpers.training_batches import PREDICTIONS, arrays, batch_of

import kbert
from kbert.training import engines, optimizers
from kbert.training.trained_weights import TrainedWeights

tensorflow_engine = pytest.importorskip("kbert.training.engines.tensorflow_engine")
joined_weights = pytest.importorskip("kbert.model.parts.joined_weights")
UPDATES = 3


def trained(monkeypatch, name, worth, small=0):
    """An engine after some updates of a model whose weights decay every other one, of three every
    third with half of the rate; those of up to `small` numbers are moved as one."""
    places = iter(range(10**6))
    monkeypatch.setattr(optimizers, "is_decayed", lambda path: next(places) % 2 == 0)
    monkeypatch.setattr(tensorflow_engine, "_WORTH_COMPILING", worth)
    monkeypatch.setattr(joined_weights, "_SMALL", small)
    keras.utils.set_random_seed(5)
    config = kbert.BertConfig(**SIZES | {"num_hidden_layers": 1, "hidden_dropout_prob": 0.0})
    engine = engines.start()
    with engine.scope():
        model = kbert.build_bert(config, seq_len=11, max_predictions=PREDICTIONS)
    settings = optimizers.Optimizer(name, 0.01, total_steps=9, weight_decay=0.3)
    weights = model.trainable_variables
    rates = [0.5 if n % 3 == 0 else 1.0 for n in range(len(weights))]
    engine.prepare(model, settings, TrainedWeights(weights, rates))
    batches = arrays("pretraining", UPDATES, 13)
    for step in range(UPDATES):
        engine.update(batch_of(batches, step), step)
    return engine


@pytest.mark.parametrize(
    ("name", "small"),
    [
        pytest.param("lamb", 300, marks=pytest.mark.full),  # weights joined, and alone
        *(
            pytest.param(name, small, marks=pytest.mark.nightly)
            for name in ("adamw", "lamb")
            for small in (0, 300, 10**6)
            if (name, small) != ("lamb", 300)
        ),
    ],
)
def test_compiled_step_equals_uncompiled_step(monkeypatch, name, small):
    engine = trained(monkeypatch, name, 0, small)
    found, wanted = engine.state(), trained(monkeypatch, name, 10**9, small).state()
    for path, one, other in zip(found, found.values(), wanted.values(), strict=True):
        # a step is 0.01; a key's bias has no gradient but rounding, which Adam makes a step of
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=5e-5, err_msg=path)
    each = zip(engine.weights, engine.decayed, strict=True)
    alone = [(tuple(one.shape), decayed) for one, decayed in each if is_alone(one, decayed, engine)]
    kinds, shapes = set(alone), {shape for shape, _ in alone}
    assert engine._move_weight.experimental_get_tracing_count() == len(kinds)
    assert engine._move_moments.experimental_get_tracing_count() == len(shapes)


def is_alone(weight, decayed, engine) -> bool:
    norm_is_taken = decayed and engine.settings.name == "lamb"
    return not joined_weights.is_small(weight) or norm_is_taken
