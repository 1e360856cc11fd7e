"""Weights of classes and of examples: a step's gradient is that of Keras's `fit` with them."""

import dataclasses
import json

import keras
import numpy as np
import pytest
from helpers.errors import raises
from helpers.labelled_texts import QUIET, tune
from helpers.small_berts import change_weights, small_bert

import kbert
from kbert.data.labelled.length_buckets import BucketedBatches, Examples
from kbert.data.labelled.packed_batches import PackedBatches

pytestmark = pytest.mark.full

NAMES = ("bad", "good", "mad")
TEXTS = ["a cat", "red dog", "big red tree", "the sun . the moon", "a mat", "the big dog"]
LABELS = [0, 1, 2, 0, 0, 1]
CLASS_WEIGHTS = {"bad": 0.5, "mad": 3}
SAMPLE_WEIGHTS = [1.5, 0.25, 0.0, 2.0, 1.0, 3.5]
RATE = 0.05


@pytest.fixture(scope="module")
def source(small):
    """A classifier of three labels without dropout."""
    rates = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config = small.replace(num_hidden_layers=1, **rates)
    bert = small_bert(config, "classifier")
    model = kbert.build_bert(config, head="classifier", seq_len=None, num_labels=3)
    return dataclasses.replace(bert, model=change_weights(model), labels=NAMES)


def train_by_fit(bert, **weights) -> list[np.ndarray]:
    """Return the weights after a step of Keras's `fit`, all texts in one batch, by plain SGD."""
    model = keras.models.clone_model(bert.model)
    model.set_weights(bert.model.get_weights())
    encodings = [bert.tokenizer.encode(text) for text in TEXTS]
    length = max(len(encoding.ids) for encoding in encodings)
    ids = np.array([encoding.ids + [0] * (length - len(encoding.ids)) for encoding in encodings])
    inputs = {model.input_names[0]: ids, model.input_names[1]: np.zeros_like(ids)}
    loss = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction="mean_with_sample_weight"
    )
    model.compile(keras.optimizers.SGD(RATE), loss)
    model.fit(inputs, np.array(LABELS), batch_size=len(TEXTS), epochs=1, verbose=0, **weights)
    return model.get_weights()


def train_by_kbert(bert, **options) -> list[np.ndarray]:
    rows = [
        {"text": text, "label": NAMES[label], "how_sure": weight}
        for text, label, weight in zip(TEXTS, LABELS, SAMPLE_WEIGHTS, strict=True)
    ]
    fixed = {"epochs": 1, "batch_size": len(TEXTS), "clip_norm": None, "weight_decay": 0.0}
    fixed |= {"learning_rate": RATE, "warmup_ratio": 0.0, "schedule": "constant"}
    fixed |= {"optimizer": keras.optimizers.SGD(), **QUIET}
    return kbert.finetune(bert, "classify", train=rows, **fixed, **options).bert.model.get_weights()


OF_FIT = {
    "class_weight": ({"class_weights": CLASS_WEIGHTS}, {"class_weight": {0: 0.5, 1: 1.0, 2: 3.0}}),
    "sample_weight": (
        {"sample_weight_column": "how_sure"},
        {"sample_weight": np.array(SAMPLE_WEIGHTS)},
    ),
    "both": (
        {"class_weights": CLASS_WEIGHTS, "sample_weight_column": "how_sure"},
        {"sample_weight": np.array(SAMPLE_WEIGHTS) * np.array([0.5, 1, 3, 0.5, 0.5, 1])},
    ),
}


@pytest.mark.parametrize("name", OF_FIT)
def test_step_is_that_of_fit_with_the_same_weights(source, name):
    options, weights = OF_FIT[name]
    before = source.model.get_weights()
    expected, plain = train_by_fit(source, **weights), train_by_fit(source)
    found = train_by_kbert(source, **options)
    for old, one, other, unweighted in zip(before, expected, found, plain, strict=True):
        scale = np.abs(one - old).max()
        np.testing.assert_allclose(other - old, one - old, rtol=2e-3, atol=2e-4 * scale + 1e-9)
        assert not scale or np.abs(one - unweighted).max() > 1e-2 * scale


def write_rows(path, between: str = ",", header: bool = True) -> None:
    """Write 30 texts with labels and weights as a table."""
    lines = [["label", "text", "how_sure"]] * header
    lines += [
        [NAMES[n % 2], f"a cat {TEXTS[n % 6].replace(',', '')}", str(n % 3)] for n in range(30)
    ]
    path.write_text("".join(f"{between.join(line)}\n" for line in lines))


