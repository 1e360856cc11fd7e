"""The GLUE benchmark: `glue` fine-tunes a checkpoint over each task's grid and seeds.

import kbert
print(kbert.glue("bert-base-uncased", "glue_data", output="glue"))
"""

import json
import logging
import math
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbert.checkpoints.bert import Bert, load
from kbert.checkpoints.transfer import weights_digest
from kbert.graph import aliases
from kbert.graph.config import require_positive
from kbert.io import json_schema as js
from kbert.io import printable
from kbert.io.atomic_write import refuse_links, write_atomically
from kbert.io.file_kinds import check_kind
from kbert.io.json_values import as_json
from kbert.tasks.common.checks import length_of_examples, require_source
from kbert.tasks.finetuning.evaluate import evaluate
from kbert.tasks.finetuning.finetune import finetune
from kbert.tasks.finetuning.results import Finetuned
from kbert.tasks.finetuning.settings import FinetuningSettings
from kbert.tasks.glue.benchmark import (
    GlueTask,
    Setting,
    find_folders,
    find_tasks,
    list_settings,
)
from kbert.tasks.glue.reading import TaskData, read_task
from kbert.tasks.glue.results import PAGE, GlueResult, Run, TaskResult, write_glue_page
from kbert.tasks.resume import resume
from kbert.training.settings.run_settings import RunOptions
from kbert.training.settings.setting_texts import document, list_fields

if TYPE_CHECKING:
    import keras

