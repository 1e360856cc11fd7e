"""The accounting equals what transformers, torch's FLOP counter and Keras count."""

import math

import pytest
from helpers.peer_graph import BATCH, HEADS, LABELS, LENGTH, PREDICTIONS
from helpers.sizes import ODD

from kbert import BertConfig, account
from kbert.graph.accounting import DTYPES


@pytest.fixture(params=["odd", "one block"])
def counted(request, peers):
    """A configuration, and what transformers and torch count of it."""
    return BertConfig(**peers["sizes"][request.param]), peers["counts"][request.param]


@pytest.mark.parametrize("head", HEADS)
def test_total_parameters_equal_transformers(head, counted):
    config, theirs = counted
    assert account(config, head=head, num_labels=LABELS).params == theirs["params"][head]


@pytest.mark.parametrize("head", HEADS)
def test_forward_flops_equal_torchs_count(head, counted):
    config, theirs = counted
    found = account(config, LENGTH, BATCH, head=head, num_labels=LABELS).flops
    assert found == theirs["flops"][head]


def test_flops_of_each_group_equal_torchs_count(counted):
    config, theirs = counted
    groups = account(config, LENGTH, BATCH).groups
    assert {name: group.flops for name, group in groups.items()} == theirs["groups"]


def test_training_flops_equal_torchs_count(counted):
    config, theirs = counted
    found = account(config, LENGTH, BATCH).training_flops_per_sequence
    assert found * BATCH == theirs["training"]


def test_flops_of_a_gathered_head_equal_torchs_count(counted):
    config, theirs = counted
    full = account(config, LENGTH, BATCH, max_predictions=PREDICTIONS)
    assert full.flops == theirs["gathered"]
    assert full.params == account(config).params


@pytest.fixture
def dtype_policy(request):
    import keras

    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(request.param)
    yield request.param
    keras.config.set_dtype_policy(before)


@pytest.mark.parametrize("dtype_policy", DTYPES, indirect=True)
def test_memory_equals_keras_variables_in_bytes(dtype_policy):
    """A built model's weights and Adam's moments, in bytes, under each of Keras's policies."""
    import keras

    from kbert import build_bert

    def size(variables) -> int:
        bits = {"float32": 32, "bfloat16": 16, "float16": 16}
        return sum(math.prod(v.shape) * bits[v.dtype] // 8 for v in variables)

    model = build_bert(BertConfig(**ODD))
    adam = keras.optimizers.Adam()
    adam.build(model.trainable_variables)
    moments = [v for v in adam.variables if v.path.endswith(("momentum", "velocity"))]
    memory = account(BertConfig(**ODD), dtype=dtype_policy).memory
    assert len(moments) == 2 * len(model.trainable_variables)
    assert memory.weights == memory.gradients == size(model.trainable_variables)
    assert memory.adam == size(moments)
    compute = model.get_layer("Encoder-1-FeedForward").compute_dtype
    assert DTYPES[dtype_policy][3] == {"float32": 4, "bfloat16": 2, "float16": 2}[compute]
