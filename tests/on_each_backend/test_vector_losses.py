"""Losses of sentence vectors: sentence-transformers' numbers; a big batch's gradients in parts."""

import numpy as np
import pytest
from helpers.backends import nightly_on
from helpers.gradients import differentiate
from helpers.peer_vector_losses import BATCH, CASES, MARGIN, SCALE, WIDTH, scores, vectors_of
from helpers.sizes import FILES, SIZES
from numpy.testing import assert_allclose

import kbert
from kbert.data.training_batch import TrainingBatch
from kbert.graph import names
from kbert.graph.spec import GraphSpec
from kbert.graph.trained_parts import trained_parts
from kbert.training.losses.embedding_objective import EMBEDDINGS, EmbeddingLoss

EXPECTED = FILES / "vector_losses.npz"
RECORDS, COLUMNS, LENGTH = 12, 3, 7


def loss_of(case: str) -> EmbeddingLoss:
    loss, columns, dimensions = CASES[case]
    return EmbeddingLoss(
        loss, columns, WIDTH, scale=SCALE, margin=MARGIN, dimensions=dimensions and dimensions[::-1]
    )


def labels_of(loss: str, columns: int) -> np.ndarray:
    if loss in ("cosine", "cosent"):
        return scores()
    return np.arange(BATCH * columns, dtype="int32").reshape(BATCH, columns)


def measured(loss: EmbeddingLoss, vectors, labels, weights):
    from keras import ops

    return loss.sum_losses(vectors, *map(ops.convert_to_tensor, (labels, weights)))


def sums_of(loss: EmbeddingLoss, vectors, labels, weights) -> np.ndarray:
    import keras

    if keras.backend.backend() == "jax":
        import jax  # at once, and not operation by operation, each of which it would compile

        return np.asarray(jax.jit(lambda x: measured(loss, x, labels, weights))(vectors))
    return np.asarray(measured(loss, keras.ops.convert_to_tensor(vectors), labels, weights))


@pytest.mark.parametrize("case", CASES)
def test_vector_losses_equal_sentence_transformers(case):
    """And two records that a batch was filled up with have no share in them."""
    expected, (name, columns, _) = np.load(EXPECTED), CASES[case]
    loss, weights = loss_of(case), np.full(BATCH + 2, 1 / BATCH, "float32")
    weights[BATCH:] = 0.0
    vectors, labels = (
        np.concatenate([array, array[:2]])
        for array in (vectors_of(columns), labels_of(name, columns))
    )
    found = differentiate(lambda x: measured(loss, x, labels, weights)[0], vectors)
    assert_allclose(found[:BATCH], expected[f"{case}.gradient"], rtol=1e-4, atol=1e-6)
    assert not found[BATCH:].any()
    sums = sums_of(loss, vectors, labels, weights)
    assert_allclose(sums[[0, 2]], [expected[f"{case}.loss"], 1.0], rtol=1e-5)


def test_duplicate_texts_are_no_negatives():
    """The loss with some texts twice is that over the candidates that are left, written out."""
    vectors, numbers = vectors_of(3), labels_of("infonce", 3)
    for place in ((4, 1), (9, 2)):  # record 2's second text once more
        vectors[place], numbers[place] = vectors[2, 1], numbers[2, 1]
    vectors[7, 0], numbers[7, 0] = vectors[5, 0], numbers[5, 0]  # one first text, two partners
    vectors[8, 1], numbers[8, 1] = vectors[3, 0], numbers[3, 0]  # a first text as another's second
    weights = np.full(BATCH, 1 / BATCH, "float32")
    unit = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    losses = []
    for row in range(BATCH):
        terms = []
        for column, other in np.ndindex(2, BATCH):
            own = column == 0 and other == row
            same = numbers[other, column + 1] in numbers[row, :2]
            partner = column == 0 and numbers[other, 0] == numbers[row, 0]
            if own or not (same or partner):
                terms.append(SCALE * unit[row, 0] @ unit[other, column + 1])
        right = SCALE * unit[row, 0] @ unit[row, 1]
        losses.append(np.log(np.sum(np.exp(terms))) - right)
    loss = EmbeddingLoss("infonce", 3, WIDTH, scale=SCALE)
    found = sums_of(loss, vectors, numbers, weights)
    assert found[0] == pytest.approx(np.mean(losses), rel=1e-5)


