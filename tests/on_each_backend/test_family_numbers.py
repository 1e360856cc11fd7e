"""RoBERTa and DistilBERT on each backend: transformers' outputs, losses and gradients."""

import dataclasses

import numpy as np
import pytest
from helpers.backends import full_on
from helpers.marks import full
from helpers.peer_outputs import run_peer
from numpy.testing import assert_allclose

import kbert
from kbert.checkpoints import weight_names
from kbert.checkpoints.transformers import classes
from kbert.data.labelled.length_buckets import IGNORED, BucketedBatches, Examples
from kbert.data.packed_batch import pack_batch
from kbert.data.training_batch import TrainingBatch
from kbert.graph import names
from kbert.model.builder import build
from kbert.tasks.embedding.embedding_model import encoder_of
from kbert.training import backends
from kbert.training.engine import Engine
from kbert.training.losses.embedding_objective import EMBEDDINGS, EmbeddingLoss
from kbert.training.optimization.optimizers import Optimizer

TEXTS = ["the dog barks", "a cat", "two  blanks", "dogs"]
CLASSES = ("RobertaForSequenceClassification", "DistilBertForQuestionAnswering")
VECTOR_CLASSES = ("RobertaModel", "DistilBertModel")
ON_TENSORFLOW = ("DistilBertForSequenceClassification", "RobertaForQuestionAnswering")
ON_TENSORFLOW += ("RobertaForTokenClassification",)
PACKED = "RobertaForSequenceClassification"
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    out = tmp_path_factory.mktemp("family")
    classes = (*CLASSES, *VECTOR_CLASSES, *ON_TENSORFLOW)
    run_peer("peer_family:write_classes", out, TEXTS, classes)
    return out


def opened(folders, name, **dropout):
    """transformers' checkpoint with the dropout that is asked for, and the peer's arrays."""
    bert = kbert.load(folders / name)
    none = NO_DROPOUT | ({"qa_dropout": 0.0} if bert.config.family.drops_answers else {})
    config = bert.config.replace(**none, classifier_dropout=0.0)
    spec = dataclasses.replace(bert.spec, config=config.replace(**dropout))
    return bert, spec, dict(np.load(folders / f"{name}.npz"))


def engine_of(bert, spec, **options):
    backend = backends.start()
    with backend.scope():
        model = build(spec)
        model.set_weights(bert.model.get_weights())
        if options.get("embedding_loss"):
            model = encoder_of(model)
    engine = Engine(backend, model, Optimizer(total_steps=9), **options)
    return engine


def batch_of(bert, peer):
    rows = peer["ids"][::2] if bert.head == "qa" else peer["ids"]
    ids = [row[row != bert.config.pad_token_id].tolist() for row in rows]
    labels = peer.get("labels")
    if bert.head == "qa":
        ends = peer["start_positions"], peer["end_positions"]
        given = dict(zip((names.SPAN_START, names.SPAN_END), map(list, ends), strict=True))
    elif bert.head == "tokens":
        rows = np.where(labels == -100, IGNORED, labels)
        cut = [row[: len(one)].tolist() for row, one in zip(rows, ids, strict=True)]
        given = {names.TOKEN_CLASSIFIER: cut}
    else:
        given = {names.CLASSIFIER: labels.tolist()}
    examples = Examples(ids, [[0] * len(one) for one in ids], given)
    options = {"batch_size": len(ids), "lengths": (11,), "pad_id": bert.config.pad_token_id}
    return BucketedBatches(examples, **options).batch(0)


def compare_gradients(found: dict, bert, spec, peer) -> None:
    """kbert's gradients by its paths with transformers' by its names."""
    prefix = (
        ""
        if bert.architecture.endswith("Model")
        else classes.CLASSES[bert.config.model_type].prefix
    )
    compared = 0
    for entry in weight_names.entries_of(spec, weight_names.column_of(bert.config)):
        path = f"{entry.layer}/{entry.variable}"
        expected = peer.get(f"gradient/{prefix}{entry.name}", peer.get(f"gradient/{entry.name}"))
        if expected is None:  # the pooler beside sentence vectors
            assert entry.layer == names.POOLER and path not in found
            continue
        expected = (expected.T if entry.outputs_first else expected).reshape(found[path].shape)
        assert np.abs(expected).max() > 1e-6 or not path.endswith("kernel")
        assert_allclose(found[path], expected, atol=2e-6, rtol=2e-4, err_msg=path)
        compared += 1
    assert compared == len(found)


