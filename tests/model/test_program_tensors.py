"""TensorFlow's compiled programs keep no dropout mask as a constant and copy no logits."""

import math
import re

import numpy as np
import pytest

from kbert.model.parts import elementwise
from kbert.model.parts.written_gradients import WRITTEN

tf = pytest.importorskip("tensorflow")

B, S, A, H = 3, 29, 5, 35
COUNTS = {"scores": B * A * S * S, "rows": B * S * H}
DROPOUT = {"rate": 0.1}
NORM = DROPOUT | {"epsilon": 1e-12}


def rows():
    return tf.ones((B, S, H))


def scores():
    return tf.ones((B, A, S, S))


def vector():
    return tf.ones(H)


def seed():
    return tf.constant([3, -7], "int32")


def of_sum(*kept):
    return WRITTEN[elementwise.normalized_sum].backward(kept, [rows()], **NORM)[:5]


PROGRAMS = {
    "shares": (
        lambda *of: elementwise.signed_shares(*of, **DROPOUT),
        lambda: [scores(), tf.ones((B, 1, 1, S), "bool"), seed()],
    ),
    "embeddings": (
        lambda *of: elementwise.normalized_embeddings(*of, **NORM, dtype="float32"),
        lambda: [rows(), rows(), rows(), vector(), vector(), seed()],
    ),
    "sum": (
        lambda *of: elementwise.normalized_sum(*of, **NORM),
        lambda: [rows(), vector(), rows(), vector(), vector(), seed()],
    ),
    "gradient of the sum": (of_sum, lambda: [rows(), vector(), rows(), vector(), seed()]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_dropout_masks_are_no_constants(name):
    """TensorFlow makes a constant of all that depends on no argument."""
    formula, given = PROGRAMS[name]
    program = tf.function(formula, jit_compile=True)
    text = program.experimental_get_compiler_ir(*given())(stage="optimized_hlo")
    found = re.findall(r"\w+\[([\d,]*)\][^ ]* constant\(", text)
    assert found
    sizes = [math.prod(map(int, filter(None, shape.split(",")))) for shape in found]
    assert max(sizes) <= max(H, S, B * A * S) < min(COUNTS.values())


def test_compiled_loss_makes_no_tensor_as_large_as_the_logits():
    from kbert.model.parts import tensorflow_kit

    given = tf.ones((B, S, 99)), tf.zeros((B, S), "int32"), tf.ones((B, S))
    program = tf.function(tensorflow_kit.part(elementwise.measured), jit_compile=True)
    text = program.experimental_get_compiler_ir(*given)(stage="optimized_hlo")
    made = re.findall(r"= f32\[([\d,]+)\]\S* (\w[\w-]*)\(", text)
    views = ("parameter", "get-tuple-element")
    sizes = {math.prod(map(int, shape.split(","))) for shape, kind in made if kind not in views}
    assert S * 99 in sizes  # one example's
    assert B * S * 99 not in sizes


@pytest.mark.parametrize("shape", [(B, S), (B,)], ids=["labels of tokens", "a label a text"])
def test_sums_of_the_loss_equal_numpys(shape):
    from kbert.model.parts import tensorflow_kit

    random = np.random.default_rng(8)
    logits = random.standard_normal((*shape, 99)).astype("float32")
    labels = random.integers(0, 99, shape).astype("int32")
    labels.flat[0] = logits.reshape(-1, 99)[0].argmax()
    weights = random.random(shape).astype("float32")
    exponentials = np.exp(logits.astype("float64"))
    of_label = np.take_along_axis(exponentials, labels[..., None], -1)[..., 0]
    losses = np.log(exponentials.sum(-1) / of_label)
    hits = logits.argmax(-1) == labels
    expected = [(weights * one).sum() for one in (losses, hits, np.ones(shape))]
    found = tf.function(tensorflow_kit.part(elementwise.measured))(logits, labels, weights)
    assert expected[1] > 0
    np.testing.assert_allclose(found, expected, rtol=1e-5)
