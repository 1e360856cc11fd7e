"""Fine-tuning a classifier end to end, one text in a row or several: it learns and resumes."""

import dataclasses
import functools
import json
import shutil

import numpy as np
import pytest
from helpers.command_line import kbert as kbert_command
from helpers.errors import check_logged, check_named, raises
from helpers.interrupted_run import Beginning, Copies, assert_states_equal
from helpers.labelled_texts import QUIET, SETTINGS, read_texts, tune, write_source, write_texts
from helpers.sample_data import ANSWERED, TAGGED, sample_bert
from helpers.small_berts import small_berts

import kbert
from kbert.cli.finetuning_commands import finetune as finetune_command
from kbert.data.labelled.length_buckets import BucketedBatches, Examples
from kbert.data.labelled.packed_batches import PackedBatches
from kbert.graph.names import CLASSIFIER, PACKED_TEXTS, POOLER, QUERIES, encoder
from kbert.graph.spec import GraphSpec
from kbert.tasks.answering.squad import read_squad
from kbert.tasks.classification.reading import Labelled
from kbert.tasks.finetuning.batches import mean_flops
from kbert.tasks.finetuning.settings import FinetuningSettings

pytestmark = pytest.mark.full
STEPS = 60  # 10 epochs of 66 examples: 5 batches of 13 and one of 1, or 6 of 11
LONG = {"epochs": 10, "save_every": 5, "keep_checkpoints": True}
PACKED = {"packing": True}
RUNS = {"plain": {}, "packed": PACKED}


@pytest.fixture(scope="module")
def berts(small):
    return small_berts(dataclasses.replace(small, num_hidden_layers=1))


@pytest.fixture(scope="module")
def folder(tmp_path_factory, small):
    return write_source(tmp_path_factory.mktemp("finetuning"), small, train=66)


@pytest.fixture(scope="module")
def whole(folder):
    """Runs by name that nothing stops; "crashed NAME" is a run's folder in the middle."""

    @functools.cache
    def run(name: str):
        copies = Copies(folder / name, folder / f"crashed {name}", 23, state=20)
        return tune(folder, folder / name, callbacks=[copies], **LONG, **RUNS[name])

    return run


@pytest.mark.parametrize("name", RUNS)
def test_finetuning_learns(whole, folder, name):
    losses = [line["Classifier_loss"] for line in whole(name).history.updates]
    assert len(losses) == STEPS
    assert np.mean(losses[-6:]) < 0.5 * np.mean(losses[:6])
    assert whole(name).bert.labels == ("bad", "good")
    assert whole(name).metrics["accuracy"] > 0.9
    settings = json.loads((folder / name / "settings.json").read_text())["settings"]
    assert settings["packing"] is (name != "plain")
    assert (len(settings["lengths"]) == 1) is (name != "plain")


def test_metrics_match_the_classify_probabilities(whole, folder):
    """The same by kbert.classify's probabilities, which go through other batches."""
    metrics = kbert.evaluate(whole("plain").bert, "classify", folder / "dev.tsv")
    assert metrics == pytest.approx(whole("plain").metrics, rel=1e-4)
    texts, labels = read_texts(folder / "dev.tsv")
    found = kbert.classify(whole("plain").bert, texts)
    probabilities = [
        next(one.probability for one in row if one.label == label)
        for row, label in zip(found, labels, strict=True)
    ]
    assert metrics["loss"] == pytest.approx(-np.mean(np.log(probabilities)), rel=1e-3)
    hits = np.mean([row[0].label == label for row, label in zip(found, labels, strict=True)])
    assert hits == pytest.approx(metrics["accuracy"])


@pytest.mark.parametrize("name", RUNS)
def test_run_folder_holds_the_trained_plain_model(whole, folder, name):
    metrics, plain = whole(name).metrics, kbert.load(folder / "source").model.input_names
    result = json.loads((folder / name / "result.json").read_text())
    assert result["metrics"] == pytest.approx(metrics)
    for file in ("model", "model.keras"):
        bert = kbert.load(folder / name / file)
        assert (bert.labels, bert.model.input_names) == (("bad", "good"), plain)
        assert not (bert.model.spec.packed or bert.model.spec.selected_positions)
        found = kbert.evaluate(folder / name / file, "classify", folder / "dev.tsv")
        assert found == pytest.approx(metrics, rel=1e-4)
    assert whole(name).bert.model.input_names == plain
    again = kbert.resume(folder / name, **QUIET)  # finished: opened
    assert again.metrics == pytest.approx(metrics)


@pytest.mark.parametrize("name", RUNS)
def test_resume_after_crash_is_bit_equal(whole, folder, tmp_path, name):
    """Dropout on; what kills do is in test_run_kills.py."""
    expected = whole(name)
    output = shutil.copytree(folder / f"crashed {name}", tmp_path / "run")
    tuned = kbert.resume(output, **QUIET)
    assert_states_equal(folder / name, output, STEPS)
    np.testing.assert_equal(expected.bert.model.get_weights(), tuned.bert.model.get_weights())
    assert tuned.metrics == expected.metrics and tuned.intervals == expected.intervals != {}
    assert tuned.bert.card == expected.bert.card
    losses, others = ([line["loss"] for line in one.history.updates] for one in (expected, tuned))
    assert losses == others


