"""The command that pretrains: parses, calls, prints; imports wait for the command."""

import os
from pathlib import Path

import click

from kbert.cli.command import command
from kbert.cli.console import say, starting_keras
from kbert.cli.early_checks import Input, Output, check_source, check_writable
from kbert.cli.setting_options import given, with_run_options, with_settings
from kbert.tasks.pretraining.settings import PretrainingSettings

_HELP = {
    "seq_len": "Number of tokens per example.",
    "max_predictions": "Maximum number of masked tokens per example. "
    "Default: --mlm-probability of the tokens.",
    "warmup_steps": "Number of warm-up steps. Default: a tenth of --steps, at most 10,000.",
    "seed": "Random seed of the weights, the data and dropout.",
    "mlm_probability": "Share of the tokens that the model predicts.",
    "short_seq_probability": "Share of the examples that are shorter than --seq-len.",
    "whole_word": "Mask whole words.",
    "mlm_only": "Train on full sequences, without next-sentence prediction.",
    "dev_ratio": "Share of the documents that is held out for evaluation. "
    "Default: 0.05 of 100 documents or more.",
    "evaluate_every": "Number of steps between two evaluations. Default: a tenth of --steps.",
    "evaluation_batches": "Maximum number of batches per evaluation.",
    "save_every": "Number of steps between two saved training states. "
    "Default: a tenth of --steps, at most 1,000.",
    "freeze": "Parts of --init that are not trained, such as embeddings,1-8.",
    "lora_rank": "Rank of LoRA adapters. They and the heads are trained, other weights frozen.",
    "lora_targets": "Matrices that get an adapter, separated by commas.",
    "lora_alpha": "Scale of the adapters: they count alpha / rank times. Default: once.",
    "lora_dropout": "Dropout rate of the adapters' inputs.",
}
_BASIC = (
    *("config", "init", "dev", "output", "run", "steps", "batch_size", "seq_len"),
    *("learning_rate", "precision", "seed"),
)


@command(
    short_help="Pretrain a BERT on shards, or resume a run.",
    examples=(
        "kbert pretrain shards --config mini --steps 10000 -o run",
        "kbert pretrain --resume run",
    ),
    basic=_BASIC,
)
@click.argument("shards", required=False, metavar="[SHARDS]", type=Input())
@click.option("--config", help="Configuration: a preset or a JSON file. Default: tiny.")
@click.option("--init", metavar="SRC", help="Checkpoint to start from.")
@click.option("--dev", metavar="SHARDS", help="Shards for evaluation.")
@click.option(
    "--teacher",
    metavar="SRC",
    help="Teacher checkpoint for distillation; it must have the same vocabulary.",
)
@click.option("-o", "--output", metavar="RUN", type=Output(), help="New folder for the run.")
@click.option(
    "--resume",
    "run",
    metavar="RUN",
    type=Input(),
    help="Resume the run in this folder.",
)
@click.option("--steps", type=int, help="Number of training steps.")
@with_settings(PretrainingSettings, _HELP)
@with_run_options
def pretrain(shards, config, init, dev, teacher, output, run, around, **settings):
    """Pretrain a BERT on SHARDS, which `kbert prepare` writes.

    A new run needs `-o RUN --steps N`. Ctrl-C saves the run. After Ctrl-C or a crash,
    `kbert pretrain --resume RUN` continues it.
    """
    settings = given(settings, around)
    if run is not None:
        refuse_with_resume(config=config, init=init, output=output)
        _go_on(run, settings, shards=shards, dev=dev, teacher=teacher, **around)
        return
    for name, value in (("SHARDS", shards), ("-o RUN", output), ("--steps", settings.get("steps"))):
        if value is None:
            raise click.UsageError(f"{name} is missing: kbert pretrain SHARDS -o RUN --steps N")
    if init is not None and config is not None:
        raise click.UsageError(
            "--config cannot be given with --init, which has its own: leave --config out"
        )
    _check(shards, config, output, (init, teacher), dev, settings)
    with starting_keras():
        from kbert.tasks.pretraining.pretrain import pretrain as start

        import_engine()
    data = {"output": output, "init": init, "dev": dev, "teacher": teacher}
    trained = stoppable(start, shards, config or "tiny", **data, **around, **settings)
    say_where(trained)


