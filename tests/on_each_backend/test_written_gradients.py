"""Gradients that are written down, beside those that the backend finds for the same formula."""

import functools
import importlib

import keras
import numpy as np
import pytest

from kbert.model.parts import elementwise, plain_kit
from kbert.model.parts.written_gradients import WRITTEN

B, S, A, D, CLASSES = 3, 7, 5, 2, 99
H = A * D
EPSILON = 1e-3  # large, so that one that is left out shows
random = np.random.default_rng(11)


def floats(*shape):
    return random.standard_normal(shape).astype("float32")


def padding():
    """bool (B, 1, 1, S): the last tokens of two examples are not there, and all of the third."""
    return (np.arange(S) < np.array([[7], [4], [0]]))[:, None, None]


def blocks():
    """bool (B, 1, S, S), several texts a row: padding sees nothing."""
    texts = np.array([[0, 0, 1, 1, 1, 2, 9], [0] * 7, [0, 1, 2, 3, 9, 9, 9]])
    return ((texts[:, :, None] == texts[:, None]) & (texts < 9)[:, :, None])[:, None]


def loss_arguments():
    logits, weights = floats(B, S, CLASSES), random.random((B, S)).astype("float32")
    logits[1, 2, 5:8] = logits[1, 2].max() + 1  # three largest
    weights[0, :3] = 0
    logits[0, 0] = np.inf  # of a label that does not count
    return [logits, random.integers(0, CLASSES, (B, S)).astype("int32"), weights]


SEED = np.array([3, -4], "int32")
SUM = [floats(B, S, H), floats(H), 5 + floats(B, S, H), floats(H), floats(H), SEED]
HEADS = [3 * floats(B, A, S, D), 3 * floats(B, A, S, D), floats(B, A, S, D)]
CASES = {
    "normalized_sum": (elementwise.normalized_sum, SUM, {"rate": 0.3, "epsilon": EPSILON}),
    "normalized_sum, rate 0": (
        elementwise.normalized_sum,
        SUM,
        {"rate": 0.0, "epsilon": EPSILON},
    ),
    "split_heads": (
        elementwise.split_heads,
        [floats(B, S, 3 * H), floats(3 * H)],
        {"parts": 3, "heads": A},
    ),
    "measured": (elementwise.measured, loss_arguments(), {}),
}


def test_every_written_gradient_is_compared():
    assert {formula for formula, *_ in CASES.values()} == set(WRITTEN)


@pytest.fixture
def kit(backend):
    if backend == "torch":
        pytest.skip("torch's parts are its own functions")
    return importlib.import_module(f"kbert.model.parts.{backend}_kit")


@pytest.mark.parametrize("case", CASES)
def test_written_gradient_equals_autodiff(case, kit):
    formula, arguments, settings = CASES[case]
    places = [
        place
        for place, one in enumerate(arguments)
        if one.dtype == "float32" and not (formula is elementwise.measured and place == 2)
    ]
    part, plain = kit.part(formula, **settings), functools.partial(formula, **settings)
    assert_same_gradients(part, plain, arguments, places)


@pytest.mark.parametrize("mask", [padding, blocks], ids=["padded", "packed"])
@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_fused_attention_equals_its_parts(mask, rate, kit):
    """The plain kit's, with autodiff's gradient."""
    arguments = [*HEADS, mask(), SEED]
    assert_same_gradients(kit.attended(rate), plain_kit.attended(rate), arguments, [0, 1, 2])


def assert_same_gradients(function, other, arguments, places):
    results, found = with_gradients(function, arguments, places)
    others, expected = with_gradients(other, arguments, places)
    for one, other in zip(results, others, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    for one, other in zip(found, expected, strict=True):
        assert np.abs(other).max() > 1e-3
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5 * np.abs(other).max())


def with_gradients(function, arguments, places):
    """Results, and the gradients of some arguments of a sum of them with weights of their own."""

    def total(*given):
        whole = [keras.ops.convert_to_tensor(one) for one in arguments]
        for place, one in zip(places, given, strict=True):
            whole[place] = one
        results = function(*whole)
        results = list(results) if isinstance(results, list | tuple) else [results]
        weights = (np.random.default_rng(5).standard_normal(one.shape) for one in results)
        parts = [
            keras.ops.sum(one * weight.astype("float32"))
            for one, weight in zip(results, weights, strict=True)
        ]
        return sum(parts), results

    given = [arguments[place] for place in places]
    results, gradients = _BY_BACKEND[keras.backend.backend()](total, given)
    return [np.asarray(one) for one in results], [np.asarray(one) for one in gradients]


def by_tensorflow(total, given):
    import tensorflow as tf

    given = [tf.constant(one) for one in given]
    with tf.GradientTape() as tape:
        tape.watch(given)
        value, results = total(*given)
    return results, tape.gradient(value, given)


def by_jax(total, given):
    import jax

    places = tuple(range(len(given)))
    compiled = jax.jit(jax.value_and_grad(total, places, has_aux=True))  # else bit by bit
    (_, results), gradients = compiled(*given)
    return results, gradients


_BY_BACKEND = {"tensorflow": by_tensorflow, "jax": by_jax}


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="TensorFlow's kit alone does")
def test_recomputed_operations_keep_nothing_and_gradients():
    import tensorflow as tf

    from kbert.model.parts import tensorflow_kit

    calls = []

    def product(y, bias, kernel):
        calls.append(1)
        return tf.matmul(tf.nn.gelu(y + bias), kernel)

    random = np.random.default_rng(4)
    given = [tf.constant(random.normal(size=size)) for size in ((13, 7), (7,), (7, 5))]
    found = []
    for function, times in ((product, 1), (tensorflow_kit.recomputed(product), 2)):
        calls.clear()
        with tf.GradientTape() as tape:
            tape.watch(given)
            result = function(*given)
        assert len(calls) == 1
        found.append([result, *tape.gradient(result, given)])
        assert len(calls) == times
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="TensorFlow's kit alone does")
def test_recomputation_waits_for_the_gradient():
    """Without the wait TensorFlow computes it once, as the same operation of the same tensors."""
    import tensorflow as tf

    from kbert.model.parts import tensorflow_kit

    def product(y, bias, kernel):
        return tf.matmul(tf.tanh(y + bias), kernel)

    @tf.function
    def gradients(*given):
        with tf.GradientTape() as tape:
            tape.watch(given)
            result = tensorflow_kit.recomputed(product)(*given)
        of_result = tf.identity(3 * result, name="of_result")
        return tape.gradient(result, given, of_result)

    shapes = [(13, 7), (7,), (7, 5)]
    graph = gradients.get_concrete_function(*map(tf.zeros, shapes)).graph
    (of_result,) = (op for op in graph.get_operations() if op.name == "of_result")
    waiting = [op for op in graph.get_operations() if of_result in op.control_inputs]
    assert {op.type for op in waiting} == {"Identity"}
    assert [op.inputs[0].op.type for op in waiting] == ["Placeholder"] * 3
    activations = [op for op in graph.get_operations() if op.type == "Tanh"]
    assert len(activations) == 2
    again = activations[1]
    while again not in waiting:  # y + bias
        again = again.inputs[0].op