@pytest.fixture(scope="module")
def records():
    random = np.random.default_rng(2)
    ids = random.integers(5, SIZES["vocab_size"], (RECORDS, COLUMNS, LENGTH)).astype("int32")
    lengths = random.integers(2, LENGTH + 1, (RECORDS, COLUMNS, 1))
    ids[np.arange(LENGTH) >= lengths] = 0
    inputs = {names.TOKEN_IDS: ids, names.SEGMENT_IDS: np.zeros_like(ids)}
    numbers = np.arange(RECORDS * COLUMNS, dtype="int32").reshape(RECORDS, COLUMNS)
    weights = np.full(RECORDS, 1 / RECORDS, "float32")
    return TrainingBatch(inputs, {EMBEDDINGS: numbers}, {EMBEDDINGS: weights})


def engine_of(dropout: float, accumulation_steps: int, **parts):
    """An engine of an encoder whose weights are the same each time; B of adapters are not 0."""
    import keras

    from kbert.model.lora import adapters_of
    from kbert.tasks.embedding.embedding_model import encoder_of
    from kbert.training import backends
    from kbert.training.engine import Engine
    from kbert.training.optimization.optimizers import Optimizer
    from kbert.training.step.trained_weights import select_weights

    keras.utils.set_random_seed(11)
    rates = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    sizes = {"num_hidden_layers": 1, "initializer_range": 0.2}
    config = kbert.BertConfig(**SIZES | rates | sizes)
    backend = backends.start()
    vectors = EmbeddingLoss("infonce", COLUMNS, config.hidden_size, dimensions=(24, 9))
    with backend.scope():
        model = encoder_of(kbert.build_encoder(config, seq_len=None))
        trained = trained_parts(GraphSpec(config, "encoder"), **parts)
        weights = select_weights(model, trained, 5) if parts else None
    optimizer = Optimizer(learning_rate=1e-30, total_steps=9, weight_decay=0.0)
    options = {"accumulation_steps": accumulation_steps, "embedding_loss": vectors}
    engine = Engine(backend, model, optimizer, weights, clip_norm=None, **options)
    for adapter in adapters_of(engine.model):
        adapter.b.assign(np.random.default_rng(7).normal(0, 0.2, adapter.b.shape))
    return engine


def gradients_after(engine, batch, step: int) -> dict[str, np.ndarray]:
    """Those of an engine's first update, whose moments are (1 − β₁) times them."""
    engine.update(batch, step)
    share = 1 - engine.settings.beta_1
    weights, slots, _ = engine.state.variables
    return {
        weight.path: np.array(own["first"].value) / share
        for weight, own in zip(weights, slots, strict=True)
    }


@pytest.mark.full
def test_gradients_in_chunks_equal_the_whole_batch(records):
    whole, parts = engine_of(0.0, 1), engine_of(0.0, 4)
    expected, found = (gradients_after(one, records, 0) for one in (whole, parts))
    largest = max(np.abs(gradient).max() for gradient in expected.values())
    for name, gradient in expected.items():
        assert_allclose(found[name], gradient, atol=1e-5 * largest, err_msg=name)
    one, other = whole.update(records, 0), parts.update(records, 0)
    for name in ("loss", "Vectors_loss", "Vectors_accuracy", "gradient_norm"):
        assert float(other[name]) == pytest.approx(float(one[name]), rel=1e-5), name


@pytest.mark.full
@nightly_on("jax")
@pytest.mark.parametrize(
    "parts", [{"freeze": "embeddings"}, {"lora_rank": 3, "lora_targets": "query,output"}]
)
def test_gradients_of_some_weights_in_chunks_equal_the_whole_batch(records, parts):
    engines = (engine_of(0.0, count, **parts) for count in (1, 4))
    expected, found = (gradients_after(one, records, 0) for one in engines)
    assert set(found) == set(expected) and all(path.startswith("Encoder-1-") for path in found)
    for name, gradient in expected.items():
        assert np.abs(gradient).max() > 1e-4 or name.endswith("key/bias")
        assert_allclose(found[name], gradient, atol=2e-6, rtol=1e-3, err_msg=name)


@pytest.mark.full
@nightly_on("jax")
def test_dropout_is_equal_in_both_passes(records):
    """The gradient is the loss's slope along itself, which it is not with two pairs of masks."""
    engine = engine_of(0.3, 4)
    slopes = gradients_after(engine, records, 5)
    length = np.sqrt(sum(np.sum(slope**2) for slope in slopes.values()))
    first, losses = {weight.path: np.array(weight) for weight in engine.state.variables.weights}, []
    for step in (-0.01, 0.01):
        for weight in engine.state.variables.weights:
            weight.assign(first[weight.path] + step * slopes[weight.path] / length)
        losses.append(float(engine.update(records, 5)["loss"]))
    assert (losses[1] - losses[0]) / 0.02 == pytest.approx(length, rel=0.02)
