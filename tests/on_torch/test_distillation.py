"""Runs with a teacher resume bit for bit, keep nothing of it, and refuse an unsuitable one."""

import dataclasses

import keras
import numpy as np
import pytest
from helpers.errors import raises
from helpers.interrupted_run import Copies
from helpers.labelled_texts import QUIET, tune, write_source
from helpers.run_shards import CONFIG, make_shards
from helpers.run_shards import VOCABULARY as OF_SHARDS
from helpers.small_berts import small_bert, small_berts

import kbert
from kbert.tasks.finetuning.run_request import request_finetuning
from kbert.tasks.finetuning.settings import FinetuningSettings
from kbert.tasks.finetuning.task import task_of
from kbert.training.losses.loss import compute_objective
from kbert.training.run_plan import Device

pytestmark = pytest.mark.full

DISTILLATION = {"temperature": 1.5, "alpha": 0.6, "hidden_loss": "mse", "hidden_loss_weight": 0.5}


@pytest.fixture(scope="module")
def heads(small):
    """A small model of each head."""
    return small_berts(dataclasses.replace(small, num_hidden_layers=1))


@pytest.fixture(scope="module")
def folder(tmp_path_factory, small):
    """train.tsv, and checkpoints: a student, its wider and deeper teacher, others."""
    folder = tmp_path_factory.mktemp("distillation")
    write_source(folder, small, train=32, dev=11)
    wide = dataclasses.replace(small, num_hidden_layers=2, hidden_size=28)
    found = small_bert(wide, "classifier")
    model = kbert.build_classifier(wide, seq_len=None, num_labels=2)
    random = np.random.default_rng(6)
    for weight in model.weights:
        weight.assign(random.normal(0, 0.3, weight.shape))
    teacher = dataclasses.replace(found, model=model, labels=("bad", "good"))
    kbert.save(teacher, folder / "teacher")
    kbert.save(dataclasses.replace(teacher, labels=("bad", "worse")), folder / "labels")
    kbert.save(found, folder / "five")
    tokens = list(reversed(teacher.tokenizer.tokens))
    tokens.remove("[PAD]")
    other = kbert.Tokenizer.from_vocab(["[PAD]", *tokens], lowercase=True)
    kbert.save(dataclasses.replace(teacher, tokenizer=other), folder / "vocabulary")
    return folder


def distilled(folder, **options):
    return tune(folder, **{"teacher": folder / "teacher", "save_every": 3} | DISTILLATION | options)


@pytest.mark.full
def test_resume_of_distillation_is_bit_equal(folder, tmp_path):
    """With dropout, a learned projection (24 to 28) and its moments; the teacher is a place."""
    copies = Copies(tmp_path / "whole", tmp_path / "run", 5, state=3)
    whole = distilled(folder, output=tmp_path / "whole", callbacks=[copies])
    moved = (folder / "teacher").rename(folder / "moved")
    try:
        with raises(OSError, "teacher"):
            kbert.resume(tmp_path / "run", **QUIET)
        with raises(ValueError, "data.teacher"):
            kbert.resume(tmp_path / "run", teacher=other_weights(moved), **QUIET)
        again = kbert.resume(tmp_path / "run", teacher=moved, **QUIET)
    finally:
        moved.rename(folder / "teacher")
    names = [layer.name for layer in whole.bert.model.layers]
    assert names == [layer.name for layer in kbert.build_classifier(**of(whole)).layers]
    np.testing.assert_equal(whole.bert.model.get_weights(), again.bert.model.get_weights())
    lines = [whole.history.updates[place] for place in (0, -1)]
    assert lines[1]["Teacher-Hidden-1_loss"] < lines[0]["Teacher-Hidden-1_loss"]
    assert again.history.updates[-1]["loss"] == lines[1]["loss"]
    assert set(again.metrics) == {"loss", "accuracy", "f1", "matthews"}


def of(tuned) -> dict:
    return {"config": tuned.bert.config, "seq_len": None, "num_labels": 2}


def other_weights(folder):
    bert = kbert.load(folder)
    bert.model.layers[-1].set_weights([array + 1 for array in bert.model.layers[-1].get_weights()])
    return bert


@pytest.mark.parametrize(
    "options, said",
    [
        ({"teacher": "vocabulary"}, ("teacher", "vocabulary", "99")),
        (
            {"teacher": "labels"},
            ("teacher", "bad, good", "bad, wor"),
        ),
        ({"teacher": "five"}, ("teacher", "0, 1, 2, 3, 4", "alpha")),
        ({"teacher": "source"}, ("'classifier'", "'encoder'")),
        (
            {"alpha": 0, "hidden_loss": None},
            ("alpha", "hidden_loss"),
        ),
        ({"alpha": 1.5}, ("alpha",)),
        ({"hidden_loss": "all"}, ("hidden_loss", "mse", "cosine", "'all'")),
        ({"temperature": 0}, ("temperature", "0", "got 0")),
        ({"packing": True}, ("packing", "teacher")),
        ({"teacher": None}, ("temperature", "teacher", "1.5")),
    ],
)
def test_unsuitable_teacher_is_one_line_error(folder, options, said):
    if options.get("teacher"):
        options = options | {"teacher": folder / options["teacher"]}
    with raises(ValueError, *said) as error:
        distilled(folder, **options)
    assert "\n" not in str(error.value)


