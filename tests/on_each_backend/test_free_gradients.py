"""Batches of many lengths on TensorFlow: the same as by the graph's layers, with its own gradients
beside those that TensorFlow takes of the formulas."""

import keras
import numpy as np
import pytest

if keras.backend.backend() != "tensorflow":
    pytest.skip("TensorFlow's alone", allow_module_level=True)

import tensorflow as tf
from test_fused_parts import BLOCKS, HEADS, batch, engine_of, furthest

from kbert.data.training_batch import TrainingBatch
from kbert.model import layers as kl
from kbert.model.parts import elementwise, tensorflow_free_kit

FEW = [head if head == "tokens" else pytest.param(head, marks=pytest.mark.full) for head in HEADS]
RATE, EPSILON = 0.3, 1e-12


def any_length(head, fused=True, **options):
    engine = engine_of(head, length=None, fused=fused, **options)
    assert engine.kit is (tensorflow_free_kit if fused else None)
    return engine


def shorter(given: TrainingBatch) -> TrainingBatch:
    """The same texts, cut to 7 tokens."""
    inputs = {name: array[:, :7] for name, array in given.inputs.items()}
    return TrainingBatch(inputs, given.labels, given.weights)


@pytest.mark.parametrize("head", FEW)
def test_any_length_gradients_equal_the_graph_layers(head):
    plain, own = (any_length(head, fused=fused).gradients(batch(head), 0) for fused in (0, 1))
    assert furthest(plain, own) < 2e-5


@pytest.mark.full
def test_steps_of_several_lengths_equal_the_graph():
    plain, own = (any_length("classifier", fused=fused) for fused in (0, 1))
    given = batch("classifier")
    for step, one in enumerate((given, shorter(given), given)):
        found = [engine.update(one, step) for engine in (plain, own)]
        for figure in ("loss", "gradient_norm"):
            a, b = (float(figures[figure]) for figures in found)
            assert a == pytest.approx(b, rel=1e-5)


@pytest.mark.full
@pytest.mark.parametrize("options", [{"gradient_checkpointing": True}, {"accumulation_steps": 13}])
def test_checkpointing_and_accumulation_keep_gradients(options):
    plain, own = any_length("classifier"), any_length("classifier", **options)
    given = batch("classifier")
    assert furthest(plain.gradients(given, 0), own.gradients(given, 0)) < 2e-5


@pytest.mark.full
def test_checkpointed_blocks_draw_the_same_dropout_masks():
    given, seen = batch("classifier"), []
    for again in (False, True):
        engine = any_length("classifier", dropout=RATE, gradient_checkpointing=again)
        seen.append(engine.gradients(given, 3))
    assert furthest(*seen) < 2e-5
    assert furthest(seen[0], any_length("classifier").gradients(given, 3)) > 0.1


