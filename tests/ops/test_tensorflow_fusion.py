"""TensorFlow makes one oneDNN operation of `dense`, on processors for which it has one."""

from pathlib import Path

import keras
import numpy as np
import pytest

if keras.backend.backend() != "tensorflow":
    pytest.skip("TensorFlow's alone", allow_module_level=True)

import tensorflow as tf

from kbert.ops import tensorflow as operations
from kbert.ops.activations import activation

CPUINFO = Path("/proc/cpuinfo")
MULTIPLIES_BFLOAT16 = CPUINFO.exists() and "avx512_bf16" in CPUINFO.read_text()


@pytest.mark.skipif(not MULTIPLIES_BFLOAT16, reason="a processor without bfloat16")
@pytest.mark.parametrize("hidden_act", ["gelu", "gelu_new"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_dense_is_one_operation(hidden_act, dtype):
    graph, metadata = tf.Graph(), tf.compat.v1.RunMetadata()
    with graph.as_default():
        x = tf.compat.v1.placeholder(dtype, (None, None, 16))
        kernel, bias = (tf.compat.v1.placeholder(dtype, shape) for shape in ((16, 32), (32,)))
        y = operations.dense(x, kernel, bias, activation(hidden_act))
    options = tf.compat.v1.RunOptions(output_partition_graphs=True)
    shapes = [(x, (13, 7, 16)), (kernel, (16, 32)), (bias, (32,))]
    fed = {tensor.name: np.ones(shape) for tensor, shape in shapes}
    with tf.compat.v1.Session(graph=graph) as session:
        session.run(y, fed, options=options, run_metadata=metadata)
    run = [node.op for part in metadata.partition_graphs for node in part.node]
    assert run.count("_MklNativeFusedMatMul") == 1
    assert not {"Erf", "Erfc", "Tanh", "Pow", "BiasAdd"} & set(run)
