"""Runs with the user's own loss, metrics and score: recorded, with intervals, and resumed."""

import json
import shutil

import keras
import numpy as np
import pytest
from helpers.command_line import kbert as kbert_command
from helpers.errors import check_logged, raises
from helpers.interrupted_run import Copies, assert_states_equal
from helpers.labelled_texts import QUIET, read_texts, tune
from keras import ops

import kbert
from kbert.training.run.run_folder import RunFolder
from kbert.training.settings.setting_rules import check_settings
from kbert.training.settings.user_objects import write_resume_call

pytestmark = pytest.mark.full

LONG = {"epochs": 4, "save_every": 3, "keep_checkpoints": True}


def focal_loss(labels, logits, gamma=2.0, alpha=0.25):
    """Lin et al. 2017, equation 5."""
    log_probs = ops.log_softmax(logits, axis=-1)
    log_prob = ops.take_along_axis(log_probs, ops.expand_dims(labels, -1), axis=-1)[..., 0]
    return -alpha * (1 - ops.exp(log_prob)) ** gamma * log_prob


def other_loss(labels, logits):
    return focal_loss(labels, logits)


def error_rate(labels, logits):
    assert labels.shape == logits.shape[:1]
    return np.mean(logits.argmax(1) != labels)


def recalls(labels, logits):
    hits = logits.argmax(1) == labels
    recalls = {f"recall_{name}": hits[labels == n].mean() for n, name in enumerate(("bad", "good"))}
    return recalls | {"margin": np.abs(logits[:, 1] - logits[:, 0]).mean()}


def make_auc():
    return keras.metrics.SparseTopKCategoricalAccuracy(1, name="top_1")


OWN = {"loss": focal_loss, "metrics": [error_rate, recalls], "score": "-error_rate"}


@pytest.fixture(scope="module")
def whole(labelled, tmp_path_factory):
    """A run with all of them that nothing stops, and its folder in the middle."""
    folder = tmp_path_factory.mktemp("own")
    copies = Copies(folder / "whole", folder / "crashed", 8, state=6)
    own = OWN | {"metrics": [*OWN["metrics"], make_auc()]}
    return tune(labelled, folder / "whole", callbacks=[copies], **LONG, **own)


def test_metrics_stand_beside_the_tasks_in_records_result_and_report(whole):
    metrics = whole.metrics
    assert metrics["error_rate"] == pytest.approx(1 - metrics["accuracy"])
    assert metrics["top_1"] == pytest.approx(metrics["accuracy"])
    assert np.mean([metrics["recall_bad"], metrics["recall_good"]]) == pytest.approx(
        metrics["accuracy"], abs=0.1
    )
    evaluations = whole.history.evaluations
    assert {f"val_{name}" for name in metrics} <= set(evaluations[-1])
    report = (whole.folder / "report.html").read_text()
    assert all(name in report for name in ("error rate", "recall bad", "top_1"))
    result = json.loads((whole.folder / "result.json").read_text())
    assert result["metrics"] == pytest.approx(metrics)


def test_score_of_a_lower_metric_chooses_the_weights(whole):
    rates = [line["val_error_rate"] for line in whole.history.evaluations]
    assert whole.metrics["error_rate"] == min(rates)


def test_functions_have_intervals_and_keras_metrics_have_none(whole):
    intervals = whole.intervals
    low, high = intervals["error_rate"]
    assert (1 - high, 1 - low) == pytest.approx(intervals["accuracy"], abs=0.1)
    assert "margin" in intervals and "top_1" not in intervals
    report = (whole.folder / "report.html").read_text()
    assert "No interval" in report


def test_dev_loss_is_the_users(whole, labelled):
    texts, gold = read_texts(labelled / "dev.tsv")
    found = kbert.classify(whole.bert, texts, progress=False)
    pairs = zip(found, gold, strict=True)
    probs = np.array([next(x.probability for x in row if x.label == y) for row, y in pairs])
    expected = np.mean(-0.25 * (1 - probs) ** 2 * np.log(probs))
    assert whole.metrics["loss"] == pytest.approx(expected, rel=1e-3)


def test_settings_keep_the_object_and_the_functions_name(whole):
    settings = json.loads((whole.folder / "settings.json").read_text())["settings"]
    assert settings["loss"] == {"function": f"{__name__}.focal_loss"}
    assert settings["metrics"][0] == {"function": f"{__name__}.error_rate"}
    assert settings["metrics"][2]["class_name"] == "SparseTopKCategoricalAccuracy"
    assert "focal_loss" in (whole.folder / "model" / "README.md").read_text()


def test_resumed_run_is_bit_equal_with_the_same_functions(whole, tmp_path):
    output = shutil.copytree(whole.folder.parent / "crashed", tmp_path / "run")
    own = {"loss": focal_loss, "metrics": [error_rate, recalls, make_auc()]}
    done = kbert.resume(output, **own, **QUIET)
    assert_states_equal(whole.folder, output, 12)
    assert done.metrics == whole.metrics and done.intervals == whole.intervals


