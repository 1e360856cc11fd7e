"""Parts of the model as each backend's kit computes them, beside the graph's own layers."""

import functools
import itertools

import keras
import numpy as np
import pytest
from helpers.rounds import full_on, nightly_on
from helpers.sizes import SIZES
from helpers.training_batches import PREDICTIONS, arrays, batch_of

import kbert
from kbert.data.training_batch import TrainingBatch
from kbert.graph import names
from kbert.graph.spec import GraphSpec
from kbert.model.builder import build
from kbert.model.layers import activation
from kbert.model.parts import elementwise, fused_parts
from kbert.model.parts.elementwise import dropped, random_bits
from kbert.training import engines
from kbert.training.optimizers import Optimizer

LENGTH, BATCH = 11, 13
BLOCKS = 2 if keras.backend.backend() == "torch" else 1  # a program takes seconds to make
HEADS = {
    "pretraining": {"max_predictions": PREDICTIONS},
    "classifier": {"num_labels": 5},
    "tokens": {"num_labels": 5},
    "qa": {},
}
# A program takes seconds to trace: one head stands for all in the default round, and on JAX two
# heads in the full round.
FEW_HEADS = [
    "pretraining",
    pytest.param("tokens", marks=pytest.mark.full),
    pytest.param("classifier", marks=[pytest.mark.full, nightly_on("jax")]),
    pytest.param("qa", marks=[pytest.mark.full, nightly_on("jax")]),
]


@pytest.fixture(autouse=True)
def a_loss_of_many_classes(monkeypatch):
    # the vocabulary's 99 are many
    monkeypatch.setattr("kbert.training.engines.engine.MANY_CLASSES", 50)


def engine_of(
    head,
    dtype="float32",
    dropout=0.0,
    fused=True,
    reading=None,
    platform=None,
    sizes=SIZES,
    length=LENGTH,
    **options,
):
    """Without fused parts the graph's layers, by default of every row."""
    reading = fused if reading is None else reading
    keras.utils.set_random_seed(5)
    rates = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    sizes = sizes | {"num_hidden_layers": BLOCKS, "initializer_range": 0.2}
    config = kbert.BertConfig(**sizes, **rates)
    started = engines.start()
    if platform:
        started.platform = platform
    with started.scope():
        model = build(GraphSpec.of(config, head, seq_len=length, dtype=dtype, **HEADS[head]))
    with pytest.MonkeyPatch.context() as patch:
        if not fused:
            patch.setattr(fused_parts, "fits", lambda model: False)
        if not reading:
            patch.setattr("kbert.training.engines.engine.readers", lambda model: [])
            patch.setattr("kbert.model.parts.cut_model.readers", lambda model: [])
        started.prepare(model, Optimizer(total_steps=9), **options)
    takes_rows = reading and head in ("pretraining", "classifier")
    assert (started.cut is not None) == bool(fused or takes_rows)
    return started


def batch(head):
    """Real tokens and padding: no text is as long as another."""
    if head == "pretraining":
        return batch_of(arrays("pretraining", 1, BATCH), 0)
    random = np.random.default_rng(2)
    tokens = random.integers(1, SIZES["vocab_size"], (BATCH, LENGTH)).astype("int32")
    tokens[np.arange(LENGTH) > random.integers(1, LENGTH + 1, (BATCH, 1))] = 0
    inputs = {names.TOKEN_IDS: tokens, names.SEGMENT_IDS: np.ones_like(tokens)}
    outputs = {
        "classifier": {names.CLASSIFIER: (5, BATCH)},
        "tokens": {names.TOKEN_CLASSIFIER: (5, (BATCH, LENGTH))},
        "qa": {names.SPAN_START: (LENGTH, BATCH), names.SPAN_END: (LENGTH, BATCH)},
    }[head]
    labels = {
        name: random.integers(0, classes, shape).astype("int32")
        for name, (classes, shape) in outputs.items()
    }
    weights = {name: np.full(one.shape, 1 / one.size, "float32") for name, one in labels.items()}
    return TrainingBatch(inputs, labels, weights)


