"""AdamW equals torch, LAMB the paper's lines in NumPy, learning rates transformers.

Keras's optimizers, within kbert's step, equal their own `apply`.
"""

import numpy as np
import pytest
from helpers.errors import raises

import kbert
from kbert.training.optimization import optimizers
from kbert.training.optimization.optimizers import OPTIMIZERS, Optimizer

SHAPE, UPDATES = (7, 5), 13


def gradients() -> np.ndarray:
    random = np.random.default_rng(3)
    sizes = 10.0 ** random.integers(-4, 2, (1, *SHAPE))  # some below, some far above epsilon
    return (random.standard_normal((UPDATES, *SHAPE)) * sizes).astype("float32")


def first_weight():
    import keras

    first = np.random.default_rng(5).standard_normal(SHAPE)
    return keras.Variable(first, dtype="float32", name="kernel")


def ours(settings: Optimizer, decayed: bool) -> np.ndarray:
    """The weight after each update, (UPDATES, 7, 5), as the engines compute it."""
    from keras import ops

    variable = first_weight()
    (rule,) = optimizers.rules(settings, [variable])
    weight = ops.convert_to_tensor(variable)
    slots = {name: ops.convert_to_tensor(slot) for name, slot in rule.init(variable).items()}
    found = []
    for done, gradient in enumerate(gradients()):
        iteration = ops.convert_to_tensor(done, "float32")
        rate = optimizers.learning_rate(settings, iteration)
        gradient = ops.convert_to_tensor(gradient)
        given = weight, slots, gradient, rate, iteration, decayed
        weight, slots = rule.update(*given)
        found.append(ops.convert_to_numpy(weight))
    return np.stack(found)


def changes(weights: np.ndarray) -> np.ndarray:
    first = np.random.default_rng(5).standard_normal(SHAPE).astype("float32")
    return np.diff(np.concatenate([first[None], weights]).astype("float64"), axis=0)


@pytest.mark.full
@pytest.mark.parametrize("decayed", [True, False])
def test_adamw_equals_torch(decayed):
    torch = pytest.importorskip("torch")
    settings = Optimizer(
        learning_rate=0.02, schedule="constant", total_steps=UPDATES, weight_decay=0.3
    )
    first = np.random.default_rng(5).standard_normal(SHAPE)
    parameter = torch.nn.Parameter(torch.tensor(first, dtype=torch.float32))
    decay = 0.3 if decayed else 0.0
    peer = torch.optim.AdamW([parameter], lr=0.02, eps=settings.epsilon, weight_decay=decay)
    expected = []
    for gradient in gradients():
        parameter.grad = torch.tensor(gradient)
        peer.step()
        expected.append(parameter.detach().numpy().copy())
    weights = ours(settings, decayed)
    # float32 in another order: a few units in the last place of weights up to 3
    np.testing.assert_allclose(weights, np.stack(expected), rtol=0, atol=2e-6)
    assert np.abs(changes(weights)).max() > 0.01


@pytest.mark.parametrize("decayed", [True, False])
def test_lamb_equals_algorithm_2_of_the_paper(decayed):
    """arXiv 1904.00962 v5, in float64; biases and LayerNorm's neither decayed nor adapted."""
    settings = Optimizer(
        "lamb", 0.02, schedule="constant", total_steps=UPDATES, weight_decay=0.3,
        beta_1=0.8, beta_2=0.9,
    )  # fmt: skip
    x = np.random.default_rng(5).standard_normal(SHAPE)
    m, v = np.zeros(SHAPE), np.zeros(SHAPE)
    expected = []
    for t, g in enumerate(gradients().astype("float64"), start=1):
        m = 0.8 * m + 0.2 * g
        v = 0.9 * v + 0.1 * g**2
        r = m / (1 - 0.8**t) / (np.sqrt(v / (1 - 0.9**t)) + 1e-6)
        if decayed:
            u = r + 0.3 * x
            x = x - 0.02 * np.linalg.norm(x) / np.linalg.norm(u) * u
        else:
            x = x - 0.02 * r
        expected.append(x)
    np.testing.assert_allclose(ours(settings, decayed), expected, rtol=0, atol=3e-6)


KERAS = {
    "Lion": {"beta_1": 0.8},
    "Adafactor": {"epsilon_2": 1e-2},
    "SGD": {"momentum": 0.7, "nesterov": True},
    "RMSprop": {"centered": True, "momentum": 0.3},
    "Adagrad": {},  # whose slots do not begin at 0
    "Adamax": {},
    "Adam": {"amsgrad": True},
    "AdamW": {},
    "Lamb": {},
    "Muon": {},
}


