"""The encoder of a model on TensorFlow on a CPU, in the words that oneDNN has an operation for.

TensorFlow replaces a product with its bias and GELU, scores with their scale and mask, and a whole
LayerNorm, by one operation of oneDNN each, where they are written as here and kernels are
constants of the graph (its remapper). In these, softmax and LayerNorm compute in float32, whatever
they are given. All shapes are free: nothing is compiled for a length.

The blocks run in a session of their own, whose graph is rewritten by the remapper and by
those that bring GELU into the form that it knows: the others copy all constants, again and again.

Dimensions at line end: B batch, S sequence, H hidden size, A heads, D = H/A, F feed-forward size,
N = B·S.
"""

import functools
import math
from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from kbert.graph import names
from kbert.model.layers import gelu, gelu_tanh
from kbert.model.made_of_states import made_of
from kbert.model.parts import layer_types
from kbert.model.told_by_layers import ids_of

_EPSILON = 1e-3  # the one that TensorFlow's fused LayerNorm has
_FLAGS = ("avx512_bf16", "amx_bf16")  # of processors that multiply bfloat16
_LEFT_OUT = (  # of TensorFlow's rewriter_config.proto; they are on otherwise
    "dependency_optimization",
    "function_optimization",
    "implementation_selector",
    "layout_optimizer",
    "loop_optimization",
    "scoped_allocator_optimization",
    "shape_optimization",
)
_ACTIVATIONS = {gelu: lambda x: tf.nn.gelu(x, False), gelu_tanh: lambda x: tf.nn.gelu(x, True)}


def is_fast_here() -> bool:
    """Return whether TensorFlow runs on a CPU with bfloat16 multiplication; known on Linux."""
    return _multiplies_bfloat16() and not tf.config.list_logical_devices("GPU")


@functools.cache
def _multiplies_bfloat16() -> bool:
    cpuinfo = Path("/proc/cpuinfo")
    return cpuinfo.exists() and any(flag in cpuinfo.read_text() for flag in _FLAGS)


def fused(model: keras.Model, view: keras.Model) -> Callable:
    """Return a function of int32 ids (B, S) and segments that gives what `view` does.

    Args:
        model: from `kbert.model.builder`; its weights become constants.
        view: a model whose outputs are made of the hidden states of `model`.

    Returns:
        A function of NumPy arrays; its outputs are a list of arrays.
    """
    count = layer_types.blocks(model)
    blocks = [_Block(model, number) for number in range(1, count + 1)]
    states = [model.get_layer(names.encoder_output(n)).output for n in range(count + 1)]
    inputs = ids_of(model)
    embeddings, heads = keras.Model(inputs, states[0]), made_of(states, view.outputs)
    padding = model.get_layer(names.TOKEN_EMBEDDING).compute_mask

    def embedded(ids, segment_ids):
        mask, _ = padding(ids)
        x = embeddings([ids, segment_ids][: len(inputs)], training=False)
        least = tf.where(mask, tf.zeros((), x.dtype), x.dtype.min)[:, None, None]  # (B, 1, 1, S)
        return tf.reshape(x, [-1, x.shape[-1]]), least, mask  # (N, H)

    def finished(found, mask):
        shape = [*tf.unstack(tf.shape(mask)), found[0].shape[-1]]
        return heads([tf.reshape(x, shape) for x in found], mask)

    any_ids, dtype = tf.TensorSpec((None, None), "int32"), states[0].dtype
    begin = _traced(embedded, any_ids, any_ids)
    states_of = _in_session(blocks, states[0].shape[-1], dtype)
    state = tf.TensorSpec((None, states[0].shape[-1]), dtype)
    end = _traced(finished, [state] * len(states), tf.TensorSpec((None, None), "bool"))

    def call(ids, segment_ids):
        x, least, mask = begin(tf.constant(ids), tf.constant(segment_ids))
        found = [x, *map(tf.constant, states_of(x.numpy(), least.numpy()))]
        return [output.numpy() for output in end(found, mask)]

    return call


def _traced(function: Callable, *signature) -> Callable:
    """Trace a concrete function: TensorFlow warns of retracing if a process opens five models."""
    traced = tf.function(function, input_signature=signature, autograph=False)
    return traced.get_concrete_function()


def _in_session(blocks: list, width: int, dtype: str) -> Callable:
    """Return a function of arrays (N, H) and (B, 1, 1, S): the output of each block."""
    graph = tf.Graph()
    with graph.as_default():
        x = tf.compat.v1.placeholder(dtype, (None, width))
        least = tf.compat.v1.placeholder(dtype, (None, 1, 1, None))
        found = [x]
        for block in blocks:
            found.append(block(found[-1], least))
    session = tf.compat.v1.Session(graph=graph, config=_few_rewrites())
    return session.make_callable(found[1:], [x, least])