def furthest(one: dict, other: dict) -> float:
    """The largest difference of two sets of gradients, by the largest number of each."""
    assert list(one) == list(other)
    sizes = {name: np.abs(value).max() for name, value in one.items()}
    least = 0.01 * max(sizes.values())  # a bias of keys has no gradient: nothing but rounding
    sizes = {name: max(size, least) for name, size in sizes.items()}
    return max(float(np.abs(one[name] - other[name]).max() / sizes[name]) for name in one)


@functools.cache
def gradients_of(head, **options) -> dict:
    """Of a head's batch, by an engine of its own: compiled once, as that is most of the time."""
    return engine_of(head, **options).gradients(batch(head), 0)


@pytest.mark.parametrize("head", FEW_HEADS)
def test_fused_gradients_equal_the_graph_layers(head):
    assert furthest(gradients_of(head, fused=False), gradients_of(head)) < 2e-5


@full_on("jax", "tensorflow")
@pytest.mark.parametrize(
    "head", ["pretraining", pytest.param("classifier", marks=pytest.mark.full)]
)
def test_gradients_of_read_positions_equal_all_positions(head):
    by_layers = gradients_of(head, fused=False, reading=True)
    assert furthest(gradients_of(head, fused=False), by_layers) < 2e-5


@pytest.mark.full
@nightly_on("jax", "torch")
def test_models_of_other_sizes_have_their_own_gradients():
    """TensorFlow keeps the parts' programs, and those that saw two sizes know none."""
    others = {"hidden_size": 36, "num_attention_heads": 3, "intermediate_size": 17}
    for sizes in (SIZES, SIZES | others | {"vocab_size": 131}):
        plain, fused = (
            engine_of("pretraining", fused=fused, sizes=sizes).gradients(batch("pretraining"), 0)
            for fused in (0, 1)
        )
        assert furthest(plain, fused) < 2e-5


@pytest.mark.full
def test_whole_fused_step_equals_the_graph():
    plain, fused = (engine_of("pretraining", fused=fused) for fused in (0, 1))
    for step in range(3):
        one, other = (one.update(batch("pretraining"), step) for one in (plain, fused))
        for figure in ("loss", "gradient_norm", "MLM_accuracy"):
            assert float(one[figure]) == pytest.approx(float(other[figure]), rel=1e-5)


@full_on("jax", "tensorflow")
@pytest.mark.parametrize(
    ("head", "reading"),
    [
        ("pretraining", True),
        pytest.param("pretraining", False, marks=pytest.mark.full),
        pytest.param("tokens", False, marks=[pytest.mark.full, nightly_on("jax")]),
    ],
)
def test_fused_dropout_equals_the_graph_with_equal_masks(head, reading, monkeypatch, backend):
    def call(layer, inputs, training=False):
        if not training or not layer.rate:
            return inputs
        if backend == "torch":  # whose generator draws the masks of both, one after the other
            return own_part(dropped, rate=layer.rate)(inputs, None)
        seed = keras.ops.cast(layer.seed_generator.state.value, "int32")
        return dropped(inputs, seed, layer.rate)

    monkeypatch.setattr(keras.layers.Dropout, "call", call)
    plain, fused = (
        engine_of(head, dropout=0.3, fused=fused, reading=reading).gradients(batch(head), 0)
        for fused in (0, 1)
    )
    assert furthest(plain, fused) < 2e-5
    assert furthest(plain, gradients_of(head)) > 0.1


@pytest.mark.full
@pytest.mark.parametrize("head", FEW_HEADS)
def test_tpu_operations_equal_cpu_operations(head, backend):
    """Masks of dropout too: the order of the numbers in memory is no part of them."""
    if backend != "jax":
        pytest.skip("only on JAX: the code for TPUs")
    cpu = gradients_of(head, dropout=0.3, reading=False)
    assert furthest(cpu, gradients_of(head, dropout=0.3, platform="tpu")) < 2e-5


