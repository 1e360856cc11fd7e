"""The tied table's gradient in bfloat16 on TensorFlow: NumPy's, and after the table is gone."""

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")


def gradients_in(dtype):
    """A function of x (13, 7) and y (99, 7), both float32: the gradients of x yᵀ, squared."""
    from kbert.model.parts import tensorflow_kit

    @tf.function
    def gradients(x, y):
        x, y = tf.cast(x, dtype), tf.cast(y, dtype)
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            product = tensorflow_kit.matmul(x, y, transposed=True)
        return tape.gradient(product, [x, y], output_gradients=2 * product)

    return gradients


@pytest.fixture
def factors():
    random = np.random.default_rng(3)
    # whole numbers, which bfloat16 has exactly
    return [random.integers(-2, 3, shape).astype("float32") for shape in ((13, 7), (99, 7))]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_it_is_that_of_numpy(factors, dtype):
    x, y = factors
    of_x, of_y = gradients_in(dtype)(x, y)
    tolerance = {"float32": 1e-6, "bfloat16": 2**-7}[dtype]
    for found, expected in ((of_x, 2 * (x @ y.T) @ y), (of_y, 2 * (x @ y.T).T @ x)):
        assert found.dtype == dtype
        scale = np.abs(expected).max()
        np.testing.assert_allclose(
            tf.cast(found, "float32") / scale, expected / scale, atol=tolerance
        )


def test_nothing_else_is_computed_while_table_and_gradient_are_both_there(factors):
    graph = gradients_in("bfloat16").get_concrete_function(*map(tf.constant, factors)).graph
    products = {
        str(op.outputs[0].shape): op for op in graph.get_operations() if "MatMul" in op.type
    }
    of_x, of_y = products["(13, 7)"], products["(99, 7)"]
    assert of_x in of_y.control_inputs
    waits = [op for op in graph.get_operations() if of_y in op.control_inputs]
    assert [op.inputs[0].op for op in waits] == [of_x]
