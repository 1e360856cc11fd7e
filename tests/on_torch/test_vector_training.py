"""Runs train sentence embeddings; sentence-transformers opens their results."""

import dataclasses

import numpy as np
import pytest
from helpers.errors import raises
from helpers.peer_outputs import compute
from helpers.peer_vector_losses import SCALE
from helpers.sizes import FILES
from helpers.small_berts import small_bert
from numpy.testing import assert_allclose

import kbert
from kbert.checkpoints import weight_names
from kbert.checkpoints.sentence_settings import SentenceDense
from kbert.data.training_batch import TrainingBatch
from kbert.graph import names
from kbert.tasks.embedding.embedding_model import encoder_of
from kbert.tasks.embedding.training import TASK, TextRecord
from kbert.training import backends
from kbert.training.engine import Engine
from kbert.training.losses.embedding_objective import EMBEDDINGS, EmbeddingLoss
from kbert.training.optimization.optimizers import Optimizer

pytestmark = pytest.mark.full

ANIMALS, SKY, THINGS = (["cat", "dog"], ["sun", "moon"], ["tree", "mat"])
SETTINGS = {"epochs": 9, "batch_size": 7, "learning_rate": 5e-3, "seed": 4}
SETTINGS |= {"progress": False, "peak_flops": 1e9}
OPTIONS = SETTINGS | {"batch_size": 14, "accumulation_steps": 2, "dimensions": [24, 5]}


def sentences(count: int, seed: int) -> list[tuple[str, int]]:
    """Sentences, and which of three kinds of words each has."""
    random, found = np.random.default_rng(seed), []
    for number in range(count):
        own = random.choice((ANIMALS, SKY, THINGS)[number % 3], 2)
        words = [*own, *random.choice(["red", "big", ".", "the"], random.integers(1, 4))]
        found.append((" ".join(random.permutation(words)), number % 3))
    return found


def scored(count: int, seed: int) -> list[tuple[str, str, float]]:
    """Pairs, and 1 for two of one kind, of different ones 0 or 0.4."""
    first, second = sentences(count, seed), sentences(count, seed + 1)
    np.random.default_rng(seed).shuffle(second)
    near = ({0}, {1, 2})
    return [
        (a, b, 1.0 if x == y else 0.4 * any({x, y} <= one for one in near))
        for (a, x), (b, y) in zip(first, second, strict=True)
    ]


@pytest.fixture(scope="module")
def source(small):
    sizes = {"num_hidden_layers": 1, "initializer_range": 0.2, "hidden_dropout_prob": 0.0}
    sizes |= {"attention_probs_dropout_prob": 0.0}
    bert = small_bert(small.replace(**sizes), "encoder")
    return dataclasses.replace(bert, sentence=kbert.SentenceSettings("max", True, 15))