def _few_rewrites():
    kind = type(tf.compat.v1.GraphOptions().rewrite_options)  # no public name has it
    rewrites = kind(
        remapping=kind.ON,
        meta_optimizer_iterations=kind.TWO,
        memory_optimization=kind.NO_MEM_OPT,
        **dict.fromkeys(_LEFT_OUT, kind.OFF),
    )
    nothing_folded = tf.compat.v1.OptimizerOptions(opt_level=-1)
    options = tf.compat.v1.GraphOptions(optimizer_options=nothing_folded, rewrite_options=rewrites)
    return tf.compat.v1.ConfigProto(graph_options=options)


class _Block:
    """Encoder block `number`, counted from 1."""

    def __init__(self, model, number: int):
        def layer(*part):
            return model.get_layer(names.encoder(number, *part))

        attention, feed_forward = layer(names.ATTENTION), layer(names.FEED_FORWARD)
        self._heads, self._size = attention.num_heads, attention.key_dim
        width = self._heads * self._size
        into = attention.query_dense, attention.key_dense, attention.value_dense
        self._into = (
            np.concatenate([_array(one.kernel).reshape(-1, width) for one in into], 1),
            np.concatenate([_array(one.bias).reshape(-1) for one in into]),
        )
        kernel, bias = _arrays(attention.output_dense)
        self._out = kernel.reshape(width, -1), bias
        self._inner = _arrays(feed_forward.intermediate_dense)
        self._outer = _arrays(feed_forward.output_dense)
        activation = feed_forward.intermediate_dense.activation
        self._activation = _ACTIVATIONS.get(activation, activation)
        self._norms = [
            _norm_of(layer(part, "Norm")) for part in (names.ATTENTION, names.FEED_FORWARD)
        ]

    def __call__(self, x, least):
        """Return (N, H) of x (N, H) and what is added to the scores, (B, 1, 1, S)."""
        x = self._norms[0](x + self._attended(x, least))
        y = self._activation(_product(x, *self._inner))  # (N, F)
        return self._norms[1](x + _product(y, *self._outer))

    def _attended(self, x, least):
        batch, length = tf.shape(least)[0], tf.shape(least)[-1]
        parts = tf.reshape(_product(x, *self._into), [batch, length, 3, self._heads, self._size])
        query, key, value = tf.unstack(tf.transpose(parts, [2, 0, 3, 1, 4]))  # (B, A, S, D) each
        scores = tf.matmul(query, key, transpose_b=True) * self._size**-0.5 + least
        context = tf.matmul(tf.nn.softmax(scores), value)  # (B, A, S, D)
        context = tf.reshape(tf.transpose(context, [0, 2, 1, 3]), [-1, self._heads * self._size])
        return _product(context, *self._out)


def _norm_of(layer) -> Callable:
    """LayerNorm (N, H) -> (N, H), as the remapper's third pattern has it.

    TensorFlow 2.21 replaces it by an operation whose epsilon is always 0.001. So that is the one
    here, of c·x: LayerNorm of x with the epsilon 0.001/c², replaced or not.
    """
    gamma, beta = _array(layer.gamma), _array(layer.beta)

    def norm(x):
        x = x * _factor(layer.epsilon, x.dtype)
        mean = tf.reduce_mean(x, [1], keepdims=True)
        variance = tf.reduce_mean(tf.math.squared_difference(x, mean), [1], keepdims=True)
        scale = tf.math.rsqrt(variance + tf.constant(_EPSILON, x.dtype)) * gamma
        return x * scale + (beta - mean * scale)

    return norm


def _factor(epsilon: float, dtype):
    """c, in bfloat16 a power of two, which rounds nothing; an epsilon half as large is not seen."""
    factor = (_EPSILON / max(epsilon, 1e-15)) ** 0.5
    return tf.constant(factor if dtype == tf.float32 else 2.0 ** round(math.log2(factor)), dtype)


def _product(x, kernel, bias):
    return tf.nn.bias_add(tf.matmul(x, kernel), bias)


def _arrays(dense) -> tuple[np.ndarray, np.ndarray]:
    return _array(dense.kernel), _array(dense.bias)


def _array(variable) -> np.ndarray:
    """Return a variable's value: used in a graph it is a constant, which oneDNN lays out once."""
    return tf.convert_to_tensor(variable).numpy()