def test_hidden_loss_alone_takes_a_teacher_of_other_labels(folder):
    options = {"alpha": 0, "hidden_loss": "cosine", "epochs": 1}
    line = distilled(folder, teacher=folder / "five", **options).history.updates[0]
    assert "Teacher-Classifier_loss" not in line
    assert line["Teacher-Hidden-1_loss"] == pytest.approx(1 - line["Teacher-Hidden-1_cosine"])
    assert line["loss"] == pytest.approx(
        line["Classifier_loss"] + 0.5 * line["Teacher-Hidden-1_loss"]
    )


@pytest.mark.full
def test_hidden_projection_is_trained_with_lora(folder):
    """LoRA freezes the student's blocks, and nothing of what learns beside them."""
    lines = distilled(folder, lora_rank=2, hidden_loss_weight=5.0).history.updates
    losses = [[line[f"Teacher-Hidden-{n}_loss"] for line in (lines[0], lines[-1])] for n in (0, 1)]
    assert all(last < first for first, last in losses)


ROWS = {
    "regress": [("cat dog", 1.5), ("sun", 0.25), ("red tree moon", 4.0)],
    "multilabel": [("cat dog", ["a", "b"]), ("sun", ["c"]), ("red tree moon", [])],
    "tag": [(["cat", "sat"], ["O", "B-x"]), (["sun"], ["O"]), (["red", "moon", "mat"], ["O"] * 3)],
    "qa": [
        {
            "id": str(place),
            "question": "who",
            "context": f"the {word} sat",
            "answers": {"text": [word], "answer_start": [4]},
        }
        for place, word in enumerate(("cat", "dog", "sun"))
    ],
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.full] * (name != "qa")) for name in ROWS]
)
def test_every_task_has_its_distillation_loss(heads, name):
    """A student that predicts as the teacher has no loss; another one has the formula's."""
    labels = {"regress": 1, "multilabel": 3, "tag": 2}.get(name)
    teacher = heads[{"tag": "tokens", "qa": "qa"}.get(name, "classifier")]
    if labels:
        build = kbert.build_token_classifier if name == "tag" else kbert.build_classifier
        names = {"multilabel": ("a", "b", "c"), "tag": ("B-x", "O")}.get(name)
        model = build(teacher.config, seq_len=None, num_labels=labels)
        teacher = dataclasses.replace(teacher, model=model, labels=names)
    settings = FinetuningSettings(alpha=1.0, batch_size=3, temperature=1.5)
    sources = {"source": heads["encoder"], "train": ROWS[name], "dev": None}
    request = request_finetuning(task_of(name), settings, sources | {"teacher": teacher})
    plan = request.plan(request, request.read(request), Device(compiled=False))
    batch = plan.batches.batch(0)
    assert set(batch.labels) == {f"Teacher-{output}" for output in plan.model.spec.outputs}
    said = {key.removeprefix("Teacher-"): value for key, value in batch.labels.items()}
    if name == "regress":
        said = {key: value[:, None] for key, value in said.items()}
    for shift, much in ((0.0, False), (1.0, True)):
        outputs = {
            key: value + shift * np.arange(value.shape[-1]) + shift for key, value in said.items()
        }
        given = outputs, batch.labels, batch.weights
        tensors = keras.tree.map_structure(keras.ops.convert_to_tensor, given)
        loss, _ = compute_objective(*tensors, plan.losses)
        assert (float(loss) > 1e-2) == much and (much or abs(float(loss)) < 1e-6)


@pytest.mark.full
def test_student_with_teacher_weights_has_no_distillation_loss(tmp_path):
    """A student with its teacher's weights says what it says; without dropout."""
    make_shards(tmp_path)
    sizes = CONFIG | {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config = kbert.BertConfig(**sizes | {"vocab_size": len(OF_SHARDS)})
    model = kbert.build_bert(config, seq_len=None)
    tokenizer = kbert.open_shards(tmp_path / "shards").tokenizer
    kbert.save(kbert.Bert(config, "pretraining", model, tokenizer), tmp_path / "teacher")
    auxiliary_losses = {"teacher": tmp_path / "teacher", "hidden_loss": "cosine"}
    options = {
        "steps": 3,
        "batch_size": 6,
        "seq_len": 17,
        "dev_ratio": 0,
        **auxiliary_losses,
        **QUIET,
    }
    trained = kbert.pretrain(
        tmp_path / "shards", init=tmp_path / "teacher", output=tmp_path / "run", **options
    )
    line = trained.history.updates[0]
    assert line["Teacher-MLM_loss"] == pytest.approx(0, abs=1e-6)
    assert line["Teacher-NSP_loss"] == pytest.approx(0, abs=1e-6)
    assert line["Teacher-Hidden-1_cosine"] == pytest.approx(1)
    hard = line["MLM_loss"] + line["NSP_loss"]
    assert line["loss"] == pytest.approx(0.5 * hard, rel=1e-5)
    with raises(ValueError, "vocabulary"):
        kbert.pretrain(
            tmp_path / "shards", output=tmp_path / "no", **options | {"teacher": other(config)}
        )


def other(config):
    return small_bert(config, "pretraining")
