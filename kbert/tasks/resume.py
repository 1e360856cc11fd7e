"""Going on with a run, whatever it trains."""

import dataclasses
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kbert.checkpoints.bert import Bert
    from kbert.data.labelled.in_memory import Rows
    from kbert.tasks.finetuning.recipe import Finetuned
    from kbert.tasks.pretraining.recipe import Trained
    from kbert.training.run_settings import Setting


def resume(
    folder: str | os.PathLike, **options: "Setting | os.PathLike | Rows | Bert"
) -> "Trained | Finetuned":
    """Goes on with a run; its result is that of a run that was never stopped, bit for bit.

    On another number of devices, or another backend, it is equal to rounding, and the log says
    so; the dropout of pretraining then draws other masks.

    Args:
        folder: the run's.
        options: those of `Surroundings`: `devices`, `callbacks` and so on; where the data lie now,
            if they have moved: `shards`, `dev` and `teacher` of `pretrain`, `source`, `train`,
            `dev` and `teacher` of `finetune`; settings that must be the run's own, said again.

    Returns:
        What `pretrain` or `finetune` gives; a finished run is opened, and the log says that it is
        finished.

    Raises:
        FileNotFoundError: no run there.
        ValueError: data, vocabulary or settings are others than the run's; names the difference.
        and what `pretrain` and `finetune` raise.
    """
    from kbert.tasks.finetuning.recipe import Finetuning
    from kbert.tasks.pretraining.recipe import Pretraining
    from kbert.training import runner
    from kbert.training.run.run_folder import RunFolder
    from kbert.training.run_settings import Surroundings

    run = RunFolder.open(folder)
    kind = {kind.command: kind for kind in (Pretraining, Finetuning)}[run.task]
    names = [field.name for field in dataclasses.fields(Surroundings)]
    surroundings: dict[str, Any] = {name: options.pop(name) for name in names if name in options}
    moved = {name: options.pop(name, None) for name in kind.may_move}
    return runner.resume(kind, run, moved, options, Surroundings(**surroundings))
