"""GradCache with frozen parts and adapters: the gradients of the whole model, and of one batch."""

import functools

import keras
import numpy as np
import pytest
from helpers.sizes import SIZES

import kbert
from kbert.data.training_batch import TrainingBatch
from kbert.graph import names
from kbert.graph.spec import GraphSpec
from kbert.graph.trained_parts import trained_parts
from kbert.model.builder import build
from kbert.model.lora import adapters_of
from kbert.tasks.embedding.recipe import encoder_of
from kbert.training.embedding_loss import EMBEDDINGS, EmbeddingLoss
from kbert.training.engine import Engine
from kbert.training.optimizers import Optimizer
from kbert.training.trained_weights import select_weights

PAIRS, LENGTH = 6, 7
CONFIG = SIZES | {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
SPEC = GraphSpec(kbert.BertConfig(**CONFIG | {"num_hidden_layers": 2}), "encoder")


def engine_of(accumulation_steps, **parts):
    """An engine of an encoder whose weights are the same each time; B of adapters are not 0."""
    keras.utils.set_random_seed(11)
    engine = Engine()
    with engine.backend.scope():
        model = build(SPEC)
        random = np.random.default_rng(7)
        model.set_weights([one + random.normal(0, 0.2, one.shape) for one in model.get_weights()])
        model = encoder_of(model)
        trained = select_weights(model, trained_parts(SPEC, **parts), 5)
    vectors = EmbeddingLoss("infonce", 2, 24, pooling="mean", normalize=False, pad_id=0)
    options = {"accumulation_steps": accumulation_steps, "embedding_loss": vectors}
    engine.prepare(model, Optimizer(total_steps=3), trained, **options)
    for adapter in adapters_of(engine.model):
        adapter.b.assign(random.normal(0, 0.2, adapter.b.shape).astype("float32"))
    return engine


def batch() -> TrainingBatch:
    random = np.random.default_rng(3)
    ids = random.integers(5, 99, (PAIRS, 2, LENGTH)).astype("int32")
    ids[1::2, :, 5:] = 0
    inputs = {names.TOKEN_IDS: ids, names.SEGMENT_IDS: np.zeros_like(ids)}
    labels = np.arange(2 * PAIRS, dtype="int32").reshape(PAIRS, 2)
    return TrainingBatch(
        inputs, {EMBEDDINGS: labels}, {EMBEDDINGS: np.full(PAIRS, 1 / PAIRS, "float32")}
    )


@functools.cache
def gradients(accumulation_steps, **parts) -> dict:
    return engine_of(accumulation_steps, **parts).gradients(batch(), 0)


@pytest.mark.full
def test_frozen_layers_leave_other_gradients_unchanged(backend):
    if backend == "jax":
        pytest.skip(
            "as on TensorFlow: two more programs to compile; test_trained_in_part has parts"
        )
    found, whole = gradients(3, freeze="embeddings,1"), gradients(1)
    assert found and all(path.startswith("Encoder-2-") for path in found)
    for path, gradient in found.items():
        np.testing.assert_allclose(gradient, whole[path], atol=2e-6, rtol=1e-3, err_msg=path)


@pytest.mark.full
@pytest.mark.parametrize("on", ["query,output"])
def test_adapter_gradients_in_chunks_equal_the_whole_batch(on):
    parts = {"lora_rank": 3, "lora_targets": on, "freeze": "1"}
    found, whole = (gradients(count, **parts) for count in (3, 1))
    assert len(found) == 4 and set(found) == set(whole)
    for path, gradient in found.items():
        assert np.abs(gradient).max() > 1e-4
        np.testing.assert_allclose(gradient, whole[path], atol=2e-6, rtol=1e-3, err_msg=path)