def test_resumed_run_asks_for_its_functions(whole, tmp_path, capsys):
    output = shutil.copytree(whole.folder.parent / "crashed", tmp_path / "run")
    call = ("kbert.resume(", "loss=focal_loss, metrics=[error_rate, recalls, ")
    with raises(ValueError, *call):
        kbert.resume(output, **QUIET)
    with raises(ValueError, "metrics=["):
        kbert.resume(output, loss=focal_loss, **QUIET)
    with raises(ValueError, "loss.function", "focal", "other"):
        kbert.resume(output, loss=other_loss, **QUIET)
    printed = kbert_command(capsys, "finetune", "--resume", output)
    assert printed.status == 2 and "loss=focal_loss" in printed.err
    assert printed.err.count("\n") == 1


def test_run_on_data_in_memory_asks_for_all_that_it_needs(labelled, tmp_path, capsys, messages):
    """The advice of each error leads to a resumed run, whatever was in memory."""
    data = {name: read_texts(labelled / f"{name}.tsv") for name in ("train", "dev")}
    copies = Copies(tmp_path / "whole", tmp_path / "run", 8, state=6)
    whole = tune(labelled, tmp_path / "whole", callbacks=[copies], **LONG, **OWN, **data)
    output, functions = tmp_path / "run", {"loss": focal_loss, "metrics": OWN["metrics"]}
    call = ("kbert.resume(", "train=…, dev=…, loss=focal_loss, metrics=[error_rate, recalls")
    for given in ({}, functions, functions | {"train": data["train"]}):
        with raises(ValueError, *call):
            kbert.resume(output, **given, **QUIET)
    printed = kbert_command(capsys, "finetune", "--resume", output)
    assert printed.status == 2 and "train=…, dev=…, loss=focal_loss" in printed.err
    assert RunFolder.open(output).resume_command.endswith("metrics=[error_rate, recalls])")
    assert "train=…, dev=…" in RunFolder.open(output).resume_command

    done = kbert.resume(output, **functions, **data, **QUIET)
    assert done.metrics == whole.metrics
    check_logged(messages, output, "step 6 of 12")


def across_classes(labels, logits):
    """Compare labels with logits along the wrong axis, where both happen to be as many."""
    return ops.mean(ops.square(ops.cast(labels, "float32") - logits), -1)


def logarithm(labels, logits):
    """Take logits for probabilities."""
    return -ops.log(logits[..., 0])


def nothing(labels, logits):
    return {}


PROBABILITIES = keras.metrics.MeanMetricWrapper(keras.losses.sparse_categorical_crossentropy)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"loss": lambda labels, logits: labels}, ("loss", "def")),
        ({"loss": keras.losses.BinaryCrossentropy()}, ("loss", "from_logits=True")),
        ({"loss": keras.losses.Huber(delta=0.5)}, ("loss", "Huber")),
        ({"loss": keras.losses.Huber}, ("loss", "Huber")),
        ({"loss": keras.losses.MeanSquaredError(reduction="sum")}, ("loss", "reduction")),
        ({"loss": "huber"}, ("loss", "cross_entropy", "classify", "huber")),
        ({"loss": keras.losses.CategoricalCrossentropy}, ("CategoricalCrossentropy",)),
        ({"loss": focal_loss, "label_smoothing": 0.1}, ("label_smoothing", "focal_loss")),
        ({"loss": np.mean}, ("loss", "mean")),
        ({"loss": across_classes, "batch_size": 2}, ("loss", "across_classes")),
        ({"loss": keras.losses.MeanSquaredError()}, ("loss", "mean_squared_error")),
        ({"loss": keras.losses.CategoricalGeneralizedCrossEntropy()}, ("loss", "probabilities")),
        ({"loss": keras.losses.Circle()}, ("loss", "Circle", "embeddings")),
        ({"loss": logarithm}, ("loss", "logarithm")),
        ({"metrics": [nothing]}, ("metrics", "nothing")),
        ({"metrics": [PROBABILITIES]}, ("metrics", "MeanMetricWrapper", "from_logits")),
        ({"metrics": [keras.metrics.AUC()]}, ("metrics", "AUC", "from_logits")),
        ({"metrics": [keras.metrics.Precision()]}, ("metrics", "Precision", "threshold")),
        ({"metrics": ["accuracy"]}, ("metrics",)),
        ({"metrics": focal_loss}, ("metrics",)),
        ({"metrics": [keras.metrics.F1Score()]}, ("metrics", "f1_score", "got 2")),
        ({"metrics": [error_rate], "dev": None}, ("metrics",)),
        ({"score": "f2"}, ("score", "loss, accuracy, f1, matthews", "'f2'")),
        ({"score": "accuracy", "dev": None}, ("score",)),
    ],
)
def test_what_cannot_be_used_is_refused_before_the_run(labelled, tmp_path, options, named):
    with raises(ValueError, *named) as error:
        tune(labelled, tmp_path / "run", **options)
    assert "\n" not in str(error.value) and not (tmp_path / "run").exists()


