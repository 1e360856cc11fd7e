"""The GLUE benchmark: `glue` fine-tunes a checkpoint over each task's grid and seeds.

import kbert
print(kbert.glue("bert-base-uncased", "glue_data", output="glue"))
"""

import logging
import os
import shutil
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kbert.checkpoints.bert import Bert, load
from kbert.checkpoints.transfer import weights_digest
from kbert.graph import aliases
from kbert.graph.config import require_positive
from kbert.io import json_schema as js
from kbert.io import printable
from kbert.io.atomic_write import refuse_links, write_atomically
from kbert.io.file_kinds import check_kind
from kbert.io.json_differences import differences
from kbert.io.json_values import as_json
from kbert.io.row_formats import to_json
from kbert.tasks.classification.reading import Labelled
from kbert.tasks.common.checks import length_of_examples, require_source
from kbert.tasks.finetuning.evaluate import evaluate
from kbert.tasks.finetuning.finetune import finetune
from kbert.tasks.finetuning.settings import FinetuningSettings
from kbert.tasks.glue.results import PAGE, GlueResult, Run, TaskResult, write_glue_page
from kbert.tasks.glue.tasks import (
    GlueTask,
    Setting,
    digest_records,
    find_tasks,
    list_settings,
    read_task,
)
from kbert.tasks.resume import resume
from kbert.training.settings.run_settings import RunOptions
from kbert.training.settings.setting_texts import document, list_fields

if TYPE_CHECKING:
    import keras

_logger = logging.getLogger("kbert")
SAVE_EVERY = 1000  # updates: of MNLI's longest run there are 98,000
_METRICS_SCHEMA = js.fields(
    {
        "figures": js.mapping_of(js.number(-1, 1)),
        "made_of": js.fields({}, {"options": js.OBJECT}),
    }
)


@printable.escape_errors()
@aliases.answer_old_names
@document(FinetuningSettings, RunOptions, without=("epochs",))
def glue(
    source: Bert | str | os.PathLike,
    data: str | os.PathLike,
    *,
    output: str | os.PathLike,
    tasks: str | Sequence[str] = "all",
    seeds: int = 5,
    batch_sizes: Sequence[int] = (16, 32),
    learning_rates: Sequence[float] = (5e-5, 3e-5, 2e-5),
    epochs: Sequence[int] = (2, 3, 4),
    lowercase: bool | None = None,
    max_length: int | None = None,
    lengths: Sequence[int] | None = None,
    warmup_ratio: float = 0.1,
    optimizer: "str | keras.optimizers.Optimizer" = "adamw",
    freeze: str | None = None,
    head_learning_rate: float | None = None,
    layer_decay: float | None = None,
    lora_rank: int | None = None,
    lora_targets: str | Sequence[str] = "query,value",
    lora_alpha: float | None = None,
    lora_dropout: float = 0.0,
    schedule: "str | keras.optimizers.schedules.LearningRateSchedule" = "linear",
    min_learning_rate_ratio: float = 0.0,
    schedule_power: float = 1.0,
    schedule_timescale: int | None = None,
    weight_decay: float = 0.01,
    beta_1: float = 0.9,
    beta_2: float = 0.999,
    epsilon: float = 1e-6,
    ema: float | None = None,
    clip_norm: float | None = 1.0,
    accumulation_steps: int = 1,
    precision: str = "float32",
    jit: bool | None = None,
    gradient_checkpointing: bool = False,
    patience: int | None = None,
    save_every: int | None = SAVE_EVERY,
    log_every: int = 1,
    devices: int | None = None,
    progress: bool = True,
) -> GlueResult:
    """Fine-tune on GLUE's tasks with the paper's settings (section 4.1, appendix A.3).

    For each task, every point of the grid is trained with seed 0. The point with the best dev score
    (the mean of the task's official metrics) is then trained with the other seeds. Metrics are
    those after the last step. Each run is a folder, `output`/TASK/RUN. Call it again to resume:
    finished runs are reused, an interrupted run is resumed, and you may ask for more tasks, seeds
    or points. Only the model of each task's best run is kept.

    The other settings are those of `finetune`: `FinetuningSettings` says more about each.

    Args:
        source: the name of a model, the path of a checkpoint, or a `Bert`.
        data: GLUE's folder, as it is downloaded: CoLA/train.tsv, CoLA/dev.tsv, …
        output: the folder of the runs and of report.html; new, or from an earlier call.
        tasks: "all"; "sane", cramming's selection: all but WNLI; names separated by commas; or a
            list of names.
        seeds: number of seeds for the best point: 0, 1, …
        batch_sizes, learning_rates, epochs: the values of the grid.

    Returns:
        A `GlueResult`; printed, it is a table with the published metrics.

    Raises:
        FileNotFoundError: `data` has no folder or file for a task.
        ValueError: a file that is not in GLUE's format (with file and line); settings out of their
            range; a run of `output` that was made with other data, model or settings.
        Exception: any error of `kbert.finetune`.
    """
    arguments = dict(locals())  # before any other name is set
    require_source(source, "glue")
    check_kind(Path(output, PAGE))
    chosen = find_tasks(tasks)
    points = list_settings(batch_sizes=batch_sizes, learning_rates=learning_rates, epochs=epochs)
    require_positive("seeds", seeds)
    fields = list_fields(FinetuningSettings).keys() - {"epochs"}
    requested = {name: value for name, value in arguments.items() if name in fields}
    settings = FinetuningSettings(**requested).as_dict()

    read = [read_task(task, data) for task in chosen]
    bert = source if isinstance(source, Bert) else load(source)
    digest = weights_digest(bert)
    options = settings | {"source": bert, "devices": devices, "progress": progress}
    results = []
    for task, records in zip(chosen, read, strict=True):
        made_of = {"source": digest, "options": settings, "data": digest_records(records)}
        runs = _TaskRuns(task, records, Path(output), options, as_json(made_of))
        results.append(runs.run_all(points, seeds))
    result = GlueResult(tuple(results), Path(output))
    write_glue_page(result)
    return result