@pytest.mark.full
@pytest.mark.parametrize("name", KERAS)
def test_keras_optimizers_equal_their_own_apply(name):
    import keras

    expected, variable = [], first_weight()
    peer = getattr(keras.optimizers, name)(**KERAS[name])
    settings = Optimizer(peer, 0.02, schedule="constant", total_steps=UPDATES, weight_decay=0.3)
    peer = type(peer).from_config(peer.get_config() | {"learning_rate": 0.02, "weight_decay": 0.3})
    for gradient in gradients():
        peer.apply([keras.ops.convert_to_tensor(gradient)], [variable])
        expected.append(keras.ops.convert_to_numpy(variable))
    weights = ours(settings, True)
    np.testing.assert_allclose(weights, np.stack(expected), rtol=0, atol=2e-6)
    assert np.abs(changes(weights)).max() > 0.01


def test_settings_of_keras_optimizers_that_are_the_runs_are_refused():
    import keras

    class Unknown(keras.optimizers.SGD):
        pass

    scheduled = keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(1e-3, 9))
    scaled = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam())
    cases = [
        (Unknown(), ("Unknown", "keras.saving.register_keras_serializable")),
        (keras.optimizers.Lion(3e-5), ("Lion", "learning_rate", "learning_rate=…")),
        (keras.optimizers.Lion(weight_decay=0.1), ("Lion", "weight_decay", "weight_decay=…")),
        (keras.optimizers.SGD(global_clipnorm=1.0), ("SGD", "global_clipnorm", "clip_norm=…")),
        (keras.optimizers.Adam(use_ema=True), ("Adam", "use_ema", "ema=…")),
        (scheduled, ("Adam", "learning_rate", "schedule=…")),
        (keras.optimizers.Nadam(), ("Nadam",)),
        (keras.optimizers.Lion, ("optimizer", "Lion", "class")),
        (scaled, ("LossScaleOptimizer",)),
        (5, ("optimizer", *OPTIMIZERS, "got 5")),
    ]
    for optimizer, things in cases:
        with raises(ValueError, *things) as raised:
            Optimizer(optimizer)
        assert "\n" not in str(raised.value)


def test_settings_of_keras_optimizers_hold_only_what_is_used():
    import keras

    settings = Optimizer(keras.optimizers.Lion(beta_1=0.8))
    config = settings.name["config"]
    assert config["beta_1"] == 0.8 and not {"learning_rate", "weight_decay"} & set(config)
    assert Optimizer(settings.name) == settings


def test_biases_and_layer_norm_are_not_decayed(small):
    """google-research/bert's exclude_from_weight_decay: LayerNorm, layer_norm, bias."""
    paths = [weight.path for weight in kbert.build_bert(small, seq_len=7).weights]
    excluded = [path for path in paths if "Norm/" in path or path.endswith("/bias")]
    assert [path for path in paths if not optimizers.is_decayed(path)] == excluded
    assert len(excluded) == 2 + 10 * small.num_hidden_layers + 6  # embeddings, blocks, heads


def test_lamb_moves_a_weight_of_zeros():
    from keras import ops

    zeros = ops.zeros(SHAPE)
    settings = Optimizer("lamb", 0.02, schedule="constant")
    gradient, iteration = ops.ones(SHAPE), ops.convert_to_tensor(0.0)
    slots = {"first": zeros, "second": zeros}
    (rule,) = optimizers.rules(settings, [zeros])
    weight, _ = rule.update(zeros, slots, gradient, 0.02, iteration, True)
    np.testing.assert_allclose(ops.convert_to_numpy(weight), -0.02, rtol=1e-4)  # a ratio of 1


@pytest.mark.parametrize(
    ("schedule", "warmup", "shares"),
    [
        ("linear", 7, {0: 0, 3: 3 / 7, 7: 1, 18: 0.5, 28: 1 / 22, 29: 0, 33: 0}),
        ("linear", 0, {0: 1, 1: 28 / 29, 28: 1 / 29, 29: 0}),
        ("linear", 1, {0: 0, 1: 1, 15: 0.5, 29: 0}),
        ("linear", 29, {0: 0, 1: 1 / 29, 28: 28 / 29, 29: 0}),
        ("constant", 7, {0: 0, 3: 3 / 7, 7: 1, 33: 1}),
        ("constant", 0, {0: 1, 33: 1}),
        ("constant", 29, {0: 0, 28: 28 / 29, 29: 1, 33: 1}),
    ],
)
def test_learning_rate_of_a_step(schedule, warmup, shares):
    """As transformers' schedules have it, of 29 steps."""
    from keras import ops

    settings = Optimizer(learning_rate=3e-4, total_steps=29, warmup_steps=warmup, schedule=schedule)
    for step, share in shares.items():
        found = optimizers.learning_rate(settings, ops.convert_to_tensor(step, "float32"))
        assert float(found) == pytest.approx(3e-4 * share, rel=1e-6, abs=1e-12), step