def test_resume_refuses_other_data_or_settings(whole, folder, tmp_path):
    whole("packed")
    crashed = folder / "crashed packed"
    with raises(ValueError, "learning_rate"):
        kbert.resume(crashed, learning_rate=1.0, **QUIET)
    with raises(ValueError, "epochs", "finetune("):
        kbert.resume(crashed, epochs=9, **QUIET)
    with raises(ValueError, "packing", "true", "false"):
        kbert.resume(crashed, packing=False, **QUIET)
    write_texts(tmp_path / "train.tsv", 66, 9)
    with raises(ValueError, "data.train.examples"):
        kbert.resume(crashed, train=tmp_path / "train.tsv", **QUIET)
    file = shutil.copytree(crashed, tmp_path / "moved") / "settings.json"
    gone = f"{folder}-gone/train.tsv"
    file.write_text(file.read_text().replace(str(folder / "train.tsv"), gone))
    with raises(FileNotFoundError, gone, "--train"):
        kbert.resume(tmp_path / "moved", **QUIET)
    with raises(FileExistsError, f"kbert.resume({str(crashed)!r})"):
        tune(folder, crashed)


@pytest.mark.parametrize(
    "options", [{}, {"gradient_checkpointing": True}, {"lora_rank": 2, "lora_dropout": 0.1}]
)
def test_packed_run_trains_the_packed_graph(folder, options):
    begun = Beginning()
    with raises(RuntimeError, "begun"):
        tune(folder, callbacks=[begun], **PACKED, **options)
    assert {PACKED_TEXTS, encoder(1, QUERIES)} <= set(begun.weights)


ANSWERS = {"epochs": 20, "batch_size": 8, "learning_rate": 2e-3, "evaluate_every": 6}
TAGS = {"epochs": 25, "batch_size": 8, "learning_rate": 3e-3, "evaluate_every": 14}


@pytest.mark.parametrize(
    ("task", "options", "before", "after"),
    [
        ("qa", ANSWERS | {"max_length": 128}, 0.3, 0.6),
        ("tag", TAGS | {"max_length": 64}, 0.1, 0.5),
    ],
)
def test_a_real_sample_is_learned(task, options, before, after):
    """Every question has an answer: none is right by saying that there is none."""
    data = TAGGED if task == "tag" else [one for one in read_squad(ANSWERED) if one.answers]
    tuned = kbert.finetune(sample_bert(), task, train=data, dev=data, seed=3, **options, **QUIET)
    first, *_, last = tuned.history.evaluations
    assert last["val_loss"] < 0.3 * first["val_loss"]
    assert first["val_f1"] < before and tuned.metrics["f1"] > after


def test_flops_count_the_lengths_of_batches(berts):
    """The matrix products by hand, 2 FLOPs a multiply-add, three times the forward pass."""
    ids = [[1] * size for size in (3, 3, 4, 7, 8)]
    examples = Examples(ids, ids, {CLASSIFIER: [0, 1, 0, 1, 0]})
    batches = BucketedBatches(examples, batch_size=2, lengths=(4, 8), pool=3)
    assert sorted(batches.lengths_in(0)) == [4, 8, 8]  # two, of 3 and 4 or 7, and 8 alone
    config = berts["encoder"].config
    spec = GraphSpec(config, "classifier", num_labels=3)
    hidden, wide = config.hidden_size, config.intermediate_size

    def forward(length):
        projections = 4 * length * hidden**2 + 2 * length * hidden * wide
        return 2 * (projections + 2 * length**2 * hidden + hidden**2 + hidden * 3)

    expected = 3 * 2 * (forward(4) + 2 * forward(8)) / 3
    assert mean_flops(spec, batches) == expected


def test_flops_count_packed_rows(small):
    """By the accounting's of a sequence as long as a row, times the rows."""
    ids = [[1] * 8] * 12  # two in a row
    examples = Examples(ids, ids, {CLASSIFIER: [0] * 12})
    batches = PackedBatches(examples, batch_size=12, row_length=17)
    spec = GraphSpec(small, "classifier", num_labels=5)
    account = kbert.account(small, 17, head="classifier", num_labels=5)
    assert batches.shapes_in(0) == [(6, 17)]
    assert mean_flops(spec, batches) == 6 * account.training_flops_per_sequence


@pytest.fixture
def begun(folder):
    """The weights that training begins with, by layer."""

    def begin(bert):
        seen = Beginning()
        with raises(RuntimeError, "begun"):
            tune(folder, source=bert, callbacks=[seen])
        return seen.weights

    return begin


