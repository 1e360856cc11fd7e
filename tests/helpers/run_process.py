"""Runs that are killed at chosen points: tests call `start` in a process of its own, by `Forks`."""

import json
import os
import signal
import threading
from pathlib import Path


def die(*_) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_at(point: str, at: float) -> None:
    """Have this process killed after so many steps or seconds, or at a state."""
    from safetensors import numpy as st

    from kbert.training.loop.loop import _Trainer
    from kbert.training.run import records, report_page, run_folder

    def before(owner, name, matters=lambda *arguments: True, then=die):
        real = getattr(owner, name)

        def replaced(*arguments, **options):
            if matters(*arguments):
                then(*arguments)
            return real(*arguments, **options)

        setattr(owner, name, replaced)

    def of_state(*arguments):
        return str(arguments[-1]).endswith(f"step-{at:08d}.safetensors")

    def write_half(arrays, path, metadata=None, real=st.save_file):
        real(arrays, path, metadata=metadata)
        if f"step-{at:08d}" in str(path):
            os.truncate(path, os.path.getsize(path) // 2)
            die()

    def half_a_line(self, step, values, real=records.RecordFile.add):
        if step == at:
            text = json.dumps({"step": step} | values)
            self._file.write(text[: len(text) // 2].encode())
            die()
        real(self, step, values)

    if point == "update":  # dispatched, not read yet
        before(_Trainer, "_read", lambda self, at_most=0: self.done == at)
    elif point == "seconds":
        threading.Timer(at, die).start()
    elif point == "before the settings":
        before(os, "replace", lambda *paths: str(paths[-1]).endswith("settings.json"))
    elif point == "before the write":
        before(run_folder, "write_state", lambda path, *_: of_state(path))
    elif point == "within the write":
        st.save_file = write_half
    elif point == "before the rename":
        before(os, "replace", of_state)
    elif point == "after the rename":
        flush = run_folder.write_state.__globals__["_flush"]
        run_folder.write_state.__globals__["_flush"] = lambda path: (
            die()
            if Path(path).is_dir() and list(Path(path).glob(f"step-{at:08d}.*"))
            else flush(path)
        )
    elif point == "two updates later":  # the numbers are those of the update that it is named for
        write_late(before, of_state, at)
    elif point == "within a line":
        records.RecordFile.add = half_a_line
    elif point == "before the report":
        before(report_page, "write_report", lambda *given: "stopped" in given[2])  # the last one
    else:
        raise ValueError(point)


def write_late(before, of_state, at: int) -> None:
    """Have the thread write a state once two more steps are done, and die then."""
    from kbert.training.loop.loop import _Trainer
    from kbert.training.run import run_folder

    later = threading.Event()
    # before whatever follows that update: a save there waits for this one
    before(
        _Trainer, "_between_calls", lambda self: self.done >= at + 2, then=lambda *_: later.set()
    )
    before(run_folder, "write_state", lambda path, *_: of_state(path), then=lambda *_: later.wait())
    real = run_folder.States.remove_superseded
    run_folder.States.remove_superseded = lambda self, step: (
        die() if step == at else real(self, step)
    )


def pretrain(folder: Path, run: Path, together: int) -> None:
    from helpers.run_shards import CONFIG, SETTINGS
    from kbert import BertConfig
    from kbert.tasks.pretraining.pretrain import pretrain
    from kbert.tasks.resume import resume

    options = {"progress": False, "peak_flops": 1e9, "steps_per_execution": together}
    if (run / "settings.json").exists():
        resume(run, **options)
    else:
        config = BertConfig(**CONFIG)
        pretrain(
            folder / "shards", config, output=run, keep_checkpoints=True, **SETTINGS, **options
        )


def finetune(folder: Path, run: Path, together: int) -> None:
    """Train by the command; FOLDER has the checkpoint source, train.tsv and dev.tsv."""
    from kbert.cli.console import run as run_command
    from kbert.cli.main import cli

    if (run / "settings.json").exists():
        arguments = ["finetune", "--resume", str(run)]
    else:
        arguments = ["finetune", str(folder / "source"), "--task", "classify", "-o", str(run)]
        for data in ("train", "dev"):
            arguments += [f"--{data}", str(folder / f"{data}.tsv")]
        arguments += ["--epochs=2", "--batch-size=5", "--learning-rate=5e-3"]
        arguments += ["--save-every=3", "--keep-checkpoints", "--ema=0.8", "--schedule=cosine"]
    try:
        run_command(cli, [*arguments, "--steps-per-execution", str(together), "--quiet"])
    except SystemExit as done:
        if done.code:
            raise


def squared_margin(labels, logits):
    """A loss of a user: the squared margin loss of two classes."""
    from keras import ops

    margins = logits[:, 1] - logits[:, 0]
    signs = 2.0 * ops.cast(labels, "float32") - 1.0
    return ops.square(ops.relu(1.0 - signs * margins))


def error_rate(labels, logits):
    """A metric of a user."""
    return (logits.argmax(1) != labels).mean()


def finetune_with_functions(folder: Path, run: Path, together: int) -> None:
    """Train with a loss and a metric of the user; lower is better."""
    import keras

    import kbert

    top_1 = keras.metrics.SparseTopKCategoricalAccuracy(1, name="top_1")
    options = {"loss": squared_margin, "metrics": [error_rate, top_1]}
    options |= {"progress": False, "peak_flops": 1e9, "steps_per_execution": together}
    if (run / "settings.json").exists():
        kbert.resume(run, **options)
        return
    options |= {"train": folder / "train.tsv", "dev": folder / "dev.tsv", "output": run}
    options |= {"epochs": 2, "batch_size": 5, "learning_rate": 5e-3, "score": "-error_rate"}
    options |= {"save_every": 3, "keep_checkpoints": True}
    kbert.finetune(folder / "source", "classify", **options)


def start(folder: str, run: str, kill: list | None, together: int) -> None:
    """Train in FOLDER/run: how, the beginning of its name says."""
    if kill:
        kill_at(*kill)
    kinds = {"finetune": finetune, "functions": finetune_with_functions}
    train = kinds.get(run.partition("_")[0], pretrain)
    train(Path(folder), Path(folder) / run, together)
