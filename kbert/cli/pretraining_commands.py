"""The command that pretrains, and what it shares with `kbert finetune`."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

import kbert
from kbert.cli.command import command
from kbert.cli.console import say, starting_keras
from kbert.cli.inputs import check_source, check_writable
from kbert.cli.options import Input, Output, option
from kbert.cli.setting_options import add_run_options, add_settings, select_settings
from kbert.cli.settings_file import DEFAULT_CONFIG, add_settings_file
from kbert.io.remote_files import is_remote
from kbert.tasks.distillation.settings import check_teacher
from kbert.tasks.pretraining.settings import (
    PretrainingSettings,
    check_budget,
    check_dev,
    check_init,
    check_ramp,
)

OUTPUT_RUN = option(
    "-o --output RUN", Output(takes_buckets=True), "New folder for the run, also s3://… or gs://…."
)
RESUME = option("--resume run RUN", Input(), "Resume the run in this folder.")


def _check_settings(settings: PretrainingSettings, arguments: Mapping[str, Any]) -> None:
    """Raise a ValueError for settings that do not go with a run's models and dev data."""
    has_init = arguments.get("init") is not None
    if has_init and arguments.get("config") is not None:
        raise ValueError("config cannot be given with init, which has its own: leave config out")
    check_teacher(settings, arguments.get("teacher") is not None)
    check_budget(settings)
    check_ramp(settings, arguments.get("teacher") is not None)
    check_init(settings, has_init)
    check_dev(settings, arguments.get("dev") is not None)


@command(
    "Pretrain a BERT on shards, or resume a run.",
    "kbert pretrain shards --config mini --steps 10000 -o run",
    "kbert pretrain --settings run.yaml",
    "kbert pretrain --resume run",
    basic="config init dev output run settings_file print_settings steps hours batch_size seq_len "
    "learning_rate precision seed",
)
@click.argument("shards", required=False, metavar="[SHARDS]", type=Input())
@option("--config", str, "Configuration: a preset or a JSON file. Default: tiny.")
@option("--init SRC", str, "Checkpoint to start from.")
@option("--dev SHARDS", str, "Shards for evaluation.")
@option("--teacher SRC", str, "Teacher checkpoint for distillation, with the same vocabulary.")
@OUTPUT_RUN
@RESUME
@add_settings_file(PretrainingSettings, _check_settings)
@add_settings(PretrainingSettings)
@add_run_options
def pretrain(shards, config, init, dev, teacher, output, run, run_options, **settings):
    """Pretrain a BERT on SHARDS, which `kbert prepare` writes.

    A new run needs `-o RUN --steps N`, or `-o RUN --hours H`. `--settings FILE` reads all arguments
    and options from a file, `--print-settings` prints such a file. Ctrl-C saves the run. After
    Ctrl-C or a crash, `kbert pretrain --resume RUN` continues it.
    """
    settings = select_settings(settings, run_options)
    data = {"dev": dev, "teacher": teacher}
    if run is not None:
        refuse_with_resume(config=config, init=init, output=output)
        resume_run("pretrain", run, settings, run_options, {"shards": shards} | data)
        return

    length = settings.get("steps") or settings.get("hours")
    needed = {"SHARDS": shards, "-o RUN": output, "--steps or --hours": length}
    require_options("kbert pretrain SHARDS -o RUN --steps N", needed)
    if init is not None and config is not None:
        raise click.UsageError(
            "--config cannot be given with --init, which has its own: leave --config out"
        )
    check_new_run(output)
    checked = PretrainingSettings.from_options(settings)
    check_budget(checked)
    check_ramp(checked, teacher is not None)
    _check_inputs(shards, config, init, dev, teacher)

    data |= {"output": output, "init": init}
    run_task("pretrain", shards, config or DEFAULT_CONFIG, **data, **run_options, **settings)


def _check_inputs(shards, config, init, dev, teacher) -> None:
    """Raise for what is missing, before Keras starts; what is None is not given."""
    if config is not None:
        kbert.get_config(config)
    for checkpoint in (init, teacher):
        if checkpoint:
            check_source(checkpoint)
    for folder in (shards, dev):
        if folder and not is_remote(folder):
            kbert.open_shards(folder, check=False)