def accuracy(labels, logits):
    return 0.5


def failing(labels, logits):
    raise KeyError("no such thing")


def test_metric_with_a_tasks_name_or_an_error_is_refused(labelled, tmp_path):
    for metric, named in ((accuracy, ["'accuracy'"]), (failing, ["failing", "KeyError"])):
        with raises(ValueError, "metrics", *named):
            tune(labelled, tmp_path / "run", metrics=[metric])
    assert not (tmp_path / "run").exists()


def test_score_is_an_option_of_the_command_line(labelled, tmp_path, capsys):
    line = ["finetune", labelled / "source", "--task", "classify", "-o", tmp_path / "run"]
    line += ["--train", labelled / "train.tsv", "--dev", labelled / "dev.tsv"]
    printed = kbert_command(capsys, *line, "--score", "recall")
    assert printed.status == 2 and "matthews" in printed.err and "'recall'" in printed.err
    assert not (tmp_path / "run").exists()
    line += ["--epochs", "1", "--batch-size", "20"]
    printed = kbert_command(capsys, *line, "--score", "-loss")
    assert printed.status == 0 and "lowest loss" in printed.err
    settings = json.loads((tmp_path / "run" / "settings.json").read_text())
    assert settings["settings"]["score"] == settings["data"]["score"] == "-loss"


def test_evaluate_takes_metrics(whole, labelled):
    data = labelled / "dev.tsv"
    found = kbert.evaluate(whole.folder, "classify", data, metrics=[error_rate, make_auc()])
    assert found["error_rate"] == pytest.approx(whole.metrics["error_rate"])
    assert found["top_1"] == pytest.approx(whole.metrics["top_1"])


class Evaluate(keras.callbacks.Callback):
    """Evaluates the compiled model, as `fit` lets a callback do."""

    def __init__(self, bert, texts, labels):
        super().__init__()
        ids = [bert.tokenizer.encode(text).ids for text in texts]
        length = max(map(len, ids))
        self.ids = np.array([row + [0] * (length - len(row)) for row in ids])
        self.labels, self.losses = np.array(labels), []

    def on_epoch_end(self, epoch, logs=None):
        inputs = dict.fromkeys(self.model.input_names, np.zeros_like(self.ids))
        inputs[self.model.input_names[0]] = self.ids
        loss, _ = self.model.evaluate(inputs, self.labels, verbose=0, batch_size=50)
        self.losses.append((loss, logs["val_loss"]))


def test_callbacks_see_the_users_loss(labelled, tmp_path):
    texts, gold = read_texts(labelled / "dev.tsv")
    bert = kbert.load(labelled / "source")
    evaluate = Evaluate(bert, texts, [("bad", "good").index(label) for label in gold])
    best = keras.callbacks.ModelCheckpoint(
        tmp_path / "best.keras", monitor="val_error_rate", mode="min", save_best_only=True
    )
    tune(labelled, **OWN, callbacks=[evaluate, best], epochs=2, warmup_ratio=0.0)
    for found, expected in evaluate.losses:
        assert found == pytest.approx(expected, rel=1e-4)
    assert kbert.load(tmp_path / "best.keras").head == "classifier"


def test_metric_of_keras_without_a_name_is_the_same_in_each_call():
    """Keras numbers them over the process, "auc", "auc_1", …"""
    metrics = [check_settings({"metrics": [keras.metrics.AUC(from_logits=True)]}) for _ in "123"]
    assert metrics[0] == metrics[1] == metrics[2]
    assert metrics[0]["metrics"][0]["config"]["name"] == "auc"
    recall = keras.metrics.Recall(thresholds=[0.0])
    assert check_settings({"metrics": [recall]})["metrics"][0]["config"]["thresholds"] == [0.0]


def test_call_that_resumes_names_a_class_without_a_module_by_its_name():
    """Keras writes no module for a class of a script."""
    json = {"module": None, "class_name": "Hits", "config": {"name": "hits"}}
    settings = {"metrics": [{"function": "script.error_rate"}, json]}
    call = write_resume_call("run", settings)
    assert call == "kbert.resume('run', metrics=[error_rate, Hits(…)])"


def test_resume_names_the_argument_of_a_source_that_moved(labelled, tmp_path):
    source = shutil.copytree(labelled / "source", tmp_path / "source")
    data = {"train": labelled / "train.tsv", "output": tmp_path / "run"}
    kbert.finetune(source, "classify", epochs=1, **data, **QUIET)
    (tmp_path / "run" / "result.json").unlink()
    shutil.move(source, tmp_path / "elsewhere")
    with raises(FileNotFoundError, "source="):
        kbert.resume(tmp_path / "run", **QUIET)
