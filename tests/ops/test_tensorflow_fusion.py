"""TensorFlow makes one oneDNN operation of `dense` and of `layer_norm`, where oneDNN has them."""

from pathlib import Path

import keras
import numpy as np
import pytest

if keras.backend.backend() != "tensorflow":
    pytest.skip("TensorFlow's alone", allow_module_level=True)

import tensorflow as tf
import torch

from kbert.ops import tensorflow as operations
from kbert.ops.activations import activation

CPUINFO = Path("/proc/cpuinfo")
MULTIPLIES_BFLOAT16 = CPUINFO.exists() and "avx512_bf16" in CPUINFO.read_text()


needs_bfloat16 = pytest.mark.skipif(not MULTIPLIES_BFLOAT16, reason="a processor without bfloat16")


def run_graph(build, arrays: list, dtype: str) -> tuple[np.ndarray, list[str]]:
    """Return the result of a graph, and the operations that it was run with."""
    graph, metadata = tf.Graph(), tf.compat.v1.RunMetadata()
    with graph.as_default():
        tensors = []
        for array in arrays:
            shape = [None] * (array.ndim - 1) + [array.shape[-1]]
            tensors.append(tf.compat.v1.placeholder(dtype, shape))
        y = tf.cast(build(*tensors), "float32")
    options = tf.compat.v1.RunOptions(output_partition_graphs=True)
    fed = {tensor.name: array for tensor, array in zip(tensors, arrays, strict=True)}
    with tf.compat.v1.Session(graph=graph) as session:
        result = session.run(y, fed, options=options, run_metadata=metadata)
    run = [node.op for part in metadata.partition_graphs for node in part.node]
    return result, run


@needs_bfloat16
@pytest.mark.parametrize("hidden_act", ["gelu", "gelu_new"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_dense_is_one_operation(hidden_act, dtype):
    arrays = [np.ones((13, 7, 16)), np.ones((16, 32)), np.ones(32)]
    _, run = run_graph(
        lambda *tensors: operations.dense(*tensors, activation(hidden_act)), arrays, dtype
    )
    assert run.count("_MklNativeFusedMatMul") == 1
    assert not {"Erf", "Erfc", "Tanh", "Pow", "BiasAdd"} & set(run)


@pytest.mark.parametrize("epsilon", [1e-12, 0.1])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_layer_norm_of_a_forward_pass_equals_torchs(dtype, epsilon):
    random = np.random.default_rng(5)
    arrays = [random.normal(2, 0.5, (13, 7, 99)), random.normal(size=99), random.normal(size=99)]

    def normalize(*tensors):
        with operations.forward_only():
            return operations.layer_norm(*tensors, epsilon)

    result, run = run_graph(normalize, arrays, dtype)
    rounded = [torch.tensor(array).to(getattr(torch, dtype)).float() for array in arrays]
    expected = torch.nn.functional.layer_norm(rounded[0], (99,), *rounded[1:], epsilon).numpy()
    tolerance = {"float32": 5e-6, "bfloat16": 2**-8}[dtype]
    np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)
    if MULTIPLIES_BFLOAT16:
        assert "_MklLayerNorm" in run and not {"Mean", "Rsqrt", "FusedBatchNormV3"} & set(run)


def test_exported_graphs_have_no_operation_of_onednn():
    """Without `forward_only`: a program elsewhere may have no kernel for it, or a slow one."""
    _, run = run_graph(
        lambda *tensors: operations.layer_norm(*tensors, 1e-12),
        [np.ones((3, 5))] + [np.ones(5)] * 2,
        "float32",
    )
    assert not {"_MklLayerNorm", "FusedBatchNormV3"} & set(run)