def test_head_with_same_labels_is_reused(berts, begun, messages):
    """In any order; see test_label_runs.py for what it then computes."""
    model = kbert.build_classifier(berts["encoder"].config, num_labels=2, seq_len=None)
    same = dataclasses.replace(berts["classifier"], model=model, labels=("good", "bad"))
    other = dataclasses.replace(same, labels=("good", "worse"))
    first = begun(same)
    assert "worse" not in "".join(messages)
    second = begun(other)
    check_logged(messages, "good, worse", "bad, good")
    for layer in model.layers:
        for mine, one, two in zip(
            layer.get_weights(), first[layer.name], second[layer.name], strict=True
        ):
            assert np.array_equal(mine, one)
            anew = layer.name == CLASSIFIER and mine.ndim == 2
            assert np.array_equal(mine, two) != anew


def test_newly_initialized_layers_are_reported(berts, begun, messages):
    begun(berts["qa"])
    check_logged(messages, POOLER)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"task": "sort"}, ("classify, regress, multilabel, tag, qa, choice, embed",)),
        ({"epoch": 3}, ("finetune", "'epoch'", "epochs")),
        ({"precision": "half"}, ("precision", "float32, mixed_bfloat16")),
        ({"lengths": (8, 4)}, ("lengths",)),
        ({"lengths": (4, 8)}, ("8 tokens",)),
        ({"dev": [Labelled("a cat", "fine", None, "dev.tsv, line 7")]}, ("dev.tsv", "line 7")),
        ({"train": []}, ("train", "classify")),
        ({"accumulation_steps": 3}, ("batch_size", "3")),
        (PACKED | {"lengths": (8, 16)}, ("lengths",)),
        (PACKED | {"lengths": (4,)}, ("row_length",)),
        (PACKED | {"task": "qa"}, ("packing", "got qa")),
        (PACKED | {"accumulation_steps": 3}, ("batch_size", "3")),
    ],
)
def test_bad_finetune_arguments_are_one_line_errors(folder, options, said):
    data = {"train": folder / "train.tsv", "dev": folder / "dev.tsv"}
    options = {"task": "classify"} | data | SETTINGS | QUIET | options
    with raises(ValueError, *said) as error:
        kbert.finetune(folder / "source", options.pop("task"), **options)
    assert "\n" not in str(error.value)


def test_label_outside_the_range_is_named(berts, tmp_path):
    (tmp_path / "dev.tsv").write_text("a cat\t4\na dog\t5\n")
    with raises(ValueError, "dev.tsv, line 2", "label", "0, 1, 2, 3, 4", "'5'"):
        kbert.evaluate(berts["classifier"], "classify", tmp_path / "dev.tsv")
    with raises(ValueError, "classifier"):
        kbert.evaluate(berts["encoder"], "classify", tmp_path / "dev.tsv")


def test_finetune_and_evaluate_commands(folder, tmp_path, capsys, whole):
    output = tmp_path / "run"
    data = ("--train", folder / "train.tsv", "--dev", folder / "dev.tsv", "-o", output)
    settings = ("--epochs", "1", "--batch-size", "33", "--quiet")
    status, out, err = kbert_command(
        capsys, "finetune", folder / "source", "--task", "classify", *data, *settings
    )
    lines = err.splitlines()  # what is learned, and that all predictions may be one label
    assert status == 0 and lines[0].startswith("kbert: train: 66 examples, 2 labels: bad (33), ")
    assert all(line.startswith(("kbert: train:", "kbert: dev:", "kbert: the")) for line in lines)
    assert "accuracy 0." in out or "accuracy 1." in out
    assert f"wrote {output / 'model'}" in out and "not evaluated" not in out
    status, out, _ = kbert_command(capsys, "finetune", "--resume", output)
    assert (status, "accuracy" in out, "wrote" in out) == (0, True, False)
    check_named(out, output, "finished")
    status, out, err = kbert_command(capsys, "finetune", "--resume", output, "--epochs", 9)
    assert (status, out) == (2, "") and "epochs" in err
    asked = ("--task", "classify", "--data", folder / "dev.tsv")
    metrics, model = whole("plain").metrics, folder / "plain" / "model"
    status, out, _ = kbert_command(capsys, "evaluate", model, *asked, "--format", "json")
    assert (status, json.loads(out)) == (0, pytest.approx(metrics, rel=1e-4))
    status, out, _ = kbert_command(capsys, "evaluate", model, *asked)
    assert f"accuracy  {metrics['accuracy']:.4f}" in out


def test_every_finetuning_setting_is_an_option():
    options = {option.name: option.help for option in finetune_command.params[1:]}
    fields = {field.name: field.default for field in dataclasses.fields(FinetuningSettings)}
    others = {"task", "train", "dev", "output", "run", "devices", "peak_flops", "quiet"}
    others |= {"keep_checkpoints", "report_examples", "steps_per_execution", "profile", "teacher"}
    others |= {"settings_file", "print_settings"}
    assert set(options) - others == set(fields) - {"lengths", "optimizer", "metrics"}
    for name in set(fields) & set(options):
        default = fields[name]
        if isinstance(default, (int, float, str)) and not isinstance(default, bool):
            assert f"Default: {default}." in options[name]
