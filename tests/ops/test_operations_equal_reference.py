"""Each operation computes the values and gradients of its definition in `kbert.ops.reference`."""

import keras
import numpy as np
import pytest
from helpers.gradients import TOLERANCES, compare_operations, to_tensor, values_and_gradients

from kbert import ops
from kbert.ops import reference
from kbert.ops.activations import activation

BATCH, LENGTH, QUERIES, HEADS, SIZE, INNER, TOKENS = 13, 7, 5, 3, 4, 11, 29
HIDDEN = HEADS * SIZE
SEED = np.array([3, 2**31 - 5], "int32")
random = np.random.default_rng(11)
INITIAL_STATE = random.bit_generator.state


@pytest.fixture(autouse=True)
def start_random_numbers_again():
    """A test's numbers are the same whichever tests ran before."""
    random.bit_generator.state = INITIAL_STATE


def floats(*shape):
    return random.standard_normal(shape).astype("float32")


def integers(high: int, *shape):
    return random.integers(0, high, shape).astype("int32")


def padding():
    """bool (B, 1, 1, S): the last tokens are padding; of one sequence all."""
    return (np.arange(LENGTH) < np.array([7, 4, 0, *[5] * 10])[:, None])[:, None, None]


def packing():
    """bool (B, 1, S, S): several texts per row; padding attends to nothing."""
    texts = np.sort(integers(3, BATCH, LENGTH))
    texts[:4, 5:] = 9
    return ((texts[:, :, None] == texts[:, None]) & (texts[:, None] < 9))[:, None]


def heads(queries: int = LENGTH) -> list:
    lengths = queries, LENGTH, LENGTH
    return [2 * floats(BATCH, HEADS, length, SIZE) for length in lengths]


def counted_labels() -> list:
    """Logits, labels and weights; one label does not count, and its logits are not finite."""
    logits, weights = floats(BATCH, LENGTH, TOKENS), random.random((BATCH, LENGTH))
    logits[1, 2, 5:8] = logits[1, 2].max() + 1  # three equal ones are the largest
    weights[0, :3] = 0
    logits[0, 0], logits[0, 1] = np.inf, np.nan
    labels = integers(TOKENS, BATCH, LENGTH)
    labels[1, 2] = 5
    return [logits, labels, weights.astype("float32")]


def project(ops, x, *weights):
    return ops.project_heads(x, weights[:3], weights[3:])


def attend(ops, query, key, value, mask=None, **dropout):
    return ops.attention(query, key, value, mask, **dropout)


def attend_to_itself(ops, x, mask, queries, *weights):
    return ops.self_attention(x, weights[:3], weights[3:], mask, queries=queries)


def look_up(ops, table, ids):
    return ops.embedding_lookup_and_table(table, ids, "float32")


def loss(ops, logits, labels, weights):
    return ops.cross_entropy(logits, labels, keras.ops.cast(weights, "float32"))[0]


def dense(name: str):
    return lambda ops, *given: ops.dense(*given, activation(name))


def bias_activation(name: str):
    return lambda ops, x, bias: ops.bias_activation(x, bias, activation(name))