class _TaskRuns(NamedTuple):
    """The runs of a task, which have all but the point and the seed in common."""

    task: GlueTask
    records: list[list[Labelled]]  # of the training data and of each dev file
    output: Path
    options: dict  # of `finetune`
    made_of: dict

    def run_all(self, points: Sequence[Setting], seeds: int) -> TaskResult:
        """Run all points with seed 0 and the best one with the other seeds; keep one model."""
        runs: list[Run] = []
        for point in points:
            self._add_run(runs, point, 0)
        best = max(runs, key=self._score).setting
        for seed in range(1, seeds):
            self._add_run(runs, best, seed)
        return TaskResult(self.task.name, best, tuple(runs))

    def _add_run(self, runs: list[Run], point: Setting, seed: int) -> None:
        """Add a run, and remove all models but that of the best run: one of base's is 900 MB."""
        runs.append(self._run(point, seed))
        _logger.info("%s: %s", self.task.name, runs[-1])
        best = max(runs, key=self._score)
        for run in runs:
            if run is not best:
                shutil.rmtree(run.folder / "model", ignore_errors=True)
                (run.folder / "model.keras").unlink(missing_ok=True)

    def _score(self, run: Run) -> float:
        """Return the mean of the official metrics on the first dev file."""
        first = self.task.suffixes[0]
        return statistics.fmean(run.metrics[name + first] for name in self.task.metrics)

    def _run(self, point: Setting, seed: int) -> Run:
        """Return one run: reuse it if it is finished, else start or resume it."""
        size, rate, epochs = point
        name = f"{self.task.name}/batch{size}-rate{rate:g}-epochs{epochs}-seed{seed}"
        refuse_links(self.output, [self.task.name, name])
        folder = self.output / name
        path = folder / "figures.json"
        if not path.is_file():
            metrics = self._compute_metrics(folder, **point._asdict(), seed=seed)
            text = to_json({"figures": metrics, "made_of": self.made_of})
            write_atomically(path, text.encode())

        saved = js.read(path, _METRICS_SCHEMA)
        # an older kbert wrote the settings that were not the defaults
        defaults = FinetuningSettings(save_every=SAVE_EVERY).as_dict()
        options_then = as_json(defaults) | saved["made_of"].get("options", {})
        made_of_then = saved["made_of"] | {"options": options_then}
        different = "; ".join(differences(made_of_then, self.made_of))
        if different:
            raise ValueError(f"{folder} was made otherwise: {different}: choose another output")
        return Run(point, seed, saved["figures"], folder)

    def _compute_metrics(self, folder: Path, **settings) -> dict[str, float]:
        """Start or resume a run in its folder, and return its metrics on each dev file."""
        task, (train, dev, *further) = self.task, self.records
        options = self.options | settings | {"train": train, "dev": dev}
        # the last weights, as the paper's: the number of epochs is a point of the grid
        options |= {"keep_best": False, "evaluate_every": 2**31 - 1}
        if "f1" in task.metrics:  # of the label 1, whatever a checkpoint's order of labels is
            options["positive_label"] = "1"
        tuned: Any
        if (folder / "settings.json").is_file():
            tuned = resume(folder, **options)
        else:
            tuned = finetune(task=task.kind, output=folder, **options)

        metrics_of_files = [tuned.metrics]
        limit = length_of_examples(tuned.bert, options["max_length"])
        for records in further:
            metrics_of_files.append(evaluate(tuned.bert, task.kind, records, max_length=limit))
        metrics: dict[str, float] = {}
        for suffix, values in zip(task.suffixes, metrics_of_files, strict=True):
            metrics |= {name + suffix: values[name] for name in task.metrics}
        return metrics