_logger = logging.getLogger("kbert")
METRICS_FILE = "figures.json"  # of a run that is done, in its folder
SAVE_EVERY = 1000  # updates: of MNLI's longest run there are 98,000
_METRICS_SCHEMA = js.fields(
    {"figures": js.mapping_of(js.or_null(js.number(-1e9, 1e9))), "made_of": js.OBJECT}
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
        tasks: "all", names separated by commas, or a list of names.
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
    grid = {"batch_sizes": batch_sizes, "learning_rates": learning_rates, "epochs": epochs}
    settings = list_settings(**grid)
    require_positive("seeds", seeds)
    fields = list_fields(FinetuningSettings).keys() - grid.keys()
    requested = {name: value for name, value in arguments.items() if name in fields}
    finetuning_settings = FinetuningSettings.from_options(requested, "glue")
    options = _select_changed(finetuning_settings.as_dict())

    folders = find_folders(data, chosen)
    read = {}
    for task in chosen:
        read[task.name] = read_task(task, folders[task.name])

    bert = source if isinstance(source, Bert) else load(source)
    run_options = {"devices": devices, "progress": progress}
    digest = weights_digest(bert)
    runs = _Runs(bert, Path(output), options, run_options, digest)
    results = []
    for task in chosen:
        results.append(runs.run_task(task, read[task.name], settings, seeds))
    result = GlueResult(tuple(results), Path(output))
    write_glue_page(result, bert.config)
    return result


def _select_changed(settings: dict) -> dict:
    """Return the settings that differ from `glue`'s defaults."""
    fields = list_fields(FinetuningSettings)
    defaults = {name: field.default for name, field in fields.items()}
    defaults["save_every"] = SAVE_EVERY
    return {
        name: value
        for name, value in settings.items()
        if name not in defaults or value != defaults[name]
    }


@dataclass(frozen=True)
class _Runs:
    """The runs of a checkpoint in a folder, which have some settings and run options in common."""

    bert: Bert
    folder: Path
    options: dict
    run_options: dict
    digest: str  # of the checkpoint

    def run_task(
        self, task: GlueTask, data: TaskData, settings: Sequence[Setting], seeds: int
    ) -> TaskResult:
        """Make all runs of a task: the settings with seed 0, the best one with the other seeds."""
        made_of = {"source": self.digest, "options": self.options, "data": data.digest}
        runs: list[Run] = []
        total = len(settings) + seeds - 1

        def score(run: Run) -> float:
            return task.score(run.metrics)

        def run_with(setting: Setting, seed: int) -> None:
            run = self._run(task, data, setting, seed, made_of)
            runs.append(run)
            metrics = ", ".join(f"{name} {value:.4f}" for name, value in run.metrics.items())
            _logger.info(
                "%s, %d of %d: %s, seed %d: %s",
                task.name,
                len(runs),
                total,
                setting,
                seed,
                metrics,
            )
            best = max(runs, key=score)
            for other in runs:  # one of base's models is 900 MB
                if other is not best:
                    shutil.rmtree(other.folder / "model", ignore_errors=True)
                    (other.folder / "model.keras").unlink(missing_ok=True)

        for setting in settings:
            run_with(setting, 0)
        best = max(runs, key=score).setting
        for seed in range(1, seeds):
            run_with(best, seed)
        return TaskResult(task.name, best, tuple(runs))

    def _run(self, task: GlueTask, data: TaskData, setting: Setting, seed: int, made_of) -> Run:
        """Return one run: reuse it if it is finished, else start or resume it."""
        size, rate, epochs = setting
        name = f"batch{size}-rate{rate:g}-epochs{epochs}-seed{seed}"
        folder = self.folder / task.name / name
        refuse_links(self.folder, [task.name, f"{task.name}/{name}"])
        path = folder / METRICS_FILE
        if path.is_file():
            metrics = _read_metrics(folder, made_of)
            return Run(setting, seed, metrics, folder)

        metrics = self._compute_metrics(task, data, setting, seed, folder)
        saved = as_json({"figures": metrics, "made_of": made_of})
        text = json.dumps(saved, indent=2) + "\n"
        write_atomically(path, text.encode())
        return Run(setting, seed, metrics, folder)

    def _compute_metrics(self, task, data, setting: Setting, seed: int, folder: Path) -> dict:
        first, *further = data.dev
        dev = data.dev[first]
        tuned = self._finetune(task, data.train, dev, setting, seed, folder)
        metrics = {name + first: tuned.metrics[name] for name in task.metrics}
        if not further:
            return metrics

        limit = length_of_examples(tuned.bert, self.options.get("max_length"))
        for suffix in further:
            dev_metrics = evaluate(
                tuned.bert,
                task.kind,
                data.dev[suffix],
                max_length=limit,
                positive_label=task.positive_label,
            )
            metrics |= {name + suffix: dev_metrics[name] for name in task.metrics}
        return metrics

    def _finetune(
        self, task: GlueTask, train: list, dev: list, setting: Setting, seed: int, folder: Path
    ) -> Finetuned:
        """Start a run in its folder, or resume it."""
        if (folder / "settings.json").is_file():
            run_options = self.run_options
            tuned = resume(folder, source=self.bert, train=train, dev=dev, **run_options)
            assert isinstance(tuned, Finetuned)
            return tuned

        options: dict[str, Any] = {"save_every": SAVE_EVERY}
        options |= self.options
        options |= setting._asdict()
        options["train"] = train
        options["dev"] = dev
        options["output"] = folder
        options["seed"] = seed
        options |= self.run_options
        options["positive_label"] = task.positive_label
        # the last weights, as the paper's: the number of epochs is a point of the grid
        options["keep_best"] = False
        options["evaluate_every"] = 2**31 - 1
        return finetune(self.bert, task.kind, **options)


def _read_metrics(folder: Path, made_of: dict) -> dict[str, float]:
    """Return the metrics of a finished run; a ValueError if it was made with other data."""
    saved = js.read(folder / METRICS_FILE, _METRICS_SCHEMA)
    saved_made_of = saved["made_of"]
    saved_made_of["options"] = _select_changed(saved_made_of.get("options", {}))
    for name, value in as_json(made_of).items():
        if saved_made_of.get(name) != value:
            raise ValueError(
                f"{folder} was made with other {name}: {saved_made_of.get(name)}, now "
                f"{value}: choose another output"
            )

    metrics = {}
    for name, value in saved["figures"].items():
        metrics[name] = math.nan if value is None else value
    return metrics
