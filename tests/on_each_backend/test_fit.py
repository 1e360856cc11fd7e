"""Keras's own `fit` of a kbert model does what it does for a plain `keras.Model` of the graph."""

import keras
import numpy as np
import pytest
from helpers.backends import full_on, nightly_on

import kbert

BATCH, LENGTH, POSITIONS = 3, 7, 4
EXAMPLES = 2 * BATCH - 1  # the last batch is smaller
on_tensorflow = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="Keras builds the optimizer before, elsewhere"
)
LARGE = {"vocab_size": 40_001, "hidden_size": 128, "num_hidden_layers": 1}  # 5 million parameters


def build(plain: bool):
    keras.utils.set_random_seed(3)
    config = kbert.BertConfig(
        **LARGE, num_attention_heads=4, intermediate_size=40, max_position_embeddings=17
    )
    model = kbert.build_bert(config, seq_len=LENGTH, max_predictions=POSITIONS)
    model.get_layer("Encoder-1-FeedForward").activity_regularizer = keras.regularizers.L2(0.1)
    return keras.Model(model.inputs, model.outputs) if plain else model


def fit(model, optimizer) -> list[float]:
    random = np.random.default_rng(2)
    tokens = random.integers(1, 200, (EXAMPLES, LENGTH))
    tokens[:2, 5:] = 0
    positions = np.tile([1, 3, 4, 0], (EXAMPLES, 1))  # 0: no prediction
    labels = [random.integers(0, 200, positions.shape), random.integers(0, 2, EXAMPLES)]
    inputs = [tokens, random.integers(0, 2, tokens.shape), positions]
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, [loss, loss])
    options = {"batch_size": BATCH, "epochs": 1, "shuffle": False, "verbose": 0}
    return model.fit(inputs, labels, **options).history["loss"]


@full_on("tensorflow")
@nightly_on("jax")
def test_fit_equals_fit_of_a_plain_keras_model():
    """With dropout, whose masks are then the same ones, an activity regularizer, and an Adam whose
    setting is changed between two fits."""
    results = []
    for plain in (False, True):
        model, optimizer = build(plain), keras.optimizers.Adam(1e-3, epsilon=1e-2)
        before = model.get_weights()
        losses = fit(model, optimizer)
        trained = model.get_weights()
        optimizer.epsilon = 1e6
        losses += fit(model, optimizer)
        results.append((losses, trained, model.get_weights()))
    assert model.count_params() > 5_000_000
    keras.tree.map_structure(
        lambda ours, keras_own: np.testing.assert_allclose(ours, keras_own, rtol=1e-5, atol=1e-7),
        *results,
    )
    # a step of Adam is at most the learning rate times its mean over the root of its square, which
    # an epsilon of 1e6 leaves next to nothing of
    largest = max(np.abs(after - first).max() for after, first in zip(trained, before, strict=True))
    assert largest > 1e-4
    for last, after in zip(model.get_weights(), trained, strict=True):
        np.testing.assert_allclose(last, after, atol=1e-6)


def build_small():
    config = kbert.BertConfig(
        vocab_size=99,
        hidden_size=12,
        num_hidden_layers=1,
        num_attention_heads=3,
        intermediate_size=20,
        max_position_embeddings=17,
    )
    return kbert.build_classifier(config, num_labels=3, seq_len=LENGTH)


def fit_small(model, loss, callbacks=()):
    random = np.random.default_rng(2)
    tokens = random.integers(1, 99, (BATCH, LENGTH))
    labels = random.integers(0, 3, BATCH)
    model.compile(keras.optimizers.Adam(0.1), loss, jit_compile=False)
    model.fit([tokens, tokens * 0], labels, callbacks=list(callbacks), verbose=0)


@on_tensorflow
def test_fit_traces_a_step_once():
    """A plain model's step is traced twice, which takes seconds for base."""
    calls = []

    def compute_loss(labels, logits):
        calls.append(logits.shape)
        return keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)

    fit_small(build_small(), compute_loss)
    assert len(calls) == 1


@on_tensorflow
def test_layers_that_a_callback_makes_trainable_are_trained():
    """As by Keras's own `fit`: the optimizer has the weights that are trained at the first step."""
    model = build_small()
    embedding = model.get_layer("Embedding-Position")
    for layer in model.layers[:-1]:
        layer.trainable = False

    class Unfreeze(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            embedding.trainable = True

    (before,) = embedding.get_weights()
    fit_small(model, "sparse_categorical_crossentropy", [Unfreeze()])
    (after,) = embedding.get_weights()
    assert np.abs(after - before).max() > 0.01
