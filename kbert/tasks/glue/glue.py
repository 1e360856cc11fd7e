"""The GLUE benchmark: `glue` fine-tunes a checkpoint over each task's grid and seeds.

import kbert
print(kbert.glue("bert-base-uncased", "glue_data", output="glue"))
"""

import json
import logging
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kbert.checkpoints.bert import Bert, load
from kbert.checkpoints.transfer import weights_digest
from kbert.graph import aliases
from kbert.io import json_schema as js
from kbert.io.atomic_write import write_atomically
from kbert.tasks.checks import length_of_examples, require_source
from kbert.tasks.finetuning.evaluate import evaluate
from kbert.tasks.finetuning.finetune import finetune
from kbert.tasks.finetuning.recipe import Finetuned
from kbert.tasks.finetuning.settings import FinetuningSettings
from kbert.tasks.glue.benchmark import GlueTask, tasks_named
from kbert.tasks.glue.grid import Grid, Setting
from kbert.tasks.glue.page import write_glue_page
from kbert.tasks.glue.reading import TaskData, digest_of, folders, read_task
from kbert.tasks.glue.results import GlueResult, Run, TaskResult, score
from kbert.tasks.resume import resume
from kbert.training.run_settings import Setting as Value

_logger = logging.getLogger("kbert")
METRICS_FILE = "figures.json"  # of a run that is done, in its folder
SAVE_EVERY = 1000  # updates: of MNLI's longest run there are 98,000
_METRICS_SCHEMA = js.fields({"figures": js.mapping_of(js.number(-1e9, 1e9)), "made_of": js.OBJECT})
_OF_THE_GRID = {
    "batch_size": "batch_sizes",
    "learning_rate": "learning_rates",
    "epochs": "epochs",
    "seed": "seeds",
}
_OWN = ("keep_best", "evaluate_every")  # which the protocol decides on


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
    devices: int | None = None,
    progress: bool = True,
    **options: Value,
) -> GlueResult:
    """Fine-tune on GLUE's tasks with the paper's settings (section 4.1, appendix A.3).

    For each task, every point of the grid is trained with seed 0. The point with the best dev score
    (the mean of the task's official metrics) is then trained with the other seeds. Metrics are
    those after the last step. Each run is a folder, `output`/TASK/RUN. Call it again to resume:
    finished runs are reused, an interrupted run is resumed, and you may ask for more tasks, seeds
    or points. Only the model of each task's best run is kept.

    Args:
        source: the name of a model, the path of a checkpoint, or a `Bert`.
        data: GLUE's folder, as it is downloaded: CoLA/train.tsv, CoLA/dev.tsv, …
        output: the folder of the runs and of report.html; new, or from an earlier call.
        tasks: "all", names separated by commas, or a list of names.
        seeds: number of seeds for the best point: 0, 1, …
        batch_sizes, learning_rates, epochs: the values of the grid.
        devices, progress: see `kbert.training.run_settings.RunOptions`.
        options: other `FinetuningSettings`, such as max_length, precision, accumulation_steps.

    Returns:
        A `GlueResult`; printed, it is a table with the published metrics.

    Raises:
        FileNotFoundError: `data` has no folder or file for a task.
        ValueError: a file that is not in GLUE's format (with file and line); settings out of their
            range; a run of `output` that was made with other data, model or settings.
        Exception: any error of `kbert.finetune`.
    """
    require_source(source, "glue")
    wanted = tasks_named(tasks)
    grid = Grid(batch_sizes, learning_rates, epochs, seeds)
    _check(options)
    task_folders = folders(data, wanted)
    read = {task.name: read_task(task, task_folders[task.name]) for task in wanted}
    bert = source if isinstance(source, Bert) else load(source)
    around = {"devices": devices, "progress": progress}
    made_of = {"source": weights_digest(bert), "options": options}
    runs = _Runs(bert, Path(output), grid, options, around, made_of)
    results = [runs.of_task(task, read[task.name]) for task in wanted]
    result = GlueResult(tuple(results), Path(output))
    write_glue_page(result, bert)
    return result


def _check(options: dict) -> None:
    """Raise a ValueError for options that the protocol sets, or that do not exist."""
    for name in options:
        if (new := _OF_THE_GRID.get(aliases.setting(name) or name)) is not None:
            raise ValueError(f"glue has no option {name!r}: give {new}")
        if name in (*_OWN, "packing", "class_weights", "label_smoothing"):
            raise ValueError(f"glue has no option {name!r}: its runs are the paper's")
    FinetuningSettings.from_options(options, "glue")


