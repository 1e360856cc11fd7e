"""TensorFlow's step computes gradients in an order that keeps less in memory at a time."""

import numpy as np
import pytest

import kbert
from kbert.graph.spec import GraphSpec
from kbert.model.builder import build
from kbert.training import engines
from kbert.training.optimizers import Optimizer
from kbert.training.trained_weights import TrainedWeights

tf = pytest.importorskip("tensorflow")
SMALL = {"vocab_size": 99, "hidden_size": 24, "num_attention_heads": 4, "intermediate_size": 40}


def gradients_in(dtype, transposed):
    """A function of x (13, 7) and y (99, 7), or (7, 99), both float32: the gradients of their
    product, squared."""
    from kbert.model.parts import tensorflow_ordered_kit

    @tf.function
    def gradients(x, y):
        x, y = tf.cast(x, dtype), tf.cast(y, dtype)
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            product = tensorflow_ordered_kit.matmul(x, y, transposed)
        return tape.gradient(product, [x, y], output_gradients=2 * product)

    return gradients


def factors(transposed):
    random = np.random.default_rng(3)
    # whole numbers, which bfloat16 has exactly
    shapes = (13, 7), (99, 7) if transposed else (7, 99)
    return [random.integers(-2, 3, shape).astype("float32") for shape in shapes]


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_matmul_gradients_equal_numpy(dtype, transposed):
    x, y = factors(transposed)
    of_x, of_y = gradients_in(dtype, transposed)(x, y)
    tolerance = {"float32": 1e-6, "bfloat16": 2**-7}[dtype]
    right = y.T if transposed else y
    of_right = 2 * x.T @ (x @ right)
    expected = 2 * (x @ right) @ right.T, of_right.T if transposed else of_right
    for found, wanted in zip((of_x, of_y), expected, strict=True):
        assert found.dtype == dtype
        scale = np.abs(wanted).max()
        np.testing.assert_allclose(
            tf.cast(found, "float32") / scale, wanted / scale, atol=tolerance
        )


def products_in(dtype, transposed):
    """The graph's products, by their shapes, and all of its operations."""
    given = map(tf.constant, factors(transposed))
    graph = gradients_in(dtype, transposed).get_concrete_function(*given).graph
    every = graph.get_operations()
    return {tuple(op.outputs[0].shape): op for op in every if "MatMul" in op.type}, every


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_kernel_gradient_is_computed_before_input_gradient(dtype):
    """What the kernel's alone needs is gone then: of the feed-forward part its widest tensor."""
    products, _ = products_in(dtype, transposed=False)
    assert products[7, 99] in products[13, 7].control_inputs


def test_table_gradient_waits_for_input_gradient():
    products, every = products_in("bfloat16", transposed=True)
    of_x, of_y = products[13, 7], products[99, 7]
    assert of_x in of_y.control_inputs
    waits = [op for op in every if of_y in op.control_inputs]
    assert [op.inputs[0].op for op in waits] == [of_x]


def test_frozen_kernel_has_no_gradient():
    """Freezing saves that product."""
    kits = []
    for frozen in (0, 5):
        engine = engines.start()
        config = kbert.BertConfig(**SMALL, num_hidden_layers=1)
        with engine.scope():
            model = build(GraphSpec.of(config, "classifier", seq_len=11))
        weights = model.trainable_variables
        trained = weights[frozen:]
        engine.prepare(
            model, Optimizer(), TrainedWeights(trained, [1.0] * len(trained), weights[:frozen])
        )
        kits.append(engine.kit.__name__.rpartition(".")[2])
    assert kits == ["tensorflow_ordered_kit", "tensorflow_kit"]


def test_attention_dropout_is_recomputed_in_backward():
    """TensorFlow computes the same of the same tensor once, and keeps it."""
    from kbert.model.parts import tensorflow_kit

    heads, mask = (3, 2, 5, 4), tf.ones((3, 1, 1, 5), "bool")

    @tf.function
    def gradients(*given):
        with tf.GradientTape() as tape:
            tape.watch(given)
            context = tensorflow_kit.attended(0.1)(*given, mask, tf.constant([1, 2]))
        of_context = tf.identity(2 * context, name="of_context")
        return tape.gradient(context, given, of_context)

    graph = gradients.get_concrete_function(*(tf.ones(heads) for _ in range(3))).graph
    calls = [op for op in graph.get_operations() if op.type == "PartitionedCall"]
    scores = [
        op for op in calls if {str(one.shape) for one in op.inputs} == {"(3, 2, 5, 5)"}
    ]  # of the signed shares alone
    first, again = scores
    assert first.get_attr("f").name == again.get_attr("f").name
    assert [op.name for op in again.inputs[0].op.control_inputs] == ["of_context"]
    assert not first.inputs[0].op.control_inputs


def test_small_weights_are_joined_after_gradients():
    from kbert.model.parts import joined_weights

    sizes = [(2, 3), (7,), (5,)]
    states = [[tf.Variable(tf.ones(size)) for size in sizes] for _ in range(3)]

    @tf.function
    def step(*gradients):
        def moments(first, second, gradient):
            return first + gradient, second + gradient * gradient

        joined_weights.move(states, gradients, moments, lambda weight, first, _: weight - first)

    graph = step.get_concrete_function(*map(tf.ones, sizes)).graph
    of_gradients, *of_states = (op for op in graph.get_operations() if op.type == "ConcatV2")
    assert len(of_states) == 3
    reads = [source(one.op) for op in of_states for one in op.inputs[:-1]]
    assert {op.type for op in reads} == {"ReadVariableOp"} and len(reads) == 9
    assert all(of_gradients in op.control_inputs for op in reads)


def source(op):
    """Before identities and reshapes."""
    return source(op.inputs[0].op) if op.type in ("Identity", "Reshape") else op


def test_matrices_are_not_joined():
    """All of them at once, with their moments, would be as much again as the model."""
    from kbert.model.parts import joined_weights

    small, large = tf.zeros(3072), tf.zeros((256, 1024))
    assert joined_weights.is_small(small) and not joined_weights.is_small(large)
