"""One process trains in a run's folder; a moved folder is named; SIGTERM exits with 143."""

import signal
import subprocess
import sys
import time

import keras
import pytest
from helpers.command_line import kbert as kbert_command
from helpers.errors import raises
from helpers.interrupted_run import Crash
from helpers.labelled_texts import QUIET, tune
from helpers.marks import full, nightly

import kbert
from kbert.tasks.finetuning.evaluate import LabelledEvaluation
from kbert.training.run.run_folder import RunFolder, lock_folder

pytestmark = pytest.mark.full
HOLD = """
import sys, time
from pathlib import Path
from kbert.training.run.run_folder import lock_folder

with lock_folder(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.mark.full
def test_run_is_trained_by_one_process_at_a_time(labelled, tmp_path, capsys):
    run = tmp_path / "crashed"
    with raises(RuntimeError, "crash"):
        tune(labelled, run, epochs=2, save_every=2, callbacks=[Crash(5)])
    process = subprocess.Popen([sys.executable, "-c", HOLD, run], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "held\n"
        status, _, err = kbert_command(
            capsys, "finetune", "--resume", run, "--peak-flops", "1e9", "--quiet"
        )
        text = "another process is training this run: wait until it ends, or stop it"
        assert (status, err.splitlines()[-1]) == (2, f"kbert: {run} (--resume): {text}")
    finally:
        process.kill()
        process.communicate()
    assert kbert.resume(run, **QUIET).history.updates[-1]["step"] == 6
    assert not (run / ".lock").exists()  # it is finished


def test_two_runs_cannot_begin_in_one_folder(tmp_path):
    (tmp_path / "run").mkdir()
    with lock_folder(tmp_path / "run"), raises(BlockingIOError, "another process"):
        RunFolder.create(tmp_path / "run", {}, {})
    RunFolder.create(tmp_path / "run", {}, {})


def test_users_file_that_is_called_as_the_lock_stays(labelled, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / ".lock").write_text("mine")
    tune(labelled, run, epochs=1)
    assert (run / ".lock").read_text() == "mine" and (run / "result.json").exists()


class Moves(keras.callbacks.Callback):
    """Moves the run's folder after 3 steps; another may take its place."""

    def __init__(self, run, to, again=False):
        super().__init__()
        self.run, self.to, self.again, self.left = run, to, again, 3

    def on_train_batch_end(self, batch, logs=None):
        self.left -= 1
        if not self.left:
            state = self.run / "checkpoints" / "step-00000002.safetensors"
            while not state.is_file():  # written in a thread
                time.sleep(0.01)
            self.run.rename(self.to)
            if self.again:
                self.run.mkdir()


@pytest.mark.skipif(sys.platform != "linux", reason="where a file is now is read from /proc")
@pytest.mark.parametrize(
    "again",
    [nightly(False), full(True)],
)
def test_moved_run_folder_is_named_in_the_error(labelled, tmp_path, again):
    run, to = tmp_path / "run", tmp_path / "moved"
    with pytest.raises(FileNotFoundError) as error:
        tune(labelled, run, epochs=2, save_every=2, callbacks=[Moves(run, to, again)])
    assert error.value.filename == str(run)
    assert error.value.strerror == (
        "the folder was moved or removed while the run trained. The last good state is from "
        f"step 2 in {to}. To resume: kbert.resume({str(to)!r})"
    )
    assert not run.exists() or not list(run.iterdir())
    assert kbert.resume(to, **QUIET).history.updates[-1]["step"] == 6


def test_sigterm_saves_and_exits_with_143(labelled, tmp_path, capsys, monkeypatch):
    real = LabelledEvaluation.__call__

    def call(*given):
        signal.raise_signal(signal.SIGTERM)
        return real(*given)

    monkeypatch.setattr(LabelledEvaluation, "__call__", call)
    data = ["--task", "classify", "--train", labelled / "train.tsv", "--dev", labelled / "dev.tsv"]
    options = ["--batch-size", 13, "--peak-flops", "1e9", "--quiet"]
    status, _, err = kbert_command(
        capsys, "finetune", labelled / "source", *data, "-o", tmp_path / "run", *options
    )
    said = "stopped after step 3 of 9 and saved. To resume: kbert finetune --resume"
    assert status == 143 and said in err
    assert (tmp_path / "run" / "checkpoints" / "step-00000003.safetensors").is_file()
