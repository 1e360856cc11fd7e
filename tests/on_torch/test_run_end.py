"""A run ends: its last record, its metrics, and what its folder keeps."""

import dataclasses
import json
import re

import keras
import numpy as np
import pytest
from helpers.command_line import kbert as kbert_command
from helpers.errors import check_logged, raises
from helpers.interrupted_run import Crash
from helpers.labelled_texts import QUIET, tune, write_source
from helpers.marks import full
from helpers.run_shards import CONFIG, SETTINGS, make_shards

import kbert
from kbert.graph.names import CLASSIFIER
from kbert.tasks.finetuning.evaluate import LabelledEvaluation, evaluate
from kbert.training.run.run_folder import RunFolder


class Stops(keras.callbacks.Callback):
    """Stops a run after an update."""

    def __init__(self, after: int):
        super().__init__()
        self.left = after

    def on_train_batch_end(self, batch, logs=None):
        self.left -= 1
        if not self.left:
            self.model.stop_training = True


@pytest.fixture(scope="module")
def folder(tmp_path_factory, small):
    """Shards; train.tsv, dev.tsv and a checkpoint: three steps an epoch."""
    folder = tmp_path_factory.mktemp("ends")
    make_shards(folder)
    return write_source(folder, small)


def pretrained(folder, output, after: int, **options):
    """A run that a callback stops after so many updates."""
    settings = SETTINGS | {"evaluate_every": 100, "save_every": 100} | options
    config, stops = kbert.BertConfig(**CONFIG), [Stops(after)]
    return kbert.pretrain(
        folder / "shards", config, output=output, callbacks=stops, **QUIET, **settings
    )


@pytest.fixture(scope="module")
def stopped(folder):
    """The folder of a run that was stopped after step 15, with its states."""
    return pretrained(folder, folder / "stopped", 15, log_every=10, keep_checkpoints=True).folder


def assert_last(run, steps: list[int]) -> None:
    """Check that the last step is recorded and the result is of it."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == steps
    result = json.loads((run / "result.json").read_text())
    assert (result["steps"], result["loss"]) == (steps[-1], lines[-1]["loss"])


@pytest.mark.full
def test_last_step_is_recorded_where_a_callback_stops(stopped, folder, tmp_path):
    assert_last(stopped, [10, 15])
    pretrained(folder, tmp_path / "run", 3, log_every=10)  # before the first record
    assert_last(tmp_path / "run", [3])


@pytest.mark.full
def test_stopped_finetuning_reports_its_last_weights(folder, tmp_path):
    """Stopped in its second epoch: the last weights were never evaluated in the run."""
    options = {"log_every": 10, "keep_best": False, "callbacks": [Stops(5)]}
    stopped = tune(folder, tmp_path / "run", **options)
    assert [line["step"] for line in stopped.history.updates] == [3, 5]
    figures = evaluate(stopped.bert, "classify", folder / "dev.tsv")
    assert stopped.metrics == pytest.approx(figures, rel=1e-5)
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert (result["steps"], result["weights_of_update"]) == (5, 5)


@pytest.mark.full
def test_report_exists_from_the_first_evaluation(folder, tmp_path):
    pages = []

    class Reads(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            pages.append((tmp_path / "run" / "report.html").read_text(encoding="utf-8"))

    tune(folder, tmp_path / "run", callbacks=[Reads()])
    assert ["> 3 of 9 steps done" in page for page in pages] == [True, False, False]
    assert "> 6 of 9 steps done" in pages[1]
    last = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "all 9 steps done" in last
    parameters = [re.search(r"([\d,]+) parameters", page)[1] for page in (pages[0], last)]
    assert parameters[0] == parameters[1]


@pytest.fixture
def evaluations(monkeypatch):
    """Has the dev evaluations give these (accuracy, loss) or accuracies, whatever the weights."""
    real = LabelledEvaluation.__call__

    def give(*found):
        left = iter(found)

        def call(*given):
            result = real(*given)
            metrics = dict(zip(("accuracy", "loss"), next(left), strict=False))
            return dataclasses.replace(result, metrics=result.metrics | metrics)

        monkeypatch.setattr(LabelledEvaluation, "__call__", call)

    return give


class Heads(keras.callbacks.Callback):
    """The classifier's kernel at the end of each epoch."""

    def __init__(self):
        super().__init__()
        self.found = []

    def on_epoch_end(self, epoch, logs=None):
        self.found.append(self.model.get_layer(CLASSIFIER).get_weights()[0].copy())


