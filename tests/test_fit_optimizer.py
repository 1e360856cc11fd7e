"""Keras's Adam and AdamW in `fit` as kbert's programs, beside Keras's own operations."""

import keras
import numpy as np
import pytest
from sizes import BATCH, LENGTH, SIZES

import kbert
from kbert.model.parts import fit_optimizer, in_fit

joined_weights = pytest.importorskip("kbert.model.parts.joined_weights")

EPSILON = 1e-3  # a key's bias has no gradient but rounding, which a small one makes a step of
TIMES = 3 * BATCH - 2  # the last batch is smaller
CASES = {
    "Adam": lambda: keras.optimizers.Adam(0.01, beta_1=0.8, beta_2=0.97, epsilon=EPSILON),
    "AdamW": lambda: keras.optimizers.AdamW(0.01, weight_decay=0.3, epsilon=EPSILON),
    "clipped": lambda: keras.optimizers.AdamW(0.01, epsilon=EPSILON, global_clipnorm=0.2),
    "scheduled": lambda: keras.optimizers.AdamW(
        keras.optimizers.schedules.PolynomialDecay(0.02, 5), weight_decay=0.3, epsilon=EPSILON
    ),
}
OTHERS = {
    "amsgrad": lambda: keras.optimizers.Adam(amsgrad=True),
    "each clipped": lambda: keras.optimizers.Adam(clipnorm=0.1),
    "values clipped": lambda: keras.optimizers.AdamW(clipvalue=0.1),
    "averaged": lambda: keras.optimizers.AdamW(use_ema=True),
    "accumulated": lambda: keras.optimizers.AdamW(gradient_accumulation_steps=2),
    "another": lambda: keras.optimizers.Lion(),
    "one's own": lambda: type("Own", (keras.optimizers.AdamW,), {})(),
}


@pytest.fixture(autouse=True)
def traced(monkeypatch) -> list:
    """The optimizers that were traced as programs; a small model is worth it here."""
    optimizers, apply = [], fit_optimizer._move

    def call(optimizer, *arguments):
        optimizers.append(optimizer)
        return apply(optimizer, *arguments)

    monkeypatch.setattr(in_fit, "_WORTH_COMPILING", 0)
    monkeypatch.setattr(joined_weights, "_SMALL", 300)  # biases are, and kernels are not
    monkeypatch.setattr(fit_optimizer, "_move", call)
    return optimizers


def model_of(head: str, optimizer, loss_weights=None, **sizes):
    keras.utils.set_random_seed(5)
    rates = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config = kbert.BertConfig(
        **SIZES | {"num_hidden_layers": 1, "initializer_range": 0.2} | sizes, **rates
    )
    if head == "pretraining":
        model = kbert.build_bert(config, seq_len=LENGTH, max_predictions=5)
    else:
        model = kbert.build_classifier(config, seq_len=LENGTH, num_labels=5)
    if getattr(optimizer, "weight_decay", None):
        optimizer.exclude_from_weight_decay(var_names=["bias", "beta", "gamma"])
    cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, [cross_entropy] * len(model.outputs), loss_weights=loss_weights)
    return model


def fitted(model, epochs=2) -> list[np.ndarray]:
    """Losses of the epochs, the weights, and the optimizer's variables."""
    random = np.random.default_rng(2)
    tokens = random.integers(1, SIZES["vocab_size"], (TIMES, LENGTH))
    inputs = [tokens, random.integers(0, 3, (TIMES, LENGTH))]
    labels = [random.integers(0, 2, TIMES)]
    if len(model.inputs) > 2:
        inputs.append(np.tile(np.arange(1, 6), (TIMES, 1)))
        labels.insert(0, random.integers(0, 99, (TIMES, 5)))
    options = {"batch_size": BATCH, "epochs": epochs, "shuffle": False, "verbose": 0}
    history = model.fit(inputs, labels, **options).history
    moments = [variable.numpy() for variable in model.optimizer.variables]
    return [np.array(history["loss"]), *model.get_weights(), *moments]


def assert_same(ones, others):
    for one, other in zip(ones, others, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("case", CASES)
def test_an_update_is_keras_own(case, traced, monkeypatch):
    programs = fitted(model_of("pretraining", CASES[case]()))
    assert traced
    monkeypatch.setattr(fit_optimizer, "_is_known", lambda optimizer: False)
    traced.clear()
    keras_own = fitted(model_of("pretraining", CASES[case]()))
    assert not traced
    assert_same(programs, keras_own)


@pytest.mark.parametrize("case", ["AdamW", "clipped"])
def test_rows_of_a_table_are_moved_as_keras_moves_them(case, traced, monkeypatch):
    """The gradient of a look-up alone is slices, one for each token; Keras clips their sum."""
    programs = fitted(model_of("classifier", CASES[case]()))
    assert traced
    monkeypatch.setattr(fit_optimizer, "_is_known", lambda optimizer: False)
    assert_same(programs, fitted(model_of("classifier", CASES[case]())))


@pytest.mark.parametrize("case", OTHERS)
def test_other_optimizers_are_left_to_keras(case, traced):
    fitted(model_of("classifier", OTHERS[case]()), epochs=1)
    assert not traced


def test_models_of_other_precisions_and_small_ones_are_left_to_keras(traced, monkeypatch):
    keras.config.set_dtype_policy("bfloat16")
    try:
        fitted(model_of("classifier", CASES["Adam"]()), epochs=1)
    finally:
        keras.config.set_dtype_policy("float32")
    monkeypatch.setattr(in_fit, "_WORTH_COMPILING", 5_000_000)
    fitted(model_of("classifier", CASES["Adam"]()), epochs=1)
    assert not traced


def test_a_second_model_of_other_sizes_and_an_optimizer_made_again(traced, tmp_path):
    """A file keeps the optimizer as it is, and the programs of one model are not another's."""
    for sizes in ({}, {"hidden_size": 36, "vocab_size": 131}):
        model = model_of("pretraining", CASES["Adam"](), **sizes)
        fitted(model, epochs=1)
        model.save(tmp_path / "model.keras")
        again = keras.saving.load_model(tmp_path / "model.keras")
        assert_same(fitted(model, epochs=1), fitted(again, epochs=1))
    assert len(set(map(id, traced))) == 4


def test_a_norm_that_is_not_finite_shows_as_it_does_in_keras(traced):
    """Gradients whose squares alone are too large: clipped by an infinite norm they would be 0."""
    model = model_of("classifier", CASES["clipped"](), loss_weights=1e24)
    found = fitted(model, epochs=1)
    assert traced
    assert np.isnan(found[1]).all()
