"""Frozen parts, adapters, their dropout and rates: what a step computes, keeps and changes."""

import functools

import numpy as np
import pytest
from helpers.backends import full_on
from helpers.sizes import SIZES
from helpers.training_batches import LENGTH, arrays, batch_of

import kbert
from kbert.graph.spec import GraphSpec
from kbert.graph.trained_parts import trained_parts
from kbert.model.lora import adapters_of, kernel_of
from kbert.training import backends
from kbert.training.engine import Engine
from kbert.training.optimization.optimizers import Optimizer
from kbert.training.step.trained_weights import select_weights

BATCH, RATE = 12, 1e-2
CONFIG = SIZES | {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
CONFIG["num_hidden_layers"] = 2
SPEC = GraphSpec(kbert.BertConfig(**CONFIG), "classifier", seq_len=LENGTH, num_labels=3)
ALL = "query,key,value,attention_output,intermediate,output"


@functools.cache
def engine_of(
    decay=None, head=1.0, any_length=True, prepared=(), selected=False, dropout=0.0, **parts
):
    """An engine of a model whose weights are the same each time, and its first state."""
    import keras

    keras.utils.set_random_seed(11)
    backend = backends.start()
    with backend.scope():
        length = None if any_length else LENGTH
        model = kbert.build_classifier(
            SPEC.config, num_labels=3, seq_len=length, selected_positions=selected
        )
        random = np.random.default_rng(7)
        model.set_weights([one + random.normal(0, 0.2, one.shape) for one in model.get_weights()])
        trained = select_weights(model, trained_parts(SPEC, **parts), 5, decay, head, dropout)
    optimizer = Optimizer(learning_rate=RATE, schedule="constant", total_steps=9, weight_decay=0)
    engine = Engine(backend, model, optimizer, trained, **dict(prepared))
    return engine, engine.state.all()


@pytest.fixture(scope="module")
def data():
    return arrays("classifier", 3, BATCH)


def in_state(half) -> str:
    """The name of A or B in a run's state, which is that of older versions."""
    layer, matrix, name = half.path.split("/")
    return f"adapter/{layer}.{matrix}.{name}"


def with_adapters(first):
    """The state with B that are not 0, so that A has gradients too."""
    random = np.random.default_rng(3)
    return {
        name: random.normal(0, 0.1, array.shape).astype("float32")
        if name.startswith("adapter/") and name.endswith("B")
        else array
        for name, array in first.items()
    }


@full_on("jax")
@pytest.mark.parametrize(
    "any_length",
    [pytest.param(False, marks=pytest.mark.full), True],
    ids=["one length", "any length"],
)
def test_adapter_gradients_equal_those_of_the_merged_weight(data, any_length, backend):
    """d/dA = s·Bᵀ·G and d/dB = s·G·Aᵀ, of G, the gradient of W + s·B·A in a model of its own."""
    if backend != "tensorflow" and not any_length:
        pytest.skip("the same parts compute any length here; on TensorFlow the graph's layers do")
    engine, first = engine_of(lora_rank=5, lora_targets=ALL, lora_alpha=8.0, any_length=any_length)
    state = with_adapters(first)
    engine.state.restore(state)
    found, scale = engine.gradients(batch_of(data, 0), 0), 8.0 / 5
    whole, _ = engine_of(any_length=any_length)
    merged = {name: array for name, array in whole.state.all().items()}
    of_matrices = set()
    for one in adapters_of(engine.model):
        a, b = (state[in_state(half)] for half in (one.a, one.b))
        path = f"model/{kernel_of(engine.model, one.matrix).path}"
        of_matrices.add(path)
        merged[path] = state[path] + (scale * b @ a).T.reshape(state[path].shape)
    merged |= {
        name: state[name]
        for name in merged
        if name.startswith("model/") and name not in of_matrices
    }
    whole.state.restore(merged)
    full = whole.gradients(batch_of(data, 0), 0)
    assert len(found) == 2 * 6 * 2 + 2  # A and B of six matrices of two blocks, and the head
    for one in adapters_of(engine.model):
        a, b = (state[in_state(half)] for half in (one.a, one.b))
        gradient = (
            full[kernel_of(engine.model, one.matrix).path].reshape(a.shape[1], b.shape[0]).T
        )  # (outputs, inputs)
        expected = {one.a.path: scale * b.T @ gradient, one.b.path: scale * gradient @ a.T}
        for path, array in expected.items():
            assert np.abs(array).max() > 1e-5 or ".key." in path
            np.testing.assert_allclose(found[path], array, atol=2e-6, rtol=1e-3, err_msg=path)
    kernel = next(path for path in found if path.endswith("Classifier/kernel"))
    np.testing.assert_allclose(found[kernel], full[kernel], atol=1e-6)
    ours, theirs = (one.predict(batch_of(data, 0).inputs)[0] for one in (engine, whole))
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


@full_on("jax", "tensorflow")
def test_frozen_weights_have_no_gradient_no_moments_and_stay(data):
    parts, prepared = {"freeze": "embeddings,1"}, {"accumulation_steps": 3, "clip_norm": 1e-3}
    engine, first = engine_of(prepared=tuple(prepared.items()), **parts)
    whole, _ = engine_of()
    whole.state.restore(
        whole.state.all() | {k: v for k, v in first.items() if k.startswith("model/")}
    )
    engine.state.restore(first)
    full, found = (one.gradients(batch_of(data, 0), 0) for one in (whole, engine))
    layers = {path.split("/")[0] for path in found}
    assert layers == {name for name in layers if name.startswith(("Encoder-2", "NSP", "Class"))}
    for path, array in found.items():
        np.testing.assert_allclose(array, full[path], atol=1e-6, err_msg=path)
    moments = [name for name in first if name.startswith("optimizer/first/")]
    assert {name.removeprefix("optimizer/first/") for name in moments} == set(found)
    engine.update(batch_of(data, 0), 0)
    state = engine.state.all()
    for name in (name for name in first if name.startswith("model/") and "seed" not in name):
        still = np.array_equal(state[name], first[name])
        assert still is (name.removeprefix("model/") not in found) or "key/bias" in name, name


@pytest.mark.full
def test_clipping_and_accumulation_use_trained_weights_only(data, backend):
    """The norm is of the gradients that there are; parts add up to the whole batch's update."""
    if backend == "jax":
        pytest.skip("compiles twice more; the engines share this")
    results = []
    for count in (1, 4):
        engine, first = engine_of(
            prepared=(("accumulation_steps", count), ("clip_norm", 0.05)), lora_rank=5
        )
        engine.state.restore(with_adapters(first))
        gradients = engine.gradients(batch_of(data, 1), 1).values()
        norm = np.sqrt(sum((one.astype("float64") ** 2).sum() for one in gradients))
        logs = engine.update(batch_of(data, 1), 1)
        assert norm > 0.05 and float(logs["gradient_norm"]) == pytest.approx(norm, rel=1e-5)
        results.append((norm, engine.state.all()))
    (norm, state), (other, states) = results
    assert other == pytest.approx(norm, rel=1e-5)
    for name, array in state.items():
        np.testing.assert_allclose(states[name], array, atol=1e-4, err_msg=name)


@full_on("jax", "tensorflow")
def test_each_layer_has_its_own_learning_rate(data):
    """AdamW's first step is the rate itself, whatever the gradient, where that is not next to 0."""
    engine, first = engine_of(decay=0.5, head=3.0)
    engine.state.restore(first)
    engine.update(batch_of(data, 0), 0)
    state = engine.state.all()
    shares = {"Embedding-Norm": 0.5**4, "Encoder-1-FeedForward": 0.5**3, "Classifier": 3.0}
    shares |= {"Encoder-2-MultiHeadSelfAttention": 0.5**2, "NSP-Dense": 0.5}
    for layer, share in shares.items():
        moved = [
            np.abs(state[name] - array).max()
            for name, array in first.items()
            if name.startswith(f"model/{layer}/")
        ]
        assert max(moved) == pytest.approx(RATE * share, rel=1e-2), layer


def adapted_engine(dropout, **options):
    on = {"lora_targets": "query,attention_output,intermediate,output", "lora_rank": 3}
    engine, first = engine_of(dropout=dropout, **on, **options)
    engine.state.restore(with_adapters(first))
    return engine


def adapter_gradients(data, step, dropout, **options) -> dict:
    return adapted_engine(dropout, **options).gradients(batch_of(data, 0), step)


def assert_near(found: dict, expected: dict) -> None:
    assert len(found) == len(expected) == 2 * 4 * 2 + 2
    for path, gradient in expected.items():
        assert np.abs(gradient).max() > 1e-5
        np.testing.assert_allclose(found[path], gradient, atol=3e-6, rtol=1e-3, err_msg=path)


@pytest.mark.full
@pytest.mark.parametrize("selected", [False, True])
def test_tiny_adapter_dropout_changes_nothing(data, backend, selected):
    if backend == "jax":
        pytest.skip("as on TensorFlow: two more programs to compile")
    prepared = (("gradient_checkpointing", True), ("accumulation_steps", 3))
    found = adapter_gradients(data, 0, 1e-8, prepared=prepared, selected=selected)
    assert_near(found, adapter_gradients(data, 0, 0.0))


@pytest.mark.full
def test_adapter_dropout_differs_by_step_and_not_in_evaluation(data, backend):
    one, again, other = (adapter_gradients(data, step, 0.4) for step in (1, 1, 2))
    distances = [
        max(np.abs(one[path] - some[path]).max() for path in one) for some in (again, other)
    ]
    assert distances[0] < 1e-6 < 1e-3 < distances[1]
    if backend != "jax":  # as on TensorFlow: one more program to compile
        assert_near(
            adapter_gradients(data, 1, 0.4, prepared=(("gradient_checkpointing", True),)), one
        )
    inputs = batch_of(data, 0).inputs
    logits = [adapted_engine(rate).predict(inputs)[0] for rate in (0.4, 0.0)]
    np.testing.assert_allclose(*logits, atol=1e-6)


def test_flops_of_partial_training_equal_torchs_count(data, backend):
    """Matrix products, each counted as it is computed: torch does not count its fused attention."""
    if backend != "torch":
        pytest.skip("only on torch, which counts its products")
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    def counted(**options):
        engine, first = engine_of(**options)
        engine.state.restore(first)
        with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
            engine.gradients(batch_of(data, 0), 0)
        return counter.get_total_flops()

    for parts in (
        {"freeze": "embeddings,1"},
        {"freeze": "embeddings,pooler"},
        {"freeze": "2"},
        {"freeze": "embeddings,encoder"},
        {"lora_rank": 5, "lora_targets": "query,key,value"},
        {"lora_rank": 5, "lora_targets": "attention_output,output"},
        {"lora_rank": 7, "lora_targets": ALL, "freeze": "1"},
    ):
        found = kbert.account(SPEC.config, LENGTH, BATCH, head="classifier", num_labels=3, **parts)
        assert counted(**parts) == found.training_flops, parts
    found = kbert.account(SPEC.config, LENGTH, BATCH, head="classifier", num_labels=3)
    assert counted() == found.training_flops
    options = {"head": "classifier", "num_labels": 3, "selected_positions": True}
    few = kbert.account(SPEC.config, LENGTH, BATCH, **options)
    assert counted(selected=True) == few.training_flops


def test_layers_below_trained_ones_keep_no_residuals(data, backend):
    """One block of two: what autograd keeps is its own and the head's, not that of all."""
    if backend != "torch":
        pytest.skip("only on torch, which says what it keeps for gradients")
    import torch

    def kept(**parts):
        engine, first = engine_of(**parts)
        engine.state.restore(first)
        sizes = {}

        def keep(tensor):
            if tensor.ndim > 1 and tensor.shape[0] in (BATCH, BATCH * LENGTH):  # no weights
                sizes[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            engine.gradients(batch_of(data, 0), 0)
        return sum(sizes.values())

    assert 0 < kept(freeze="embeddings,1") < 0.55 * kept()
    assert kept(freeze="embeddings,encoder") < 0.05 * kept()