def _check(shards: Path, config, output: Path, sources, dev, settings: dict) -> None:
    """What can be known before Keras starts."""
    from kbert.data.corpus.shards import open_shards
    from kbert.graph.presets import get_config

    check_new_run(output, "pretrain")
    PretrainingSettings.from_options(settings)
    if config is not None:
        get_config(config)
    for source in sources:
        if source is not None:
            check_source(source)
    for folder in (shards, dev):
        if folder is not None:
            open_shards(folder, check=False)


def check_new_run(output: Path, task: str) -> None:
    """Raises where a new run cannot have its folder."""
    from kbert.training.run.run_folder import refuse_used

    refuse_used(output, task)
    check_writable(output)


def import_engine() -> None:
    """Imports what the backend logs messages about, while they are held back."""
    import kbert.training.loop.loop  # noqa: F401


def _go_on(run: Path, settings: dict, **options) -> None:
    from kbert.training.run.run_folder import RunFolder

    folder = RunFolder.open(run)
    refuse_other_task(folder, "pretrain")
    if say_finished(folder, settings, options["keep_checkpoints"]):
        return
    with starting_keras():
        from kbert.tasks.resume import resume

        import_engine()
    say_where(stoppable(resume, run, **options, **settings))


def say_finished(folder, settings: dict, keep_checkpoints: bool | None) -> bool:
    """Say that a run to resume is finished already; return False for one that is not."""
    if (result := folder.result) is None:
        return False
    folder.check(folder.fingerprint, folder.settings | settings)
    if keep_checkpoints is not None:
        folder.keep_checkpoints = keep_checkpoints
    folder.tidy()
    say_metrics(result.get("metrics"))
    steps = f"{result['steps']:,} step{'s' if result['steps'] > 1 else ''}"
    click.echo(
        f"{folder.path} is finished already, after {steps}: nothing was trained. "
        f"Its model: {folder.path / 'model'}"
    )
    return True


def say_metrics(metrics: dict | None) -> None:
    if metrics:
        click.echo(", ".join(f"{name} {value:.4f}" for name, value in metrics.items()))


def refuse_other_task(folder, task: str) -> None:
    """A ValueError for a run that another command goes on with."""
    if folder.task != task:
        raise ValueError(
            f"{folder.path} is not a run of kbert {task}: resume it with {folder.resume_command}"
        )


def stoppable(function, *arguments, **options):
    """Calls it; Ctrl-C is a line that says how to go on, and exit status 130; of SIGTERM 143."""
    from kbert.training.stopping import ProcessLost, Stopped

    try:
        return function(*arguments, **options)
    except Stopped as stopped:
        say(f"kbert: {stopped}", err=True)
        raise click.exceptions.Exit(stopped.status) from None
    except ProcessLost as lost:
        say(f"kbert: {lost}", err=True)
        os._exit(2)  # at the usual end JAX would wait minutes for the process that is gone


def say_where(trained) -> None:
    """What a run has written."""
    from kbert.training.run.run_folder import describe_sizes

    if trained.history.stopped:
        click.echo(trained.history.stopped)
    click.echo(f"wrote {trained.folder / 'model'}, {trained.folder / 'model.keras'}")
    click.echo(f"curves: {trained.folder / 'report.html'}")
    click.echo(f"size: {describe_sizes(trained.folder)}")
    if not (trained.folder / "checkpoints").exists():
        click.echo("the training states are deleted (--keep-checkpoints keeps them)")
    if not trained.history.evaluations:
        click.echo("the model was not evaluated: no dev data were given (--dev)")


def refuse_with_resume(**options) -> None:
    """Raises a UsageError for what a run has of its own."""
    for name, value in options.items():
        if value is not None:
            raise click.UsageError(
                f"--{name} cannot be given with --resume: leave it out, the run has its own"
            )


COMMANDS = (pretrain,)
