"""Resuming of a run of any kind."""

import os
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING

from kbert.checkpoints.bert import Bert
from kbert.data.labelled.in_memory import Rows
from kbert.graph import aliases
from kbert.io import printable
from kbert.tasks.finetuning import run_request as finetuning
from kbert.tasks.finetuning.finetune import finetune
from kbert.tasks.finetuning.results import Finetuned, make_finetuned
from kbert.tasks.finetuning.settings import FinetuningSettings
from kbert.tasks.pretraining import run_request as pretraining
from kbert.tasks.pretraining.pretrain import pretrain
from kbert.tasks.pretraining.results import Trained, make_trained
from kbert.tasks.pretraining.settings import PretrainingSettings
from kbert.training import runner
from kbert.training.run.run_folder import RunFolder
from kbert.training.settings.run_settings import RunOptions
from kbert.training.settings.setting_rules import read_settings
from kbert.training.settings.setting_texts import document, inherit_settings, list_fields

if TYPE_CHECKING:
    pass


@printable.escape_errors()
@aliases.answer_old_names
@document(RunOptions)
@document(FinetuningSettings, PretrainingSettings, inherited=True)
@inherit_settings(finetune, pretrain)
def resume(
    folder: str | os.PathLike,
    *,
    source: Bert | str | os.PathLike | None = None,
    train: str | os.PathLike | Rows | None = None,
    shards: str | os.PathLike | None = None,
    dev: str | os.PathLike | Rows | None = None,
    teacher: Bert | str | os.PathLike | None = None,
    **settings: bool | float | str | Sequence | Mapping | Callable | None,
) -> Trained | Finetuned:
    """Resume a run. The result is bit-identical to that of a run that was never stopped.

    On another number of devices, or another backend, it is equal to rounding, and the log says so;
    pretraining then uses other dropout masks.

    A run has its settings from its start. Those that are given must equal the run's; None: they are
    the run's. `kbert.training.settings.run_settings.RunOptions` says more about how the run is
    done: `devices` and the arguments after it may differ each time.

    Args:
        folder: the run's folder.
        source, train, shards, dev, teacher: data and models that have moved since the run started,
            as for `finetune` and `pretrain`; None: they are where they were.

    Returns:
        The result of `pretrain` or `finetune`. A finished run is opened, and the log says that it
        is finished.

    Raises:
        FileNotFoundError: there is no run in the folder.
        ValueError: data, vocabulary or settings differ from the run's; the message has the
            difference. Or a version of kbert that computes other steps started the run.
        Exception: any error of `pretrain` and `finetune`.
    """
    arguments = dict(locals())  # before any other name is set
    arguments |= arguments.pop("settings")
    names = arguments.keys() & list_fields(RunOptions).keys()
    run_options = RunOptions(**{name: arguments.pop(name) for name in names})
    run = RunFolder.open(folder)
    is_finetuning = run.task == "finetune"
    run_request: ModuleType = finetuning if is_finetuning else pretraining
    moved = {name: arguments.pop(name) for name in run_request.MOVABLE}
    del arguments["folder"]
    chosen = {name: value for name, value in arguments.items() if value is not None}
    chosen = read_settings(chosen)

    if run_options.keep_checkpoints is not None:
        run.keep_checkpoints = run_options.keep_checkpoints
    if run_options.report_examples is not None:
        run.report_examples = run_options.report_examples
    json = run.result
    if json is not None:
        run.check(run.fingerprint, run.settings | chosen)
        result = runner.open_finished(run, json)
    else:
        run.check_computation()
        request = run_request.request_resumed(run, moved, chosen)
        result = runner.resume(request, run_options)
    return make_finetuned(result) if is_finetuning else make_trained(result)