class Dies(keras.callbacks.Callback):
    """Ends a run as a kill would, once it is at its end."""

    def on_train_end(self, logs=None):
        raise RuntimeError("killed")


# The best of (accuracy, loss) is the third; a lower loss of one accuracy is better too.
PATIENCE = {"epochs": 9, "patience": 2}
SCORES = (0.5, 0.7), (0.75, 0.6), (0.75, 0.4), (0.75, 0.4), (0.625, 0.1), (1.0, 0.0)
STOPPED = "stopped after step 15: dev accuracy was best after step 9, with no improvement in the 2"


@pytest.mark.parametrize("with_folder", [True, full(False)])
def test_lowest_loss_wins_among_equal_scores(folder, tmp_path, evaluations, with_folder):
    """And patience ends the run: its last weights are not the best ones."""
    evaluations(*SCORES)
    seen = Heads()
    output = tmp_path / "run" if with_folder else None
    whole = tune(folder, output, callbacks=[seen], **PATIENCE)
    assert [line["step"] for line in whole.history.evaluations] == [3, 6, 9, 12, 15]
    assert whole.history.stopped.startswith(STOPPED)
    assert (whole.metrics["accuracy"], whole.metrics["loss"]) == (0.75, 0.4)
    head = whole.bert.model.get_layer(CLASSIFIER).get_weights()[0]
    assert [np.array_equal(head, one) for one in seen.found] == [False, False, True, False, False]


@pytest.mark.full
def test_last_weights_are_kept_without_keep_best(folder, tmp_path, evaluations):
    evaluations((1.0, 1.0), *[(0.5, 1.0)] * 3)
    seen = Heads()
    options = {"epochs": 2, "batch_size": 39, "keep_best": False, "callbacks": [seen]}
    whole = tune(folder, tmp_path / "run", **options)
    head = whole.bert.model.get_layer(CLASSIFIER).get_weights()[0]
    assert [np.array_equal(head, one) for one in seen.found] == [False, True]
    assert whole.metrics["accuracy"] == 0.5


@pytest.mark.full
@pytest.mark.parametrize(
    ("ends", "options"),
    [(Dies(), {}), (Crash(13), {"save_every": 3})],  # after the last state; between two
    ids=["end", "between"],
)
def test_patience_survives_a_kill(folder, tmp_path, evaluations, ends, options):
    evaluations(*SCORES)
    with pytest.raises(RuntimeError):
        tune(folder, tmp_path / "run", callbacks=[ends], **PATIENCE | options)
    again = kbert.resume(tmp_path / "run", **QUIET)
    assert again.history.stopped.startswith(STOPPED) and again.metrics["loss"] == 0.4


def test_patience_without_dev_data_is_refused(folder, tmp_path):
    with raises(ValueError, "patience", "got none"):
        tune(folder, tmp_path / "run", dev=None, patience=2)
    with raises(ValueError, "patience", "got none"):
        pretrained(folder, tmp_path / "run", 3, dev_ratio=0.0, patience=2)
    assert not (tmp_path / "run").exists()


def damaged(run, step: int):
    """The run as it was before it was finished, with the weights of one state damaged."""
    (run / "result.json").unlink()
    path = run / "checkpoints" / f"step-{step:08d}.safetensors"
    content = bytearray(path.read_bytes())
    content[-7] ^= 4  # of a tensor: the header, and the score in it, is whole
    path.write_bytes(content)
    return run