@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("rate", [0.3, pytest.param(0.0, marks=pytest.mark.full)])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("at_once", [2, pytest.param(6, marks=pytest.mark.full)])
def test_tpu_attention_gradient_equals_autodiff(at_once, rate, packed, once, backend, monkeypatch):
    """The scores of some sequences at a time, with the masks of all."""
    if backend != "jax":
        pytest.skip("only on JAX: the code for TPUs")
    import jax

    from kbert.model.parts import tpu_attention
    from kbert.model.parts.tpu_attention import portions

    size = 4 * LENGTH**2 * 4  # bytes of a sequence's scores
    monkeypatch.setattr(tpu_attention, "PORTION", at_once * size + size // 2)
    random = np.random.default_rng(4)
    shape = (6, LENGTH, 4, 6)  # (B, S, A, D)
    seed = np.array([1, -2, 5] if packed else [1, -2], "int32")  # the sixth device's, or all
    *given, towards = random.standard_normal((4, *shape)).astype("float32")
    mask = np.arange(LENGTH) < np.array([11, 7, 1, 3, 5, 9])[:, None, None, None]
    if packed:
        texts = np.sort(random.integers(0, 4, (6, LENGTH)))
        mask = (texts[:, :, None] == texts[:, None])[:, None]

    def plain(query, keys, vectors):
        scores = keras.ops.einsum("bsad,btad->bast", query, keys)
        shares = elementwise.attention_weights(scores, mask, seed, rate=rate)
        return keras.ops.einsum("bast,btad->bsad", shares, vectors) * (1 - rate)

    def attended(*given):
        split = [jax.numpy.split(one, 6 // at_once) for one in given]
        return tpu_attention.attended(*split, mask, seed, rate, once)

    assert portions(6, LENGTH, 4, 4) == 6 // at_once

    def with_gradients(function):
        found, gradients = jax.vjp(function, *given)
        return found, *gradients(towards)

    (found, *own_gradients), (expected, *gradients) = (
        jax.jit(with_gradients, static_argnums=0)(function) for function in (attended, plain)
    )
    np.testing.assert_allclose(found, expected, atol=1e-6)
    for own, other in zip(own_gradients, gradients, strict=True):
        np.testing.assert_allclose(own, other, atol=4e-6)
        assert np.abs(other).max() > 0.3


@pytest.mark.full
def test_cutting_a_graph_leaves_it_unchanged():
    """Some tensors of the heads are the graph's inputs, which Keras would move to the heads."""
    started = engine_of("pretraining")
    again = keras.models.clone_model(started.model)
    assert [row.name for row in again.layers] == [row.name for row in started.model.layers]
    assert kbert.model_rows(again) == kbert.model_rows(started.model)


@pytest.mark.full
def test_each_micro_batch_and_step_has_its_own_masks():
    """The same examples in each half: with other masks their gradients differ."""
    given, half = batch("pretraining"), slice(0, 6)
    ids = {name: np.tile(array[half], (2, 1)) for name, array in given.inputs.items()}
    labels = {name: np.concatenate([one[half]] * 2) for name, one in given.labels.items()}
    weights = {name: np.concatenate([one[half]] * 2) for name, one in given.weights.items()}
    one, rows = engine_of("pretraining", dropout=0.3), given.rows(half)
    both = engine_of("pretraining", dropout=0.3, accumulation_steps=2)
    twice = both.gradients(TrainingBatch(ids, labels, weights), 0)
    once = one.gradients(rows, 0)
    assert furthest({name: 2 * value for name, value in once.items()}, twice) > 0.1
    assert furthest(once, one.gradients(rows, 1)) > 0.1
    assert furthest(once, one.gradients(rows, 0)) < 1e-6


@pytest.mark.full
@pytest.mark.parametrize("platform", [None, "tpu"])
def test_gradient_checkpointing_keeps_fused_gradients(platform, backend):
    if platform and backend != "jax":
        pytest.skip("only on JAX: the code for TPUs")
    options = {"dropout": 0.3} | ({"platform": platform} if platform else {})
    again = engine_of("pretraining", gradient_checkpointing=True, **options)
    kept = gradients_of("pretraining", **options)
    assert furthest(kept, again.gradients(batch("pretraining"), 0)) < 2e-5


@pytest.mark.full
def test_bfloat16_error_is_at_most_that_of_the_graph(backend):
    given = batch("pretraining")
    exact = dict(gradients_of("pretraining"))
    for name in exact:  # a bias of keys has no gradient: nothing but rounding
        if "key/bias" in name:
            exact[name] = np.zeros_like(exact[name])

    def distance(fused, platform=None):
        engine = engine_of("pretraining", "mixed_bfloat16", fused=fused, platform=platform)
        found = engine.gradients(given, 0)
        pairs = [(exact[name], found[name]) for name in exact if np.abs(exact[name]).max() > 1e-4]
        return np.mean([np.abs(a - b).mean() / np.abs(a).mean() for a, b in pairs])

    graphs = distance(False)
    for platform in (None, "tpu") if backend == "jax" else (None,):
        assert distance(True, platform) < 1.1 * graphs < 0.2


@full_on("tensorflow")
def test_float16_attention_scores_stay_finite(backend):
    """Queries and keys whose products are beyond 65,504 before they are scaled, and not after."""
    if backend == "jax":
        pytest.skip("JAX has no float16 products on a CPU")
    engine = engine_of("pretraining", "mixed_float16")
    state = engine.state() | {"optimizer/loss_scale": np.float32(1)}
    for name in state:
        if name.startswith("model/") and name.endswith(("query/bias", "key/bias")):
            state[name] = np.full_like(state[name], 150.0)
    engine.restore(state)
    size = engine.model.get_layer(names.encoder(1, names.ATTENTION)).key_dim
    assert 150**2 * size > 65_504 > 150**2 * size**0.5
    for name, gradient in engine.gradients(batch("pretraining"), 0).items():
        assert np.isfinite(gradient).all(), name


@full_on("jax")
def test_frozen_or_non_float32_weights_use_the_graph(backend):
    config = kbert.BertConfig(**SIZES | {"num_hidden_layers": 1})
    for dtype in ("bfloat16",) if backend == "jax" else ("bfloat16", "float64"):
        assert not fused_parts.fits(kbert.build_bert(config, seq_len=LENGTH, dtype=dtype))
    engine = engines.start()
    with engine.scope():
        model = build(GraphSpec.of(config, "classifier", seq_len=LENGTH, num_labels=5))
    model.get_layer(names.encoder(1, names.ATTENTION)).trainable = False
    engine.prepare(model, Optimizer(total_steps=9))
    found = engine.gradients(batch("classifier"), 0)
    assert not any("Encoder-1-MultiHeadSelfAttention/" in name for name in found)


def test_custom_layers_are_left_unchanged():
    class Own(keras.layers.LayerNormalization):
        pass

    config = kbert.BertConfig(**SIZES)
    model = kbert.build_bert(config, seq_len=LENGTH)
    assert fused_parts.fits(model)
    model.get_layer(names.encoder(2, names.FEED_FORWARD, "Norm")).__class__ = Own
    assert not fused_parts.fits(model)


# The masks: 31 bits of a hash of place and seed, where XLA makes a program of it.

SEEDS = [[0, 0], [0, 1], [1, 0], [1, 1], [2**31 - 1, 7], [-5, 3]]


@pytest.fixture
def hashed(backend):
    if backend == "torch":
        pytest.skip("torch's masks are of its own generator")


def numbers(tensor):
    return keras.ops.convert_to_numpy(tensor)


def seed_of(seed):
    return keras.ops.convert_to_tensor(seed, "int32")


def own_part(formula, **settings):
    """torch's, which draws from its generator."""
    from kbert.model.parts import torch_kit

    return torch_kit.part(formula, **settings)


def dropped_of(ones, seed, rate):
    if keras.backend.backend() != "torch":
        return numbers(dropped(ones, seed_of(seed), rate))
    import torch

    torch.manual_seed(hash(tuple(seed)) % 2**32)  # it reads 32 bits
    return numbers(own_part(dropped, rate=rate)(ones, None))


def masks(rate, shape=(311, 257)):
    return [dropped_of(keras.ops.ones(shape), seed, rate) > 0 for seed in SEEDS]


@pytest.mark.parametrize("seed", SEEDS)
def test_random_bits_equal_the_hash_in_numpy(seed, hashed):
    def mixed(x, right, factor):
        return (x ^ (x >> np.uint64(right))) * np.uint64(factor) % np.uint64(2**32)

    low, high = np.array(seed, "int32").view("uint32").astype("uint64")
    x = np.arange(911, dtype=np.uint64) * np.uint64(0x9E3779B9) % np.uint64(2**32)
    x = mixed(x ^ low, 16, 0x7FEB352D) ^ high
    x = mixed(mixed(x, 15, 0x7FEB352D), 15, 0x846CA68B)
    expected = (x ^ (x >> np.uint64(16))) >> np.uint64(1)
    assert np.array_equal(numbers(random_bits((911,), seed_of(seed))), expected)


def test_random_bits_of_slices_equal_the_whole(hashed):
    whole, seed = numbers(random_bits((3 * 911,), seed_of([5, -7]))), seed_of([5, -7])
    parts = [numbers(random_bits((911,), seed_of([5, -7, part]))) for part in range(3)]
    assert np.array_equal(np.concatenate(parts), whole)
    last = 2**32 // 911 - 1  # whose places have 32 bits; the next ones' seeds are their own
    beyond = [numbers(random_bits((911,), seed_of([5, -7, last + n]))) for n in range(3)]
    others = [numbers(random_bits((911,), seed)), *beyond]
    assert max(len(np.intersect1d(a, b)) for a, b in itertools.combinations(others, 2)) < 3


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.003])
def test_dropout_keeps_its_rate_and_scales_the_rest(rate, backend):
    value = dropped_of(keras.ops.ones((311, 257)), [3, 4], rate)
    tolerance = 1e-5 if backend == "torch" else 1e-6  # its rate is a whole number of 2⁻¹⁶
    np.testing.assert_allclose(np.unique(value), [0, 1 / (1 - rate)], rtol=tolerance)
    for mask in masks(rate):
        for axis in (None, 0, 1):  # the whole, each column, each row
            count = mask.size if axis is None else mask.shape[axis]
            off = (1 - mask).mean(axis) - rate
            deviations = off / np.sqrt(rate * (1 - rate) / count)
            assert np.abs(deviations).max() < 5.5
            if axis is not None:
                assert 0.8 < deviations.std() < 1.2


def test_dropout_masks_of_neighbours_and_seeds_are_unrelated():
    found = [mask - 0.5 for mask in masks(0.5)]
    bound = 5 * 0.25 / np.sqrt(found[0].size)
    for place, mask in enumerate(found):
        for steps in (1, 2, 3, 16, 64, 257):
            flat = mask.ravel()
            assert abs((flat[steps:] * flat[:-steps]).mean()) < bound
        for other in found[:place]:
            assert abs((mask * other).mean()) < bound


def test_rate_0_drops_nothing_and_bits_are_uniform(hashed):
    ones = keras.ops.ones((3, 5))
    assert dropped(ones, seed_of([1, 2]), 0.0) is ones
    bits = numbers(random_bits((1 << 16,), seed_of([1, 2])))
    assert bits.min() >= 0 and len(np.unique(bits)) > 65_500  # of 2³¹: two of them rarely agree
    for shift in range(31):
        assert abs((bits >> shift & 1).mean() - 0.5) < 5 * 0.5 / 256


@pytest.mark.parametrize("formula", ["measured", "activated", "attention_weights"])
def test_fused_operation_equals_its_formula(formula, backend):
    """torch has functions of its own for them; an activation that it has none for stays."""
    started = engine_of("pretraining")
    random = np.random.default_rng(3)
    scores = random.standard_normal((3, 4, 5, 5)).astype("float32")
    keep = np.arange(5) < np.array([[5], [2], [3]])
    logits, bias = random.standard_normal((3, 7, 99)).astype("float32"), random.random(99)
    labels = random.integers(0, 99, (3, 7)).astype("int32")
    weights = (random.random((3, 7)) * (random.random((3, 7)) > 0.3)).astype("float32")
    cases = {
        "measured": [((logits, labels, weights), {})],
        "activated": [
            ((logits, bias.astype("float32")), {"activation": activation(name)})
            for name in ("gelu", "gelu_new", "relu")
        ],
        "attention_weights": [
            ((scores, keep[:, None, None], np.array([1, 2], "int32")), {"rate": 0.0})
        ],
    }
    for arrays_of, settings in cases[formula]:
        given = [keras.ops.convert_to_tensor(array) for array in arrays_of]
        part = started.kit.part(getattr(elementwise, formula), **settings)
        expected = getattr(elementwise, formula)(*given, **settings)
        np.testing.assert_allclose(numbers(part(*given)), numbers(expected), rtol=2e-5, atol=1e-6)