KERNELS = [floats(HIDDEN, HEADS, SIZE) for _ in range(3)]
WEIGHTS = [*(one / 3 for one in KERNELS), *(floats(HEADS, SIZE) for _ in range(3))]
X = floats(BATCH, LENGTH, HIDDEN)
# operation: (function of a module of operations and arguments, arguments, which have gradients)
CASES = {
    "linear": (
        lambda ops, *given: ops.linear(*given),
        [X, floats(HIDDEN, INNER), floats(INNER)],
        [0, 1, 2],
    ),
    "linear without bias": (
        lambda ops, *given: ops.linear(*given),
        [X, floats(HIDDEN, INNER)],
        [0, 1],
    ),
    "project_heads": (
        project,
        [X, *KERNELS, *(floats(HEADS, SIZE) for _ in range(3))],
        list(range(7)),
    ),
    "project_heads without biases": (project, [X, *KERNELS, None, None, None], [0, 1, 2, 3]),
    "self_attention": (
        attend_to_itself,
        [X, None, None, *WEIGHTS],
        [0, 3, 4, 5, 6, 8],  # the bias of keys has no gradient, only what rounding leaves
    ),
    "self_attention, few queries": (
        attend_to_itself,
        [X, None, floats(BATCH, QUERIES, HIDDEN), *WEIGHTS],
        [0, 2, 3, 4, 5, 6, 8],
    ),
    "attention": (attend, heads(), [0, 1, 2]),
    "attention, padding": (
        attend,
        [*heads(), padding()],
        [0, 1, 2],
    ),
    "attention, packing": (
        attend,
        [*heads(), packing()],
        [0, 1, 2],
    ),
    "attention, few queries": (
        attend,
        [*heads(QUERIES), padding()],
        [0, 1, 2],
    ),
    "attention_probs": (
        lambda ops, *given: ops.attention_probs(*given),
        [*heads()[:2], padding()],
        [0, 1],
    ),
    "dense": (dense("gelu"), [X, floats(HIDDEN, INNER), floats(INNER)], [0, 1, 2]),
    "dense gelu_new": (dense("gelu_new"), [X, floats(HIDDEN, INNER), floats(INNER)], [0, 1, 2]),
    "dense relu": (dense("relu"), [X, floats(HIDDEN, INNER), floats(INNER)], [0, 1, 2]),
    "bias and gelu": (bias_activation("gelu"), [X, floats(HIDDEN)], [0, 1]),
    "bias and gelu_new": (bias_activation("gelu_new"), [X, floats(HIDDEN)], [0, 1]),
    "bias and relu": (bias_activation("relu"), [X, floats(HIDDEN)], [0, 1]),
    "dropout at rate 0": (lambda ops, x: ops.dropout(x, 0.0, None), [X], [0]),
    "layer_norm": (
        # a large epsilon: one that is left out shows
        lambda ops, *given: ops.layer_norm(*given, 1e-2),
        [3 + X, floats(HIDDEN), floats(HIDDEN)],
        [0, 1, 2],
    ),
    "embedding_lookup": (
        lambda ops, *given: ops.embedding_lookup(*given),
        [floats(TOKENS, HIDDEN), integers(TOKENS, BATCH, LENGTH)],
        [0],
    ),
    "embedding_lookup of two rows": (
        lambda ops, *given: ops.embedding_lookup(*given),
        [floats(2, HIDDEN), integers(2, BATCH, LENGTH)],
        [0],
    ),
    "embedding_lookup_and_table": (
        look_up,
        [floats(TOKENS, HIDDEN), integers(TOKENS, BATCH, LENGTH)],
        [0],
    ),
    "embedding_lookup_and_table without the table": (
        lambda ops, *given: look_up(ops, *given)[0],
        [floats(TOKENS, HIDDEN), integers(TOKENS, BATCH, LENGTH)],
        [0],
    ),
    "embedding_lookup_and_table without the look-up": (
        lambda ops, *given: look_up(ops, *given)[1],
        [floats(TOKENS, HIDDEN), integers(TOKENS, BATCH, LENGTH)],
        [0],
    ),
    "tied_logits": (
        lambda ops, *given: ops.tied_logits(*given),
        [X, floats(TOKENS, HIDDEN), floats(TOKENS)],
        [0, 1, 2],
    ),
    "gather_positions": (
        lambda ops, *given: ops.gather_positions(*given),
        [X, integers(LENGTH, BATCH, QUERIES)],
        [0],
    ),
    "cross_entropy": (loss, counted_labels(), [0]),
}


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("case", CASES)
def test_operation_equals_reference(case, dtype, selected):
    function, arrays, positions = CASES[case]
    compare_operations(
        lambda *given: function(selected, *given),
        lambda *given: function(reference, *given),
        arrays,
        positions,
        dtype,
    )


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_query_that_attends_to_nothing_has_the_mean_of_the_values(dtype, selected):
    """And no gradient reaches it, or a key: the probabilities are equal whatever these are."""
    query, key, value = heads()
    mask = np.zeros((BATCH, 1, 1, LENGTH), "bool")
    (context,), gradients = values_and_gradients(
        lambda *given: attend(selected, *given), [query, key, value, mask], [0, 1, 2], dtype
    )
    expected = np.broadcast_to(value.mean(2).reshape(BATCH, 1, HIDDEN), context.shape)
    np.testing.assert_allclose(context, expected, atol=TOLERANCES[dtype])
    assert [one.any() for one in gradients] == [False, False, True]


