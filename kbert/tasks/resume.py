"""Resuming of a run of any kind."""

import dataclasses
import os
from typing import TYPE_CHECKING, Any

from kbert.io import printable

if TYPE_CHECKING:
    from kbert.checkpoints.bert import Bert
    from kbert.data.labelled.in_memory import Rows
    from kbert.tasks.finetuning.recipe import Finetuned
    from kbert.tasks.pretraining.recipe import Trained
    from kbert.training.run_settings import Setting


@printable.escape_errors()
def resume(
    folder: str | os.PathLike, **options: "Setting | os.PathLike | Rows | Bert"
) -> "Trained | Finetuned":
    """Resume a run. The result is bit-identical to that of a run that was never stopped.

    On another number of devices, or another backend, it is equal to rounding, and the log says so;
    pretraining then uses other dropout masks.

    Args:
        folder: the run's folder.
        options: run options of `kbert.training.run_settings.RunOptions`, such as `devices` and
            `callbacks`; new paths of data that have moved: `shards`, `dev` and `teacher` of
            `pretrain`, `source`, `train`, `dev` and `teacher` of `finetune`; settings, which must
            equal the run's. If its `loss` or `metrics` have functions, they must be given again.

    Returns:
        The result of `pretrain` or `finetune`. A finished run is opened, and the log says that it
        is finished.

    Raises:
        FileNotFoundError: there is no run in the folder.
        ValueError: data, vocabulary or settings differ from the run's; the message has the
            difference. Or a version of kbert that computes other steps started the run.
        Exception: any error of `pretrain` and `finetune`.
    """
    from kbert.tasks.finetuning.recipe import Finetuning
    from kbert.tasks.pretraining.recipe import Pretraining
    from kbert.training import runner
    from kbert.training.run.run_folder import RunFolder
    from kbert.training.run_settings import RunOptions

    run = RunFolder.open(folder)
    kind = {kind.command: kind for kind in (Pretraining, Finetuning)}[run.task]
    names = [field.name for field in dataclasses.fields(RunOptions)]
    run_options: dict[str, Any] = {name: options.pop(name) for name in names if name in options}
    moved = {name: options.pop(name, None) for name in kind.may_move}
    return runner.resume(kind, run, moved, options, RunOptions(**run_options))
