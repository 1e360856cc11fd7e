"""What a user asks of a fine-tuning run, new or resumed, and its data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kbert.data.labelled.data_warnings import warn_of_records
from kbert.tasks.finetuning.batches import check_class_weights
from kbert.tasks.finetuning.data_summary import summarize_records
from kbert.tasks.finetuning.settings import FinetuningSettings
from kbert.tasks.finetuning.task import Task, read_data, task_of
from kbert.training.run.run_folder import RunFolder
from kbert.training.run_plan import Request, find_sources

MOVABLE = ("source", "train", "dev", "teacher")  # what a resumed run may be given again


def request_finetuning(
    task: Task,
    settings: FinetuningSettings,
    sources: Mapping[str, Any],
    run: RunFolder | None = None,
) -> Request:
    """Return the request of a run; a ValueError if settings and task do not fit.

    `sources` are "source", "train", "dev" and "teacher" as `finetune` takes them.
    """
    task = task.with_positive_label(settings.positive_label)
    settings.check_for(task, sources.get("teacher") is not None)
    read, plan = task.load_steps()
    return Request(
        command=settings.command,
        settings=settings,
        sources=sources,
        read=read,
        plan=plan,
        task=task,
        run=run,
    )


def request_resumed(
    run: RunFolder, moved: Mapping[str, Any], options: Mapping[str, Any]
) -> Request:
    """Return the request of a run that is resumed.

    `moved` are sources that are elsewhere now, `options` settings, which must be the run's.
    """
    settings = FinetuningSettings.from_run(run, options)
    sources = find_sources(run, moved, MOVABLE)
    for name in ("train", "dev"):
        path = run.data_paths.get(name)
        is_unmoved = path is not None and sources[name] == path
        if is_unmoved and not Path(path).exists():
            raise FileNotFoundError(
                f"{path}: no such file: if it has moved or was standard input, give its place "
                f"with --{name} ({name}= in Python)"
            )
    return request_finetuning(task_of(run.settings["task"]), settings, sources, run)


@dataclass(frozen=True)
class LabelledData:
    """The data of a fine-tuning run, as read.

    Attributes:
        train: the records of the training data.
        dev: those of the dev data; None: there are none.
        labels: the training data's labels, sorted; None where the head has none.
        facts: what is known of "train" and "dev", see `summarize_records`.
    """

    train: Sequence
    dev: Sequence | None
    labels: tuple[str, ...] | None
    facts: Mapping[str, Any]

    @property
    def are_pairs(self) -> bool:
        """Whether each example has two texts to classify."""
        return getattr(self.train[0], "pair", None) is not None


def read_labelled(request: Request) -> LabelledData:
    """Read the training and the dev data of a task."""
    task, settings, sources = request.task, request.settings, request.sources
    settings.check_dev(sources["dev"] is not None)
    columns = settings.columns
    train, dev, labels = read_data(task, sources["train"], sources["dev"], columns)
    check_class_weights(settings.class_weights, labels)
    warn_of_records(train, dev)
    return LabelledData(train, dev, labels, summarize_data(task, train, dev))


def summarize_data(task: Task, train: Sequence, dev: Sequence | None) -> dict[str, Any]:
    """Return what is known of training and dev data, by "train" and "dev"."""
    facts = {"train": summarize_records(task, train)}
    if dev is not None:
        facts["dev"] = summarize_records(task, dev)
    return facts
