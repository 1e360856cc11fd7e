"""The command that pretrains, and what it shares with `kbert finetune`."""

import os
from pathlib import Path

import click

import kbert
from kbert.cli.command import command
from kbert.cli.console import say, starting_keras
from kbert.cli.inputs import check_source, check_writable
from kbert.cli.options import Input, Output, option
from kbert.cli.setting_options import add_run_options, add_settings, select_settings
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
OUTPUT_RUN = option("-o --output RUN", Output(), "New folder for the run.")
RESUME = option("--resume run RUN", Input(), "Resume the run in this folder.")


@command(
    "Pretrain a BERT on shards, or resume a run.",
    "kbert pretrain shards --config mini --steps 10000 -o run",
    "kbert pretrain --resume run",
    basic="config init dev output run steps batch_size seq_len learning_rate precision seed",
)
@click.argument("shards", required=False, metavar="[SHARDS]", type=Input())
@option("--config", str, "Configuration: a preset or a JSON file. Default: tiny.")
@option("--init SRC", str, "Checkpoint to start from.")
@option("--dev SHARDS", str, "Shards for evaluation.")
@option(
    "--teacher SRC",
    str,
    "Teacher checkpoint for distillation; it must have the same vocabulary.",
)
@OUTPUT_RUN
@RESUME
@option("--steps", int, "Number of training steps.")
@add_settings(PretrainingSettings, _HELP)
@add_run_options
def pretrain(shards, config, init, dev, teacher, output, run, run_options, **settings):
    """Pretrain a BERT on SHARDS, which `kbert prepare` writes.

    A new run needs `-o RUN --steps N`. Ctrl-C saves the run. After Ctrl-C or a crash,
    `kbert pretrain --resume RUN` continues it.
    """
    settings = select_settings(settings, run_options)
    if run is not None:
        refuse_with_resume(config=config, init=init, output=output)
        data = {"shards": shards, "dev": dev, "teacher": teacher}
        resume_run("pretrain", run, settings, run_options, data)
        return
    for name, value in (("SHARDS", shards), ("-o RUN", output), ("--steps", settings.get("steps"))):
        if value is None:
            raise click.UsageError(f"{name} is missing: kbert pretrain SHARDS -o RUN --steps N")
    if init is not None and config is not None:
        raise click.UsageError(
            "--config cannot be given with --init, which has its own: leave --config out"
        )
    _check(shards, config, output, (init, teacher), dev, settings)
    start_keras()
    data = {"output": output, "init": init, "dev": dev, "teacher": teacher}
    arguments = data | run_options | settings
    describe_run(run_stoppable(kbert.pretrain, shards, config or "tiny", **arguments))


def _check(shards: Path, config, output: Path, sources, dev, settings: dict) -> None:
    """Check what can be known before Keras starts."""
    check_new_run(output, "pretrain")
    PretrainingSettings.from_options(settings)
    if config is not None:
        kbert.get_config(config)
    for source in sources:
        if source is not None:
            check_source(source)
    for folder in (shards, dev):
        if folder is not None:
            kbert.open_shards(folder, check=False)


def refuse_with_resume(**options) -> None:
    """Raise a UsageError for an option that a resumed run has from its settings."""
    for name, value in options.items():
        if value is not None:
            raise click.UsageError(
                f"--{name} cannot be given with --resume: leave it out, the run has its own"
            )


def check_new_run(output: Path, task: str) -> None:
    """Raise where a new run cannot have its folder."""
    from kbert.training.run.run_folder import refuse_used

    refuse_used(output, task)
    check_writable(output)


def start_keras() -> None:
    """Start Keras and what the backend logs messages about, while they are held back."""
    with starting_keras():
        import kbert.tasks.resume
        import kbert.training.loop.loop  # noqa: F401


def resume_run(
    task: str, run: Path, settings: dict, run_options: dict, data: dict, check=lambda: None
) -> None:
    """Resume a run of `kbert TASK`, and say what it has written.

    Args:
        task: "pretrain" or "finetune".
        run: its folder.
        settings: the settings of the command line.
        run_options: the `RunOptions`.
        data: paths that replace the run's own; None: they are as they were.
        check: called before Keras starts, if the run is not finished.
    """
    from kbert.training.run.run_folder import RunFolder

    folder = RunFolder.open(run)
    if folder.task != task:
        raise ValueError(
            f"{folder.path} is not a run of kbert {task}: resume it with {folder.resume_command}"
        )
    if _is_finished(folder, settings, run_options["keep_checkpoints"]):
        return
    check()
    start_keras()
    describe_run(run_stoppable(kbert.resume, run, **data, **run_options, **settings))


def _is_finished(folder, settings: dict, keep_checkpoints: bool | None) -> bool:
    """Say that a run to resume is finished already; return False for one that is not."""
    if (result := folder.result) is None:
        return False
    folder.check(folder.fingerprint, folder.settings | settings)
    if keep_checkpoints is not None:
        folder.keep_checkpoints = keep_checkpoints
    folder.tidy()
    _print_metrics(result.get("metrics"))
    steps = f"{result['steps']:,} step{'s' if result['steps'] > 1 else ''}"
    click.echo(
        f"{folder.path} is finished already, after {steps}: nothing was trained. "
        f"Its model: {folder.path / 'model'}"
    )
    return True


def run_stoppable(function, *arguments, **options):
    """Call a function; after Ctrl-C say how to resume, with exit status 130 (143 for SIGTERM)."""
    from kbert.training.stopping import ProcessFailed, Stopped

    try:
        return function(*arguments, **options)
    except Stopped as stopped:
        say(f"kbert: {stopped}", err=True)
        raise click.exceptions.Exit(stopped.status) from None
    except ProcessFailed as error:
        say(f"kbert: {error}", err=True)
        os._exit(2)  # at the usual end JAX would wait minutes for the process that is gone


def describe_run(result) -> None:
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
    if metrics:
        click.echo(", ".join(f"{name} {value:.4f}" for name, value in metrics.items()))