@pytest.fixture(scope="module")
def tuned(source, tmp_path_factory):
    """(folder with its run, what came of it): scored pairs from files, two micro-batches."""
    folder = tmp_path_factory.mktemp("tuned")
    for name, count, seed in (("train", 69, 1), ("dev", 30, 5)):
        lines = ["\t".join(map(str, row)) for row in scored(count, seed)]
        (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    data = {"train": folder / "train.tsv", "dev": folder / "dev.tsv", "output": folder / "run"}
    return folder, kbert.finetune(source, "embed", **data, **OPTIONS)


def test_embedding_training_learns(tuned, source):
    folder, done = tuned
    before = kbert.evaluate(source, "embed", folder / "dev.tsv")
    assert done.metrics["spearman"] > max(0.7, before["spearman"] + 0.2)
    assert {"spearman", "pearson", "spearman_5", "pearson_5"} == set(done.metrics)
    losses = [line["Vectors_loss"] for line in done.history.updates]
    assert np.mean(losses[-5:]) < 0.8 * np.mean(losses[:5])
    saved = kbert.load(folder / "run" / "model.keras")
    found = kbert.evaluate(saved, "embed", folder / "dev.tsv")
    assert found["spearman"] == pytest.approx(done.metrics["spearman"], abs=1e-6)


def test_similarity_metrics_equal_scipy(tuned):
    stats = pytest.importorskip("scipy.stats")
    _, done = tuned
    first, second, scores = zip(*scored(30, 5), strict=True)
    for size, ending in ((24, ""), (5, "_5")):
        a, b = (kbert.embed(done.bert, list(texts))[:, :size] for texts in (first, second))
        lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
        cosines = np.sum(a * b, axis=1) / lengths
        for name, function in (("spearman", stats.spearmanr), ("pearson", stats.pearsonr)):
            expected = function(cosines, scores)[0]
            assert done.metrics[name + ending] == pytest.approx(expected, abs=1e-5)


def test_checkpoint_keeps_the_pooling_settings(tuned, tmp_path):
    _, done = tuned
    assert done.bert.sentence == kbert.SentenceSettings("max", True, 15)
    kbert.save(done.bert, tmp_path / "saved", format="transformers")
    assert kbert.load(tmp_path / "saved").sentence == done.bert.sentence


@pytest.mark.full
def test_default_prompt_is_used_in_training(source):
    sentence = kbert.SentenceSettings(
        "mean", True, 9, prompts={"red": "red "}, default_prompt_name="red", similarity="dot"
    )
    bert = dataclasses.replace(source, sentence=sentence)
    columns = TASK.encode([TextRecord(("cat", "dog"))], bert.tokenizer, None, 9, sentence)
    wanted = [bert.tokenizer.encode(f"red {text}").ids for text in ("cat", "dog")]
    assert list(map(list, columns.ids)) == wanted
    done = kbert.finetune(
        bert, "embed", train=scored(9, 3), **OPTIONS | {"epochs": 1, "batch_size": 4}
    )
    assert done.bert.sentence == sentence
    layers = (SentenceDense(np.ones((24, 5), "float32")),)
    dense = dataclasses.replace(bert, sentence=kbert.SentenceSettings("max", True, dense=layers))
    with raises(ValueError, "dense"):
        kbert.finetune(dense, "embed", train=scored(9, 3), **OPTIONS)


@pytest.mark.full
def test_sentence_transformers_equals_vectors_and_gradients(tuned, tmp_path):
    """MultipleNegativesRankingLoss and its cached form, of the weights of a whole model."""
    _, done = tuned
    bert = done.bert
    kbert.save(bert, tmp_path / "saved", format="transformers")
    rows = list({a: (a, b) for a, b in {b: (a, b) for a, b in PAIRS}.values()}.values())[:12]
    compute("peer_vector_losses:compute_losses", tmp_path, str(tmp_path / "saved"), rows)
    expected, kept = (np.load(path / "vector_losses.npz") for path in (tmp_path, FILES))
    for one in kept:
        assert_allclose(expected[one], kept[one], rtol=1e-4, atol=1e-6, err_msg=one)
    texts = [text for row in rows for text in row]
    assert_allclose(kbert.embed(bert, texts), expected["vectors"], atol=1e-5)
    for accumulation_steps, name in ((1, "infonce"), (4, "cached")):
        loss, gradients = of_whole_model(bert, texts, accumulation_steps)
        assert loss == pytest.approx(float(expected[f"{name}.loss"]), rel=1e-5)
        largest = max(np.abs(gradient).max() for gradient in gradients.values())
        for entry in weight_names.entries_of(bert.spec, "transformers"):
            if entry.layer == names.POOLER:
                continue
            (path,) = (one for one in gradients if is_of(entry, one))
            array = expected[f"{name}.{entry.name}"]
            array = array.T if entry.variable.endswith("kernel") else array
            array = array.reshape(gradients[path].shape)
            assert_allclose(gradients[path], array, atol=1e-5 * largest, err_msg=path)


def is_of(entry, path: str) -> bool:
    return path.startswith(f"{entry.layer}/") and path.endswith(f"/{entry.variable}")


def of_whole_model(bert, texts: list[str], accumulation_steps: int) -> tuple[float, dict]:
    """An engine's loss, and gradients by the weight's path."""
    encoded = bert.tokenizer.encode_batch(texts)
    ids = np.zeros((len(texts), max(map(len, (one.ids for one in encoded)))), "int32")
    for place, one in enumerate(encoded):
        ids[place, : len(one.ids)] = one.ids
    ids = ids.reshape(-1, 2, ids.shape[1])
    inputs = {names.TOKEN_IDS: ids, names.SEGMENT_IDS: np.zeros_like(ids)}
    labels = {EMBEDDINGS: np.arange(ids[..., 0].size, dtype="int32").reshape(-1, 2)}
    batch = TrainingBatch(inputs, labels, {EMBEDDINGS: np.full(len(ids), 1 / len(ids), "float32")})
    backend = backends.start()
    vectors = EmbeddingLoss("infonce", 2, 24, pooling="max", normalize=True, scale=SCALE)
    model = encoder_of(bert.model)
    still = Optimizer(learning_rate=1e-30, total_steps=3, weight_decay=0.0)
    engine = Engine(
        backend, model, still, accumulation_steps=accumulation_steps, embedding_loss=vectors
    )
    gradients = engine.gradients(batch, 0)
    return float(engine.update(batch, 0)["loss"]), gradients


PAIRS = [(a, b) for (a, x), (b, y) in zip(sentences(39, 2), sentences(39, 3), strict=True)]
KINDS = {
    "pairs": (PAIRS, "cls", "recall@1"),
    "triplets": ([(*pair, PAIRS[n - 2][1]) for n, pair in enumerate(PAIRS)], "mean", "accuracy"),
    "labelled": ([(text, "abc"[kind]) for text, kind in sentences(39, 2)], "mean", "recall@1"),
}


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=pytest.mark.nightly if kind == "pairs" else pytest.mark.full)
        for kind in KINDS
    ],
)
def test_every_kind_of_embedding_data_is_learned(source, kind):
    rows, pooling, figure = KINDS[kind]
    loss = "triplet" if kind == "triplets" else None
    options = SETTINGS | {"margin": 1.0, "epochs": 5, "pooling": pooling}
    done = kbert.finetune(source, "embed", train=rows, dev=rows, loss=loss, **options)
    losses = [line["Vectors_loss"] for line in done.history.updates]
    assert np.mean(losses[-5:]) < 0.8 * np.mean(losses[:5])
    assert done.bert.sentence.pooling == pooling
    figures = [line[f"val_{figure}"] for line in done.history.evaluations]
    assert done.metrics[figure] == max(figures) > figures[0]