def require_options(example: str, options: dict) -> None:
    """Raise a UsageError for an option without a value, with a command that has all of them."""
    for name, value in options.items():
        if value is None:
            command = " ".join(example.split()[:2])
            raise click.UsageError(f"{name} is missing: {example} ({command} --help says more)")


def refuse_with_resume(**options) -> None:
    """Raise a UsageError for an option that a resumed run has from its settings."""
    for name, value in options.items():
        if value is not None:
            raise click.UsageError(
                f"--{name} cannot be given with --resume: leave it out, the run has its own"
            )


def check_new_run(output: Path) -> None:
    """Raise where a new run cannot have its folder."""
    from kbert.training.run.run_folder import refuse_used

    refuse_used(output)
    if not is_remote(output):
        check_writable(output)


def start_keras() -> None:
    """Start Keras and what the backend logs messages about, while they are held back."""
    with starting_keras():
        import kbert.tasks.resume
        import kbert.training.loop.loop  # noqa: F401


def resume_run(
    task: str, run: Path, settings: dict, run_options: dict, data: dict, check=lambda **data: None
) -> None:
    """Resume a run of `kbert TASK`, and say what it has written.

    `data` has paths that replace the run's own; None: they are as they were. `check` is called
    before Keras starts, if the run is not finished.
    """
    from kbert.training.run.run_folder import RunFolder

    folder = RunFolder.open(run)
    if folder.task != task:
        raise ValueError(
            f"{folder.path} is not a run of kbert {task}: resume it with {folder.resume_command}"
        )
    if _is_finished(folder, settings, run_options["keep_checkpoints"]):
        return
    check(**data)
    run_task("resume", run, **data, **run_options, **settings)


def _is_finished(folder, settings: dict, keep_checkpoints: bool | None) -> bool:
    """Say that a run to resume is finished already; return False for one that is not."""
    result = folder.result
    if result is None:
        return False

    folder.check(folder.fingerprint, folder.settings | settings)
    if keep_checkpoints is not None:
        folder.keep_checkpoints = keep_checkpoints
    folder.tidy()

    _print_metrics(result.get("metrics"))
    steps = result["steps"]
    noun = "steps" if steps > 1 else "step"
    click.echo(
        f"{folder.location} is finished already, after {steps:,} {noun}: nothing was trained. "
        f"Its model: {folder.location / 'model'}"
    )
    return True


def run_task(name: str, *arguments, **options) -> None:
    """Start Keras, call the function of kbert that trains, and describe its run."""
    start_keras()
    with reporting_stop():
        _describe_run(getattr(kbert, name)(*arguments, **options))


@contextlib.contextmanager
def reporting_stop(message: str = "") -> Iterator[None]:
    """Say how to resume after Ctrl-C, with exit status 130 (143 for SIGTERM).

    `message` says it; "": the message of the run that stopped.
    """
    from kbert.training.stopping import ProcessFailed, Stopped

    try:
        yield
    except Stopped as stopped:
        say(f"kbert: {message or stopped}", err=True)
        raise click.exceptions.Exit(stopped.status) from None
    except ProcessFailed as error:
        say(f"kbert: {error}", err=True)
        os._exit(2)  # at the usual end JAX would wait minutes for the process that is gone


def _describe_run(result) -> None:
    """Print a run's metrics, and what it has written."""
    from kbert.training.run.run_folder import describe_sizes

    _print_metrics(getattr(result, "metrics", None))
    folder, history = result.folder, result.history
    if history.stopped:
        click.echo(history.stopped)
    click.echo(f"wrote {folder / 'model'}, {folder / 'model.keras'}")
    click.echo(f"curves: {folder / 'report.html'}")
    click.echo(f"size: {describe_sizes(folder)}")
    if not (folder / "checkpoints").exists():
        click.echo("the training states are deleted (--keep-checkpoints keeps them)")
    if not history.evaluations:
        click.echo("the model was not evaluated: no dev data were given (--dev)")


def _print_metrics(metrics: dict | None) -> None:
    """Print the metrics of the dev data, if there were any."""
    if metrics:
        listed = ", ".join(f"{name} {value:.4f}" for name, value in metrics.items())
        click.echo(f"dev: {listed}")
