"""A classifier's `problem_type` decides what its outputs are, as in transformers' pipeline."""

import dataclasses
import json

import numpy as np
import pytest
from helpers.command_line import kbert as kbert_command
from helpers.errors import raises
from helpers.peer_tasks import VOCABULARY
from numpy.testing import assert_allclose

import kbert

TEXTS = ["cat dog", "red sun"]
REGRESSION = "regression"


@pytest.fixture(scope="module")
def regression(berts):
    """A model that predicts five numbers."""
    return dataclasses.replace(berts["classifier"], problem_type=REGRESSION)


@pytest.fixture(scope="module")
def outputs(regression):
    """The model's outputs for both texts, which have as many tokens, (2, 5)."""
    encodings = [regression.tokenizer.encode(text) for text in TEXTS]
    ids = np.array([encoding.ids for encoding in encodings], "int32")
    return np.asarray(regression.model.predict_on_batch([ids, np.zeros_like(ids)]))


def values_by_label(rows) -> list[dict]:
    return [{one.label: one.value for one in row} for row in rows]


@pytest.mark.full
def test_regression_of_several_outputs_is_not_changed(regression, outputs):
    assert_allclose(kbert.regress(regression, TEXTS), outputs, atol=1e-5)
    assert_allclose(kbert.regress(regression, TEXTS[1]), outputs[1], atol=1e-5)
    found = kbert.classify(regression, TEXTS)
    for row, numbers in zip(values_by_label(found), outputs, strict=True):
        assert_allclose([row[f"LABEL_{n}"] for n in range(5)], numbers, atol=1e-5)
    assert [one.value for one in found[0]] == sorted((one.value for one in found[0]), reverse=True)
    ranked = kbert.rank(regression, TEXTS[0], TEXTS, label="LABEL_3")
    pairs = kbert.regress(regression, TEXTS[:1] * 2, TEXTS)
    assert [hit.score for hit in ranked] == pytest.approx(sorted(pairs[:, 3], reverse=True))
    attribution = kbert.attribute(regression, TEXTS[0], target="LABEL_2", steps=4)
    assert attribution.value == pytest.approx(outputs[0, 2], abs=1e-4)


def test_a_probability_that_is_asked_for_is_one(regression):
    (row,) = kbert.classify(regression, TEXTS[:1], multi_label=False)
    assert sum(label.probability for label in row) == pytest.approx(1)


def test_regression_is_no_classifier_and_no_teacher_of_one(regression):
    data = [("cat", "0"), ("sun", "4")]
    with raises(ValueError, "regression"):
        kbert.evaluate(regression, "classify", data)
    student = dataclasses.replace(regression, problem_type=None)
    named = tuple("abcde")
    teacher = dataclasses.replace(regression, labels=named)
    rows = [("cat", label) for label in named]
    with raises(ValueError, "regression"):
        kbert.finetune(student, "classify", train=rows, teacher=teacher, alpha=0.5, epochs=1)


@pytest.mark.parametrize(
    ("problem_type", "task", "fitting"),
    [
        ("single_label_classification", "multilabel", "classify"),
        ("multi_label_classification", "classify", "multilabel"),
        ("multi_label_classification", "regress", "multilabel"),
        (REGRESSION, "multilabel", "regress"),
    ],
)
def test_model_is_not_evaluated_as_another_kind(regression, problem_type, task, fitting):
    data = [("cat", "0"), ("sun", "4")]
    bert = dataclasses.replace(regression, problem_type=problem_type)
    with raises(ValueError, "problem_type", problem_type, fitting):
        kbert.evaluate(bert, task, data)
    if fitting != "regress":
        assert "f1" in kbert.evaluate(bert, fitting, data)
        assert "f1" in kbert.evaluate(dataclasses.replace(bert, problem_type=None), fitting, data)


@pytest.mark.full
@pytest.mark.parametrize("num_labels", [1, 3])
@pytest.mark.parametrize("problem_type", [None, REGRESSION, "multi_label_classification"])
def test_numbers_are_those_of_transformers_pipeline(tmp_path, capsys, problem_type, num_labels):
    """Python and the command line, of checkpoints that transformers wrote."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(num_labels)
    config = transformers.BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=12,
        max_position_embeddings=16,
        num_labels=num_labels,
        problem_type=problem_type,
        initializer_range=1.0,
    )
    model = transformers.BertForSequenceClassification(config).eval()
    model.save_pretrained(tmp_path)
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    tokenizer = transformers.BertTokenizerFast(str(tmp_path / "vocab.txt"))
    pipeline = transformers.pipeline("text-classification", model, tokenizer=tokenizer, top_k=None)
    wanted = [{one["label"]: one["score"] for one in row} for row in pipeline(TEXTS)]
    field = "value" if problem_type == REGRESSION else "probability"

    found = kbert.classify(kbert.load(tmp_path), TEXTS)
    printed = json.loads(
        kbert_command(capsys, "classify", tmp_path, *TEXTS, "--format", "json").out
    )
    for row, line, expected in zip(found, printed, wanted, strict=True):
        assert {one.label: getattr(one, field) for one in row} == pytest.approx(expected, abs=1e-5)
        told = {one["label"]: one[field] for one in line["labels"]}
        assert told == pytest.approx(expected, abs=1e-5)

    if problem_type == REGRESSION:
        numbers = np.array([[row[f"LABEL_{n}"] for n in range(num_labels)] for row in wanted])
        found = kbert.regress(kbert.load(tmp_path), TEXTS)
        assert_allclose(found.reshape(numbers.shape), numbers, atol=1e-5)
        table = kbert_command(capsys, "regress", tmp_path, *TEXTS).out.splitlines()
        shown = [[float(cell) for cell in line.split("  ")[:num_labels]] for line in table]
        assert_allclose(shown, numbers, atol=1e-4)