@dataclass(frozen=True)
class _Runs:
    """The runs of a checkpoint.

    Attributes:
        bert: the checkpoint.
        folder: the folder of all runs.
        grid: the points of the grid.
        options: settings of all runs.
        around: run options of all runs.
        made_of: what the metrics depend on, except for task, setting, seed and data.
    """

    bert: Bert
    folder: Path
    grid: Grid
    options: dict
    around: dict
    made_of: dict

    def of_task(self, task: GlueTask, data: TaskData) -> TaskResult:
        """Make all runs of a task: the grid with seed 0, the best point with the other seeds."""
        made_of = self.made_of | {"data": digest_of(data)}
        runs: list[Run] = []
        plan = [(setting, 0) for setting in self.grid.settings()]
        for number in range(self.grid.runs):
            if number == len(plan):  # the grid is done
                best = max(runs, key=lambda run: score(task, run.metrics)).setting
                plan += [(best, seed) for seed in range(1, self.grid.seeds)]
            run = self._run(task, data, *plan[number], made_of)
            runs.append(run)
            _logger.info(
                "%s, %d of %d: %s, seed %d: %s",
                *(task.name, number + 1, self.grid.runs, run.setting, run.seed),
                ", ".join(f"{name} {value:.4f}" for name, value in run.metrics.items()),
            )
            _keep_best_model(task, runs)
        tried = runs[: len(self.grid.settings())]
        best = max(tried, key=lambda run: score(task, run.metrics)).setting
        return TaskResult(task.name, best, tuple(runs))

    def _run(self, task: GlueTask, data: TaskData, setting: Setting, seed: int, made_of) -> Run:
        """Return one run: reuse it if it is finished, else start or resume it."""
        folder = self.folder / task.name / setting.folder(seed)
        if (folder / METRICS_FILE).is_file():
            return Run(setting, seed, _read_metrics(folder, made_of), folder)
        metrics = self._compute_metrics(task, data, setting, seed, folder)
        text = json.dumps({"figures": metrics, "made_of": made_of}, indent=2) + "\n"
        write_atomically(folder / METRICS_FILE, text.encode())
        return Run(setting, seed, metrics, folder)

    def _compute_metrics(self, task, data, setting: Setting, seed: int, folder: Path) -> dict:
        first, *others = data.dev
        files = {"train": data.train, "dev": data.dev[first]}
        if (folder / "settings.json").is_file():
            tuned = resume(folder, source=self.bert, **files, **self.around)
            assert isinstance(tuned, Finetuned)
        else:
            options = {"save_every": SAVE_EVERY} | self.options | setting._asdict()
            options |= {"output": folder, "seed": seed}
            # the last weights, as the paper's: the number of epochs is a point of the grid
            options |= {"keep_best": False, "evaluate_every": 2**31 - 1}
            tuned = finetune(self.bert, task.kind, **files, **options, **self.around)
        metrics = {first: tuned.metrics}
        for suffix in others:
            max_length = FinetuningSettings.from_options(self.options).max_length
            limit = length_of_examples(tuned.bert, max_length)
            metrics[suffix] = evaluate(tuned.bert, task.kind, data.dev[suffix], max_length=limit)
        return {
            name + suffix: metrics[suffix][name] for suffix in data.dev for name in task.metrics
        }


def _read_metrics(folder: Path, made_of: dict) -> dict[str, float]:
    """Return the metrics of a finished run; raise a ValueError if it was made of something else."""
    saved = js.read(folder / METRICS_FILE, _METRICS_SCHEMA)
    for name, value in json.loads(json.dumps(made_of)).items():
        if saved["made_of"].get(name) != value:
            raise ValueError(
                f"{folder} was made with other {name}: {saved['made_of'].get(name)}, now "
                f"{value}: choose another output"
            )
    return saved["figures"]


def _keep_best_model(task: GlueTask, runs: list[Run]) -> None:
    """Remove the models of all runs but the best: each of base's is 900 MB."""
    best = max(runs, key=lambda run: score(task, run.metrics))
    for run in runs:
        if run is not best:
            shutil.rmtree(run.folder / "model", ignore_errors=True)
            (run.folder / "model.keras").unlink(missing_ok=True)
