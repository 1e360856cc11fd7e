"""Frozen layers and LoRA change the counts of parameters, FLOPs and memory as derived by hand."""

import re

import pytest
from helpers.errors import raises
from helpers.sizes import BATCH, LENGTH, SIZES

import kbert
from kbert.graph.accounting import account
from kbert.graph.config import BertConfig
from kbert.graph.spec import GraphSpec
from kbert.graph.trained_parts import MATRICES, learning_rate_factors, trained_parts
from kbert.heads import HEADS

SMALL = BertConfig(**SIZES)  # H 24, FFD 40, 3 blocks, 4 heads
H, F = 24, 40
BLOCK = 4 * (H * H + H) + H * F + F + F * H + H + 4 * H
EMBEDDINGS = (99 + 3 + 17) * H + 2 * H
POOLER, HEAD = H * H + H, 5 * H + 5


def counted(**options):
    return account(SMALL, LENGTH, BATCH, head="classifier", num_labels=5, **options)


@pytest.mark.parametrize(
    ("freeze", "left"),
    [
        ("embeddings", 3 * BLOCK + POOLER + HEAD),
        ("embeddings,1-2", BLOCK + POOLER + HEAD),
        (" 2 , embeddings", 2 * BLOCK + POOLER + HEAD),
        ("encoder,embeddings,pooler", HEAD),
        ("1,3,head", EMBEDDINGS + BLOCK + POOLER),
        ("1-3", EMBEDDINGS + POOLER + HEAD),
    ],
)
def test_frozen_parts_have_no_gradients_and_no_moments(freeze, left):
    found = counted(freeze=freeze)
    assert found.trainable_params == left
    memory = found.memory
    held = EMBEDDINGS + 3 * BLOCK + POOLER + HEAD
    assert (memory.weights, memory.gradients, memory.adam) == (4 * held, 4 * left, 8 * left)


def test_lora_parameters_are_rank_times_both_sides():
    sides = {"query": 2 * H, "key": 2 * H, "value": 2 * H, "attention_output": 2 * H}
    sides |= {"intermediate": H + F, "output": F + H}
    assert set(sides) == set(MATRICES)
    for name, side in sides.items():
        found = counted(lora_rank=7, lora_targets=name)
        assert found.trainable_params == 3 * 7 * side + HEAD
        assert found.memory.weights == 4 * (found.params + 3 * 7 * side)
    last = counted(lora_rank=7, lora_targets="query,output", freeze="1-2")
    assert last.trainable_params == 7 * (2 * H + F + H) + HEAD


def test_lora_rank_8_on_a_matrix_of_base_has_12288_parameters():
    """12,288 of a 768 × 768 matrix at rank 8, where Keras's enable_lora has 74,240."""
    (one,) = trained_parts(GraphSpec(kbert.base, "qa"), "1-11", 8, "query").adapted
    assert 8 * (one.inputs + one.outputs) == 12_288


def test_layer_decay_equals_electras_code():
    """google-research/electra, model/optimization.py, _get_layer_lrs."""
    layers, decay, rate = 3, 0.9, 1e-4
    depths = {"/embeddings/": 0, "task_specific/": layers + 2}
    depths |= {f"encoder/layer_{layer}/": layer + 1 for layer in range(layers)}
    theirs = {key: rate * decay ** (layers + 2 - depth) for key, depth in depths.items()}
    ours = learning_rate_factors(GraphSpec(SMALL, "classifier"), decay)
    for layer in range(layers):
        for part in ("MultiHeadSelfAttention", "FeedForward-Norm"):
            found = rate * ours[f"Encoder-{layer + 1}-{part}"]
            assert found == pytest.approx(theirs[f"encoder/layer_{layer}/"])
    assert rate * ours["Embedding-Position"] == pytest.approx(theirs["/embeddings/"])
    assert rate * ours["Classifier"] == pytest.approx(theirs["task_specific/"])
    assert ours["NSP-Dense"] == pytest.approx(decay)  # the pooler, which ELECTRA has not
    assert learning_rate_factors(GraphSpec(SMALL, "qa"), decay, head_share=7.0)["Span"] == 7.0


def test_training_flops_without_freezing_are_3_times_forward():
    import dataclasses

    for head in HEADS:
        whole = account(SMALL, LENGTH, BATCH, head=head)
        parts = trained_parts(GraphSpec(SMALL, head))
        assert dataclasses.replace(whole, trained=parts).training_flops == 3 * whole.flops
        assert dataclasses.replace(whole, trained=parts).memory == whole.memory