def test_cross_entropy_sums_equal_reference(selected):
    """Hits and weights too; the first of equal logits is the prediction."""
    given = [to_tensor(one) for one in counted_labels()]
    found, expected = selected.cross_entropy(*given), reference.cross_entropy(*given)
    np.testing.assert_allclose(
        *(keras.ops.convert_to_numpy(one) for one in (found, expected)), rtol=1e-5
    )


# With dropout: the mask is read back, and the reference computes with it.


@pytest.mark.full
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("mask", [None, padding(), packing()], ids=["all", "padding", "packing"])
def test_attention_with_dropout_equals_reference_with_its_mask(mask, dtype, selected):
    rate = 0.4
    query, key, value = heads()
    keep, scale = mask_of_attention(selected, rate)

    def expected(query, key, value, mask):
        probs = reference.attention_probs(query, key, mask)
        probs = keras.ops.where(keep, probs * keras.ops.cast(scale, probs.dtype), 0.0)
        context = keras.ops.matmul(keras.ops.cast(probs, value.dtype), value)
        context = keras.ops.transpose(context, (0, 2, 1, 3))
        return keras.ops.reshape(context, (BATCH, LENGTH, HIDDEN))

    def found(*given):
        return attend(selected, *given, rate=rate, seed=to_tensor(SEED))

    compare_operations(found, expected, [query, key, value, mask], [0, 1, 2], dtype)


def mask_of_attention(selected, rate: float) -> tuple:
    """Return bool (B, A, S, S), and the scale: equal probabilities times the identity."""
    zeros = np.zeros((BATCH, HEADS, LENGTH, LENGTH), "float32")
    identity = zeros + np.eye(LENGTH, dtype="float32")
    given = [to_tensor(one) for one in (zeros, zeros, identity)]
    context = selected.attention(*given, rate=rate, seed=to_tensor(SEED))
    probs = keras.ops.convert_to_numpy(context).reshape(BATCH, LENGTH, HEADS, LENGTH)
    probs = LENGTH * probs.transpose(0, 2, 1, 3)
    assert 0.5 < (probs > 0).mean() < 0.7
    return probs > 0, probs.max()


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_dropout_gradient_has_the_mask_of_the_values(dtype, selected):
    rate = 0.4
    ones = selected.dropout(to_tensor(np.ones_like(X)), rate, to_tensor(SEED))
    mask = keras.ops.convert_to_numpy(ones)
    compare_operations(
        lambda x: selected.dropout(x, rate, to_tensor(SEED)),
        lambda x: x * keras.ops.cast(mask, x.dtype),
        [X],
        [0],
        dtype,
    )


def test_every_operation_is_compared():
    """A new operation of the reference needs a case here."""
    public = {
        name
        for name, one in vars(reference).items()
        if getattr(one, "__module__", "") == reference.__name__ and not name.startswith("_")
    }
    compared = {case.split(",")[0].split(" ")[0] for case in CASES} - {"bias"}
    assert public == compared | {"bias_activation", "keep_mask", "keep_at"}
    assert all(hasattr(ops, name) for name in public - {"keep_at"})  # a part of `keep_mask`
