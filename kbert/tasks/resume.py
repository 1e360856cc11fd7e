"""Resuming of a run of any kind."""

import dataclasses
import os
from types import ModuleType
from typing import TYPE_CHECKING, Any

from kbert.io import printable

if TYPE_CHECKING:
    from kbert.checkpoints.bert import Bert
    from kbert.data.labelled.in_memory import Rows
    from kbert.tasks.finetuning.results import Finetuned
    from kbert.tasks.pretraining.results import Trained
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
            equal the run's.

    Returns:
        The result of `pretrain` or `finetune`. A finished run is opened, and the log says that it
        is finished.

    Raises:
        FileNotFoundError: there is no run in the folder.
        ValueError: data, vocabulary or settings differ from the run's; the message has the
            difference. Or a version of kbert that computes other steps started the run.
        Exception: any error of `pretrain` and `finetune`.
    """
    from kbert.tasks.finetuning import planning as finetuning
    from kbert.tasks.finetuning.results import Finetuned
    from kbert.tasks.pretraining import planning as pretraining
    from kbert.tasks.pretraining.results import Trained
    from kbert.training import runner
    from kbert.training.run.run_folder import RunFolder
    from kbert.training.run_settings import RunOptions

    run = RunFolder.open(folder)
    planning: ModuleType = finetuning if run.task == "finetune" else pretraining
    kind: type[Finetuned] | type[Trained] = Finetuned if run.task == "finetune" else Trained
    names = [field.name for field in dataclasses.fields(RunOptions)]
    given: dict[str, Any] = {name: options.pop(name) for name in names if name in options}
    run_options = RunOptions(**given)
    moved = {name: options.pop(name, None) for name in planning.MOVABLE}

    if run_options.keep_checkpoints is not None:
        run.keep_checkpoints = run_options.keep_checkpoints
    result = run.result
    if result is not None:
        run.check(run.fingerprint, run.settings | options)
        return kind.from_outcome(runner.open_finished(run, result))

    run.check_computation()
    request = planning.request_resumed(run, moved)
    type(request.settings).from_options(request.settings.as_dict() | options)
    run.check(run.fingerprint, run.settings | options)
    return kind.from_outcome(runner.resume(request, run_options))