def test_flops_if_only_the_last_block_is_trained():
    """Forward everywhere; backwards all products of the last block but those of its input."""
    rows, n = BATCH * LENGTH, 24
    square, inner = 2 * rows * n * n, 2 * rows * n * F
    scores = 4 * BATCH * LENGTH * LENGTH * n
    forward = 3 * (4 * square + scores + 2 * inner)
    block = 3 * square + 2 * scores + 2 * square + 2 * inner + 2 * inner
    head = 3 * (2 * BATCH * n * n + 2 * BATCH * n * 5)
    found = counted(freeze="embeddings,1-2")
    assert found.training_flops == forward + block + head
    # the pooler's input needs a gradient, its matrix none
    frozen = counted(freeze="embeddings,1-2,pooler")
    assert found.training_flops - frozen.training_flops == 2 * BATCH * n * n
    adapted = counted(freeze="1-2", lora_rank=5, lora_targets="attention_output")
    last = 2 * inner  # the gradients of what is read from W; its own input needs none
    product = 2 * rows * 5 * (2 * n + 3 * n)  # A's product and gradient; B's, and its input's
    head -= 2 * BATCH * n * n  # the pooler is frozen
    assert adapted.training_flops == forward + last + head + product


def test_layers_below_trained_ones_keep_no_activations():
    whole, top = counted(), counted(freeze="embeddings,1-2")
    block = whole.groups["encoder"].activation_bytes // 3
    rest = sum(whole.groups[name].activation_bytes for name in ("pooler", "classifier"))
    assert top.memory.activations == block + rest
    inner = 3 * 2 * BATCH * LENGTH * 5 * 4  # between A and B of two matrices a block
    lowest = whole.activation_bytes - whole.groups["embeddings"].activation_bytes
    assert counted(lora_rank=5).memory.activations == lowest + inner


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"freeze": "1-13"}, ("freeze", "1 … 3", "13")),
        ({"freeze": "0"}, ("freeze", "embeddings", "encoder", "'0'")),
        ({"freeze": "3-1"}, ("freeze", "'3-1'")),
        ({"freeze": "embeddings,,2"}, ("freeze", "'embeddings,,2'")),
        (
            {"freeze": "embeddings,encoder,pooler,head"},
            ("freeze", "whole model"),
        ),
        (
            {"lora_rank": 4, "freeze": "encoder"},
            ("freeze", "lora_rank", "'encoder'"),
        ),
        (
            {"lora_rank": 25},
            ("lora_rank", "at most 24", "query", "24 × 24", "25"),
        ),
        (
            {"lora_rank": 25, "lora_targets": "output"},
            ("lora_rank", "output", "40 × 24", "25"),
        ),
        (
            {"lora_rank": 0},
            ("lora_rank", "0"),
        ),
        (
            {"lora_rank": 2, "lora_targets": "query,dense"},
            ("lora_targets", "'query,dense'"),
        ),
    ],
)
def test_invalid_freeze_or_lora_gives_one_line(options, said):
    with raises(ValueError, *said) as error:
        counted(**options)
    assert "\n" not in str(error.value)


def test_freezing_a_missing_pooler_is_refused():
    with raises(ValueError, "'pooler'", "tokens"):
        account(SMALL, head="tokens", freeze="pooler")


def test_summary_shows_trainable_parameters(small, capsys):
    model = kbert.build_classifier(small, num_labels=5)
    model.summary(freeze="1-2", lora_rank=7)
    text = capsys.readouterr().out
    found = counted(freeze="1-2", lora_rank=7)
    assert f"Trainable params: {found.trainable_params:,}\n" in text
    total = found.params + found.trained.adapter_params
    assert f"Total params: {total:,}\nTrainable" in text and total > found.params
    marks = {line.split()[0]: line.split()[-1] for line in text.splitlines() if line.split()}
    assert (marks["Encoder-3-MultiHeadSelfAttention"], marks["Encoder-2-FeedForward"]) == (
        *("LoRA", "N"),
    )
    assert (marks["Classifier"], marks["Embedding-Dropout"]) == ("Y", "-")
    with raises(ValueError, "freeze", "1 … 3", "got 4"):
        model.summary(freeze="4")


def test_commands_show_trainable_parameters_without_keras(run_python):
    code = """
import sys
from kbert.cli.main import cli
for command in ("summary", "account"):
    cli([command, "tiny", "--head", "classifier", "--lora-rank", "8"], standalone_mode=False)
print("keras" in sys.modules)
"""
    text = run_python(code).stdout
    params = 2 * 2 * 8 * 2 * 128 + 128 * 2 + 2
    assert f"Trainable params: {params:,}" in text and text.endswith("False\n")
    assert re.search(rf"^{params:,} of [0-9,]+ parameters are trained", text, re.MULTILINE)