@pytest.mark.full
def test_damaged_best_state_falls_back_to_second_best(
    folder, tmp_path, evaluations, monkeypatch, messages
):
    evaluations((0.75,), (0.5,), *[(0.625,)] * 9)  # the losses as they are
    tune(folder, tmp_path / "run", keep_checkpoints=True, save_every=3)
    again = kbert.resume(damaged(tmp_path / "run", 3), **QUIET)
    monkeypatch.undo()
    figures = evaluate(again.bert, "classify", folder / "dev.tsv")
    assert again.metrics["loss"] == pytest.approx(figures["loss"], rel=1e-5)
    assert again.metrics["accuracy"] == 0.625  # of the evaluation after update 9
    check_logged(messages, "step-00000003.safetensors")
    check_logged(messages, "step 3", "step 9")
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["weights_of_update"] == 9 and result["metrics"] == again.metrics


@pytest.mark.full
def test_without_whole_scored_state_last_weights_are_scored(folder, tmp_path, messages):
    options = {"evaluate_every": 4, "save_every": 1, "keep_checkpoints": True}
    tune(folder, tmp_path / "run", callbacks=[Stops(5)], **options)
    run = damaged(tmp_path / "run", 4)
    again = kbert.resume(run, callbacks=[Stops(1)], **QUIET)
    assert again.history.updates[-1]["step"] == 6
    check_logged(messages, "step 6")
    figures = evaluate(again.bert, "classify", folder / "dev.tsv")
    assert again.metrics == pytest.approx(figures, rel=1e-5)


def states(run) -> list[str]:
    return sorted(path.name for path in run.glob("checkpoints/*"))


@pytest.mark.full
def test_keep_option_chooses_what_a_finished_run_keeps(folder, tmp_path, capsys):
    """On the command line: the sizes are the disk's own."""
    (tmp_path / "tiny.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    asked = ["--config", tmp_path / "tiny.json", "--steps", 4, "--seq-len", 17, "--batch-size", 6]
    asked += ["--peak-flops", "1e9", "--quiet", folder / "shards"]
    for keep, expected in ((False, []), (True, ["step-00000003", "step-00000004"])):
        run = tmp_path / ("all" if keep else "model")
        chosen = ["--keep-checkpoints"] if keep else []
        status, out, _ = kbert_command(capsys, "pretrain", *asked, "-o", run, *chosen)
        assert (status, states(run)) == (0, [f"{name}.safetensors" for name in expected])
        assert ("--keep-checkpoints" in out, ", checkpoints " in out) == (not keep, keep)
        total = sum(file.stat().st_size for file in run.rglob("*") if file.is_file())
        assert out.endswith("the model was not evaluated: no dev data were given (--dev)\n")
        assert f"\nsize: {total / 1e6:,.1f} MB (model " in out
        assert kbert.load(run / "model").config == kbert.BertConfig(**CONFIG)
    status, out, _ = kbert_command(capsys, "pretrain", "--resume", tmp_path / "all")
    assert "is finished" in out and len(states(tmp_path / "all")) == 2
    status, out, _ = kbert_command(
        capsys, "pretrain", "--resume", tmp_path / "all", "--no-keep-checkpoints"
    )
    assert (status, states(tmp_path / "all")) == (0, [])
    again = kbert.resume(tmp_path / "all", **QUIET)
    assert [line["step"] for line in again.history.updates] == [1, 2, 3, 4]


def test_unfinished_run_keeps_its_states(folder, tmp_path):
    run = RunFolder.create(tmp_path / "run", {"steps": 3}, {}, keep_checkpoints=False)
    run.save_state({"weight": np.zeros(3, "float32")}, 2)
    run.tidy()
    assert states(tmp_path / "run") == ["step-00000002.safetensors"]
    (tmp_path / "run" / "checkpoints" / "notes.txt").write_text("mine")
    (tmp_path / "run" / "result.json").write_text('{"steps": 3}')
    run.tidy()
    assert states(tmp_path / "run") == ["notes.txt"]