@pytest.mark.parametrize("head", FEW)
@pytest.mark.parametrize("length", [None, pytest.param(11, marks=pytest.mark.full)])
def test_predictions_equal_the_graph_layers(head, length):
    plain, own = (engine_of(head, length=length, dropout=RATE, fused=fused) for fused in (0, 1))
    assert own.cut_in_inference is not None
    given = batch(head).inputs
    for one, other in zip(plain.predict(given), own.predict(given), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.full
def test_other_precisions_and_xla_use_the_graph_layers():
    for options in ({"dtype": "mixed_bfloat16"}, {"jit": True}):
        engine = engine_of("classifier", length=None, fused=False, **options)
        assert engine.kit is None and engine.cut_in_inference is None


@pytest.mark.full
def test_only_bias_additions_read_the_matrix_products():
    """TensorFlow's remapper makes one operation of the two then."""
    engine = any_length("tokens")
    signature = {name: tf.TensorSpec((None, None), "int32") for name in batch("tokens").inputs}
    traced = tf.function(engine._logits, input_signature=[signature], autograph=False)
    asking: dict = {}
    left = list(traced.get_concrete_function().graph.outputs)
    while left:  # what the outputs need, by way of what hands tensors on
        made = left.pop().op
        if made not in asking:
            asking[made] = set()
            left.extend(made.inputs)
    for one in asking:
        for tensor in one.inputs:
            if one.type != "IdentityN":
                asking[source(tensor)].add(one.type)
    products = [types - {"Identity"} for made, types in asking.items() if made.type == "MatMul"]
    assert products.count({"BiasAdd"}) == BLOCKS * 4


def source(tensor):
    """The operation that a tensor is of, by way of those that hand it on."""
    while tensor.op.type in ("Identity", "IdentityN"):
        tensor = tensor.op.inputs[tensor.value_index]
    return tensor.op


# The masks, of TensorFlow's own generator.


def mask_of(seed, rate, shape=(311, 257)):
    kept, scale = tensorflow_free_kit._kept(tf.ones(shape), tf.constant(seed, "int32"), rate)
    assert scale == pytest.approx(1 / (1 - rate), rel=1e-5)
    return kept.numpy()


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_dropout_keeps_its_rate(rate):
    kept = mask_of([3, -4], rate)
    for axis in (None, 0, 1):  # the whole, each column, each row
        count = kept.size if axis is None else kept.shape[axis]
        deviations = ((1 - kept).mean(axis) - rate) / np.sqrt(rate * (1 - rate) / count)
        assert np.abs(deviations).max() < 5.5
        if axis is not None:
            assert 0.8 < deviations.std() < 1.2
    few = 1 - mask_of([5, 6], 0.003)
    assert abs(few.mean() - 0.003) < 5 * np.sqrt(0.003 / few.size)


def test_dropout_masks_depend_on_the_seed_alone():
    one, again, other = (mask_of(seed, 0.5) - 0.5 for seed in ([3, -4], [3, -4], [4, -4]))
    assert np.array_equal(one, again)
    assert abs((one * other).mean()) < 5 * 0.25 / np.sqrt(one.size)
    spectrum = np.abs(np.fft.rfft(one.ravel())) ** 2
    at_steps = np.fft.irfft(spectrum, one.size)[1:]  # of any number of places apart, all the way
    assert np.abs(at_steps).max() < 6 * 0.25 * np.sqrt(one.size)


# Each part beside its formula, under one mask.


def numbers(*shape, seed=5):
    return tf.constant(np.random.default_rng(seed).standard_normal(shape), "float32")


def part_and_formula(formula, **settings):
    return tensorflow_free_kit.part(formula, **settings), lambda *x: formula(*x, **settings)


def attention(rate):
    def plain(query, keys, vectors, mask, seed):
        scores = tf.matmul(query, keys, transpose_b=True)
        shares = elementwise.attention_weights(scores, mask, seed, rate=rate)
        return elementwise.merged_heads(tf.matmul(shares, vectors))

    return tensorflow_free_kit.attended(rate), plain


SEED = np.array([3, -4], "int32")
MASK = tf.constant(np.arange(7) < np.array([7, 3, 1])[:, None, None, None])
STATE = [numbers(3, 7, 24, seed=n) for n in (1, 2, 3)]
VECTORS = [numbers(24, seed=n) for n in (4, 5, 6)]
HEADS_OF = [numbers(3, 4, 7, 6, seed=n) for n in (7, 8, 9)]
NORM = {"rate": RATE, "epsilon": EPSILON}
CASES = {
    "sum": (
        part_and_formula(elementwise.normalized_sum, **NORM),
        [STATE[0], VECTORS[0], STATE[1], *VECTORS[1:]],
        [SEED],
    ),
    "embeddings": (
        part_and_formula(elementwise.normalized_embeddings, dtype="float32", **NORM),
        [*STATE[:2], STATE[2][:1], *VECTORS[:2]],
        [SEED],
    ),
    "heads": (
        part_and_formula(elementwise.split_heads, parts=3, heads=4),
        [numbers(3, 7, 72), numbers(72)],
        [],
    ),
    "gelu": (
        part_and_formula(elementwise.activated, activation=kl.gelu),
        [numbers(3, 7, 24) * 3, VECTORS[0]],
        [],
    ),
    "another activation": (
        part_and_formula(elementwise.activated, activation=kl.gelu_tanh),
        [numbers(3, 7, 24) * 3, VECTORS[0]],
        [],
    ),
    "attention": (attention(RATE), HEADS_OF, [MASK, SEED]),
    "attention without dropout": (attention(0.0), HEADS_OF, [MASK, SEED]),
    "loss": (
        part_and_formula(elementwise.measured),
        [numbers(3, 5, 99)],
        [
            tf.constant(np.arange(15).reshape(3, 5), "int32"),
            tf.constant(np.arange(15).reshape(3, 5) % 4, "float32"),
        ],
    ),
}


@pytest.fixture
def one_mask(monkeypatch):
    def kept(x, seed, rate):
        random = np.random.default_rng(11).random((7, x.shape[-1] or 7))
        return tf.broadcast_to(tf.constant(random >= rate), tf.shape(x))

    def flat(x, seed, rate):  # rows of (B, S, H) are (N, H) here
        if len(x.shape) == 2:
            mask = kept(tf.reshape(x, [3, 7, x.shape[-1]]), seed, rate)
            return tf.reshape(mask, tf.shape(x)), 1 / (1 - rate)
        return kept(x, seed, rate), 1 / (1 - rate)

    monkeypatch.setattr(elementwise, "kept", kept)
    monkeypatch.setattr(tensorflow_free_kit, "_kept", flat)


def spread(x):
    """Numbers of its shape, whatever that is."""
    return tf.reshape(tf.sin(1.0 + 1.7 * tf.cast(tf.range(tf.size(x)), "float32")), tf.shape(x))


def with_gradients(function, given, rest):
    with tf.GradientTape() as tape:
        tape.watch(given)
        results = function(*given, *rest)
        total = sum(tf.reduce_sum(one * spread(one)) for one in tf.nest.flatten(results))
    return tf.nest.flatten(results), tape.gradient(total, given)


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_operation_and_gradients_equal_the_formula(case, traced, one_mask):
    (own, formula), given, rest = CASES[case]
    expected = with_gradients(formula, given, rest)

    def found(*tensors):
        return with_gradients(own, list(tensors[: len(given)]), tensors[len(given) :])

    if traced:  # sizes unknown, as in an update
        every = [*given, *map(tf.constant, rest)]
        shapes = [[None] * (len(one.shape) - 1) + one.shape[-1:] for one in every]
        signature = [
            tf.TensorSpec(shape, one.dtype) for shape, one in zip(shapes, every, strict=True)
        ]
        found = tf.function(found, input_signature=signature, autograph=False)
    results, gradients = found(*given, *map(tf.constant, rest))
    for one, other in zip([*results, *gradients], [*expected[0], *expected[1]], strict=True):
        scale = np.abs(other).max()
        assert scale > 0.05
        np.testing.assert_allclose(one / scale, other / scale, atol=3e-6)