@pytest.mark.full
@full_on("jax")
@pytest.mark.parametrize("name", [*CLASSES, *(full(one) for one in ON_TENSORFLOW)])
def test_family_outputs_and_gradients_equal_transformers(folders, name, backend):
    if backend != "tensorflow" and name in ON_TENSORFLOW:
        pytest.skip("on TensorFlow alone: the same layers as the others")
    bert, spec, peer = opened(folders, name)
    real = peer["ids"] != bert.config.pad_token_id
    wanted = [peer[key] for key in peer if key.startswith("arr_")]
    for value, expected in zip(
        kbert.predict(bert.model, peer["ids"]).values(), wanted, strict=True
    ):
        place = real if value.shape[:2] == real.shape else slice(None)
        assert_allclose(value[place], expected[place], atol=1e-5, rtol=1e-5)
    engine, batch = engine_of(bert, spec), batch_of(bert, peer)
    compare_gradients(engine.gradients(batch, 0), bert, spec, peer)
    sums = engine.evaluate(batch)
    loss = sum(sums[f"{name}_loss"][0] for name in batch.labels)
    assert loss == pytest.approx(float(peer["loss"]), rel=1e-5)


@pytest.mark.full
@pytest.mark.parametrize("name", VECTOR_CLASSES)
def test_embedding_gradients_equal_torch(folders, name, backend):
    if backend != "tensorflow":
        pytest.skip("on TensorFlow alone: the same blocks, and test_vector_losses has the losses")
    bert, spec, peer = opened(folders, name)
    options = {"pooling": "mean", "normalize": False, "pad_id": bert.config.pad_token_id}
    vectors = EmbeddingLoss("infonce", 2, bert.config.hidden_size, scale=20.0, **options)
    engine = engine_of(bert, spec, embedding_loss=vectors)
    columns = peer["ids"][:12].reshape(6, 2, -1).astype("int32")
    inputs = {names.TOKEN_IDS: columns, names.SEGMENT_IDS: np.zeros_like(columns)}
    ids = np.arange(12, dtype="int32").reshape(6, 2)
    batch = TrainingBatch(inputs, {EMBEDDINGS: ids}, {EMBEDDINGS: np.full(6, 1 / 6, "float32")})
    compare_gradients(engine.gradients(batch, 0), bert, spec, peer)


@pytest.mark.full
def test_packed_roberta_gradients_equal_transformers(folders):
    bert, spec, peer = opened(folders, PACKED)
    given = batch_of(bert, peer)
    tokens = (given.inputs[names.TOKEN_IDS] != 1).sum(1).tolist()
    rows = pack_batch(given, tokens, 23)
    engine = engine_of(bert, dataclasses.replace(spec, packed=True))
    compare_gradients(engine.gradients(rows, 0), bert, spec, peer)


@pytest.mark.full
def test_packed_roberta_drops_first_tokens_as_padded_does(folders, backend):
    """Rows of the first dense layer's kernel without a gradient: inputs dropped in every text."""
    if backend == "jax":
        pytest.skip("as on TensorFlow: one more program to compile")
    bert, dropping, peer = opened(folders, PACKED, classifier_dropout=0.6)
    few = {name: peer[name][:2] for name in ("ids", "labels")}
    given = batch_of(bert, few)
    rows = pack_batch(given, [len(row[row != 1]) for row in given.inputs[names.TOKEN_IDS]], 23)
    kernel = f"{names.POOLER}/kernel"
    dropped = {}
    for packing, batch in ((True, rows), (False, given)):
        engine = engine_of(bert, dataclasses.replace(dropping, packed=packing))
        gradient = np.stack([engine.gradients(batch, step)[kernel] for step in range(5)])
        dropped[packing] = float((np.abs(gradient).max(2) == 0).mean())
    for share in dropped.values():  # 0.6² of 5 · 24 rows are dropped in both texts
        assert share == pytest.approx(0.36, abs=0.15)


@pytest.mark.full
def test_distilbert_answers_have_dropout_before_the_head(folders):
    """What is dropped has no gradient in the last dense layer's kernel, nor in the norm before."""
    bert, dropping, peer = opened(folders, CLASSES[1], qa_dropout=0.6)
    ids = [peer["ids"][0][:2].tolist()]
    given = {names.SPAN_START: [0], names.SPAN_END: [1]}
    options = {"batch_size": 1, "lengths": (2,), "pad_id": bert.config.pad_token_id}
    batch = BucketedBatches(Examples(ids, [[0, 0]], given), **options).batch(0)
    engine = engine_of(bert, dropping)
    norm = names.encoder_output(bert.config.num_hidden_layers)
    shares = []
    for step in range(9):
        found = engine.gradients(batch, step)
        none = (found[f"{names.SPAN}/kernel"] == 0).all(1)
        assert (none == (found[f"{norm}/gamma"] == 0)).all()
        assert not found[f"{norm}/beta"][none].any()
        shares.append(none.mean())
    assert len(set(shares)) > 2
    assert np.mean(shares) == pytest.approx(0.36, abs=0.12)  # dropped in both tokens: 0.6²
    kernel, rate = bert.model.get_layer(names.SPAN).kernel, bert.config.qa_dropout
    assert kernel.shape == (len(none), 2) and rate == 0.1  # as the checkpoint's config.json has it
