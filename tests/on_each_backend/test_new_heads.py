"""A pretrained encoder with a new head of N labels, trained by one's own fit."""

import dataclasses

import keras
import numpy as np
import pytest
from helpers.backends import full_on, nightly_on
from helpers.errors import collected_logs, logged, raises
from numpy.testing import assert_array_equal

import kbert
from kbert.checkpoints.untrained_weights import find_unchanged
from kbert.heads import HEADS

LABELS = ("neg", "so so", "pos", "very", "?")  # 5
WITH_LABELS = [f"head={name!r}" for name, head in HEADS.items() if head.has_labels]


def saved(bert, path):
    kbert.save(bert, path)
    return path


def of(model, name):
    return [keras.ops.convert_to_numpy(weight) for weight in model.get_layer(name).weights]


@pytest.mark.full
@full_on("jax")
@pytest.mark.parametrize(
    ("head", "layer"), [("classifier", "Classifier"), ("tokens", "TokenClassifier")]
)
@pytest.mark.parametrize("source", ["encoder", "pretraining", "qa"])
def test_new_head_has_given_labels_and_keeps_the_encoder(berts, tmp_path, head, layer, source):
    folder = saved(berts[source], tmp_path / "bert")
    with logged("classifier.weight", folder):
        bert = kbert.load(folder, head=head, num_labels=7)
    assert (bert.head, bert.labels, bert.model.outputs[0].shape[-1]) == (head, None, 7)
    assert [weight.shape for weight in of(bert.model, layer)] == [(24, 7), (7,)]
    named = kbert.load(folder, head=head, labels=list(LABELS))
    assert (named.labels, named.model.outputs[0].shape[-1]) == (LABELS, 5)
    name = "Encoder-2-FeedForward"
    for one, other in zip(of(bert.model, name), of(berts[source].model, name), strict=True):
        assert_array_equal(one, other)


@full_on("jax", "torch")
def test_head_is_kept_for_equal_labels_and_new_for_others(berts, tmp_path):
    old = dataclasses.replace(berts["classifier"], labels=LABELS)
    folder = saved(old, tmp_path / "bert")
    letters = ("a", "b", "c", "d", "e")
    with collected_logs() as messages:
        same = kbert.load(folder, num_labels=5)
        named = kbert.load(folder, head="classifier", labels=letters)
    assert (same.labels, named.labels, messages) == (LABELS, letters, [])
    for bert in (same, named):
        assert_array_equal(of(bert.model, "Classifier")[0], of(old.model, "Classifier")[0])
        assert bert.report.initialized == ()
    with logged("5 labels", "num_labels is 3"):
        other = kbert.load(folder, num_labels=3)
    assert other.labels is None and other.model.outputs[0].shape == (None, 3)
    assert set(other.report.initialized) == {"classifier.weight", "classifier.bias"}
    assert set(other.report.ignored) == {"classifier.weight", "classifier.bias"}
    assert_array_equal(of(other.model, "NSP-Dense")[0], of(old.model, "NSP-Dense")[0])


@nightly_on("jax", "torch")
@pytest.mark.parametrize(
    ("options", "things"),
    [
        ({"num_labels": 5}, ("num_labels", *WITH_LABELS, "'qa'")),
        ({"head": "encoder", "labels": ["a"]}, ("labels", *WITH_LABELS, "'encoder'")),
        ({"head": "tokens", "num_labels": 0}, ("num_labels", "0")),
        ({"head": "tokens", "num_labels": True}, ("num_labels", "True")),
        ({"head": "tokens", "labels": "pos"}, ("labels", "'pos'")),
        ({"head": "tokens", "labels": []}, ("labels", "[]")),
        ({"head": "tokens", "labels": ["a", 3]}, ("labels", "3")),
        ({"head": "tokens", "labels": ["a", "a"]}, ("labels", "'a'")),
        ({"head": "tokens", "labels": ["a"], "num_labels": 2}, ("num_labels=2", "1")),
    ],
)
def test_impossible_heads_are_refused_in_one_line(berts, tmp_path, options, things):
    with raises(ValueError, *things) as raised:
        kbert.load(saved(berts["qa"], tmp_path / "bert"), **options)
    assert "\n" not in str(raised.value)


@nightly_on("jax", "torch")
def test_labels_in_another_order_are_refused(berts, tmp_path):
    folder = saved(dataclasses.replace(berts["tokens"], labels=LABELS), tmp_path / "bert")
    with raises(ValueError, "labels", ", ".join(LABELS)):
        kbert.load(folder, labels=LABELS[::-1])


def fit(bert, learning_rate=0.5):
    batch = bert.tokenizer.encode_batch(["cat dog", "red sun", "moon . mat"] * 4 + ["big"])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    bert.model.compile(keras.optimizers.SGD(learning_rate), loss)
    labels = np.arange(13) % 3
    bert.model.fit([batch.token_ids, batch.segment_ids], labels, batch_size=13, verbose=0)


@full_on("tensorflow")
@nightly_on("jax")
def test_head_trained_by_fit_counts_as_trained(berts, tmp_path):
    """And not before: neither just loaded, nor fitted with a rate of zero."""
    folder = saved(berts["encoder"], tmp_path / "bert")
    bert = kbert.load(folder, head="classifier", labels=("a", "b", "c"))
    data = [("cat dog", "a"), ("red sun", "b")]
    (tmp_path / "dev.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in data))
    uses = (
        lambda: kbert.classify(bert, "cat dog"),
        lambda: kbert.evaluate(bert, "classify", tmp_path / "dev.tsv"),
    )
    fit(bert, 0.0)
    for use in uses:
        with raises(ValueError, "Classifier"):
            use()
    before = bert.model.get_weights()
    fit(bert)
    found = kbert.classify(bert, "cat dog")
    ids = bert.tokenizer.encode_batch(["cat dog"])
    logits = keras.ops.convert_to_numpy(bert.model([ids.token_ids, ids.segment_ids]))[0]
    shares = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    assert {one.label: pytest.approx(one.probability, abs=1e-5) for one in found} == dict(
        zip("abc", shares, strict=True)
    )
    assert set(uses[1]()) >= {"loss", "accuracy"}
    bert.model.set_weights(before)
    with raises(ValueError, "Classifier"):
        uses[0]()
    bert.model.set_weights([value + 0.25 for value in before])
    assert uses[0]()


@full_on("jax", "torch")
def test_copy_with_another_vocabulary_stays_untrained(berts, tmp_path):
    bert = kbert.load(saved(berts["encoder"], tmp_path / "bert"), head="pretraining")
    assert set(bert.report.first_values) == {"MLM-Dense", "MLM-Norm", "MLM-Sim", "NSP"}
    larger = kbert.resize_vocab(bert, 101)
    known = {layer: [digest] for layer, digest in larger.report.first_values.items()}
    assert find_unchanged(larger.model, known) == list(known)
    with raises(ValueError, "MLM-Dense", "MLM-Norm", "MLM-Sim"):
        kbert.fill_mask(larger, "cat [MASK]")
