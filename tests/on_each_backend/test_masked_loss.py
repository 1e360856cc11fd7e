"""With a plain compile and fit, only the marked positions enter the MLM loss and its metrics."""

import numpy as np
import pytest
from helpers.backends import full_on

import kbert

BATCH, LENGTH = 13, 7


@pytest.fixture
def data():
    random = np.random.default_rng(2)
    token_ids = random.integers(1, 99, (BATCH, LENGTH)).astype("int32")
    token_ids[:4, 5:] = 0
    segment_ids = random.integers(0, 3, (BATCH, LENGTH)).astype("int32")
    marks = (random.random((BATCH, LENGTH)) < 0.3).astype("int32") * 3
    marks[0, 5] = 1  # marked, but padding: does not count
    tokens = random.integers(0, 99, (BATCH, LENGTH))
    is_next = random.integers(0, 2, BATCH)
    return [token_ids, segment_ids, marks], [tokens, is_next]


def cross_entropy(logits, labels):
    """−log softmax(logits)[label], in float64."""
    logits = np.asarray(logits, "float64")
    shifted = logits - logits.max(-1, keepdims=True)
    log_probabilities = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return -np.take_along_axis(log_probabilities, labels[..., None], -1)[..., 0]


def compile_plainly(model):
    import keras

    keras.utils.set_random_seed(3)
    loss = keras.losses.SparseCategoricalCrossentropy
    model.compile(
        optimizer=keras.optimizers.SGD(0.0),
        loss=[loss(from_logits=True), loss(from_logits=True)],
        metrics=[
            [keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
            [keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
        ],
    )


def test_fit_loss_is_the_mean_over_masked_positions(small, data):
    import keras

    config = small.replace(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model = kbert.build_bert(config, seq_len=LENGTH)
    for weight in model.weights:  # larger than the first weights, so that positions differ
        random = np.random.default_rng(len(weight.path))
        value = keras.ops.convert_to_numpy(weight)
        weight.assign(value + random.normal(0, 0.3, weight.shape).astype("float32"))
    inputs, (tokens, is_next) = data
    outputs = kbert.predict(model, *inputs)
    counted = (inputs[2] != 0) & (inputs[0] != 0)
    mlm = cross_entropy(outputs["MLM"], tokens)
    right = outputs["MLM"].argmax(-1) == tokens
    nsp = cross_entropy(outputs["NSP"], is_next)
    compile_plainly(model)
    history = model.fit(inputs, [tokens, is_next], batch_size=BATCH, verbose=0, shuffle=False)
    found = {name: values[0] for name, values in history.history.items()}
    assert found["MLM_loss"] == pytest.approx(mlm[counted].mean(), rel=1e-5)
    assert found["NSP_loss"] == pytest.approx(nsp.mean(), rel=1e-5)
    assert found["loss"] == pytest.approx(mlm[counted].mean() + nsp.mean(), rel=1e-5)
    assert found["MLM_accuracy"] == pytest.approx(right[counted].mean(), rel=1e-5)
    # All positions, or the padding too, would have given other numbers.
    assert abs(mlm.mean() - mlm[counted].mean()) > 1e-3
    assert abs(mlm[inputs[2] != 0].mean() - mlm[counted].mean()) > 1e-3


@full_on("jax", "tensorflow")
def test_gathered_head_counts_nonzero_positions(small, data):
    config = small.replace(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model = kbert.build_bert(config, seq_len=LENGTH, max_predictions=4)
    (token_ids, segment_ids, _), (_, is_next) = data
    random = np.random.default_rng(4)
    positions = random.integers(1, 5, (BATCH, 4)).astype("int32")
    positions[::2, 2:] = 0
    tokens = random.integers(0, 99, (BATCH, 4))
    outputs = kbert.predict(model, token_ids, segment_ids, positions)
    mlm = cross_entropy(outputs["MLM"], tokens)[positions != 0].mean()
    compile_plainly(model)
    found = model.evaluate(
        [token_ids, segment_ids, positions],
        [tokens, is_next],
        batch_size=BATCH,
        verbose=0,
        return_dict=True,
    )
    assert found["MLM_loss"] == pytest.approx(mlm, rel=1e-5)


@full_on("jax", "tensorflow")
def test_token_classifier_loss_ignores_padding(small, data):
    import keras

    config = small.replace(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model = kbert.build_token_classifier(config, num_labels=5, seq_len=LENGTH)
    (token_ids, segment_ids, _), _ = data
    labels = np.random.default_rng(9).integers(0, 5, (BATCH, LENGTH))
    logits = next(iter(kbert.predict(model, token_ids, segment_ids).values()))
    real = token_ids != 0
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    accuracy = keras.metrics.SparseCategoricalAccuracy(name="accuracy")
    model.compile(keras.optimizers.SGD(0.0), loss, metrics=[accuracy])
    history = model.fit([token_ids, segment_ids], labels, batch_size=BATCH, verbose=0).history
    assert history["loss"][0] == pytest.approx(cross_entropy(logits, labels)[real].mean(), rel=1e-5)
    right = (logits.argmax(-1) == labels)[real].mean()
    assert history["accuracy"][0] == pytest.approx(right, rel=1e-5)