def test_column_of_a_file_weighs_the_loss_and_no_metric(labelled, tmp_path):
    """The dev data have the column too, or not."""
    write_rows(tmp_path / "train.csv")
    options = {"train": tmp_path / "train.csv", "epochs": 1, "sample_weight_column": "how_sure"}
    done = tune(labelled, tmp_path / "run", dev=tmp_path / "train.csv", **options)
    kept = json.loads((tmp_path / "run" / "settings.json").read_text())
    assert kept["settings"]["sample_weight_column"] == "how_sure"
    assert kept["data"]["train"]["columns"]["weight"] == "how_sure"
    plain = kbert.evaluate(done.bert, "classify", tmp_path / "train.csv")
    assert done.metrics == pytest.approx(plain, rel=1e-5)
    of_run = kbert.evaluate(tmp_path / "run", "classify", labelled / "dev.tsv")
    assert "accuracy" in of_run
    rows = (labelled / "dev.tsv").read_text()
    (tmp_path / "dev.tsv").write_text("text\tlabel\n" + rows)
    tune(labelled, dev=tmp_path / "dev.tsv", **options)


def test_column_of_a_file_without_a_header_is_numbered(labelled, tmp_path):
    write_rows(tmp_path / "train.tsv", "\t", header=False)
    columns = {"label_column": "1", "text_column": "2", "sample_weight_column": 3}
    done = tune(labelled, train=tmp_path / "train.tsv", dev=None, no_header=True, **columns)
    assert done.bert.labels == NAMES[:2]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"class_weights": {"fine": 2.0}}, ("class_weights", "bad, good", "'fine'")),
        ({"class_weights": {"bad": -1.0}}, ("class_weights",)),
        ({"class_weights": {"bad": 0, "good": 0}}, ("class_weights",)),
        ({"class_weights": {}}, ("class_weights",)),
        ({"sample_weight_column": "sure"}, ("'sure'",)),
    ],
)
def test_weights_that_do_not_fit_are_refused(labelled, tmp_path, options, named):
    with raises(ValueError, *named):
        tune(labelled, tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("weight", [-0.5, "much", None, float("nan")])
def test_weight_that_is_no_number_is_refused_with_its_place(labelled, weight):
    rows = [{"text": "a", "label": n % 2, "w": 1.0} for n in range(5)]
    rows[3]["w"] = weight
    with raises(ValueError, "train[3]", '"w"'):
        kbert.finetune(labelled / "source", "classify", train=rows, sample_weight_column="w")
    with raises(ValueError, "sample_weight_column"):
        kbert.finetune(labelled / "source", "tag", train=rows, sample_weight_column="w")


@pytest.mark.parametrize("task", ["multilabel", "regress"])
def test_examples_of_weight_0_are_as_if_left_out(source, task):
    rows = [
        {"text": text, "label": ["x", "y"][: n % 3] if task == "multilabel" else n, "w": n % 2}
        for n, text in enumerate(TEXTS)
    ]
    encoder = dataclasses.replace(source, labels=None)
    options = {"epochs": 1, "batch_size": 6, **QUIET}
    losses = [
        kbert.finetune(encoder, task, train=data, **options, **more).history.updates[0]["loss"]
        for data, more in ((rows, {"sample_weight_column": "w"}), (rows[1::2], {}), (rows, {}))
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert losses[0] != pytest.approx(losses[2], rel=1e-3)


@pytest.mark.parametrize("kind", [BucketedBatches, PackedBatches])
def test_weights_of_a_step_sum_to_1_and_are_in_the_fingerprint(kind):
    ids = [[2, *range(5, 5 + n % 4), 3] for n in range(7)]
    data = ids, [[0] * len(row) for row in ids], {"a": [0, 1, 0, 1, 1, 0, 0]}
    weights = [0.5, 1.0, 2.0, 0.0, 4.0, 0.25, 1.0]
    options = {"batch_size": 7, "seed": 3, "pool": 1}
    weighted = kind(Examples(*data, weights=weights), **options)
    plain = kind(Examples(*data), **options)
    found, same = weighted.batch(0).weights["a"], plain.batch(0).weights["a"]
    assert found.sum() == pytest.approx(1) and same == pytest.approx(1 / 7)
    assert sorted(found) == pytest.approx(sorted(np.array(weights) / sum(weights)))
    assert weighted.fingerprint["examples"] != plain.fingerprint["examples"]
