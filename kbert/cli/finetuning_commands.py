"""The commands that fine-tune and evaluate: parse, call, print; imports wait for the command."""

import json
from pathlib import Path

import click

from kbert.cli.command import command, names_or_files
from kbert.cli.console import starting_keras
from kbert.cli.early_checks import Output, check_file, check_source
from kbert.cli.options import (
    CASING_HELP,
    POSITIVE,
    PRECISION,
    SOURCE,
    AliasedChoice,
    casing,
    output_format,
)
from kbert.cli.pretraining_commands import (
    check_new_run,
    import_engine,
    refuse_other_task,
    refuse_with_resume,
    say_where,
    stoppable,
)
from kbert.cli.setting_options import given, with_settings, with_surroundings
from kbert.tasks.finetuning.settings import FinetuningSettings
from kbert.tasks.finetuning.task import TASKS, task_of

_TASKS = AliasedChoice("task", TASKS)
_PATH = click.Path(path_type=Path)
_COLUMNS = {
    "text_column": "Column of the texts, or of the words. Default: by its name.",
    "text_pair_column": "Column of the second texts. Default: by its name.",
    "label_column": "Column of the labels or numbers. Default: by its name.",
    "no_header": "The first line is an example, whatever it looks like.",
}
_HELP = _COLUMNS | {
    "epochs": "Passes over the data.",
    "max_length": "Tokens of an example. Default: 128, or as many as the model has positions.",
    "packing": "Several examples a row: nearly no padding, the same numbers. Not for qa, embed.",
    "label_smoothing": "Share of a label that goes to all labels alike.",
    "class_weights": "Rare labels count for more.",
    "loss": "Of embed; default: infonce, of scored pairs cosent.",
    "pooling": "Of embed; default: the checkpoint's own, else mean.",
    "scale": "Of cosines, in infonce and cosent.",
    "margin": "Of triplet.",
    "dimensions": "Of embed: lengths that vectors may be cut to (Matryoshka).",
    "warmup_ratio": "Of the updates.",
    "freeze": "Parts that are not trained: embeddings,1-8.",
    "head_learning_rate": "The highest of the head; default: as the others.",
    "layer_decay": "Of the rate, from layer to layer below the head, such as 0.95.",
    "lora_rank": "Rank of adapters, trained in the place of the weights.",
    "lora_targets": "Their matrices, between commas.",
    "lora_alpha": "They count alpha / rank times; default: once.",
    "lora_dropout": "Of what goes into them.",
    "seed": "Of the head, the order and dropout.",
    "keep_best": "The weights that did best on dev, or the last. Default: best.",
    "evaluate_every": "Updates; default: an epoch.",
    "save_every": "Updates; default: at the best evaluations and at the end.",
}


@command(
    short_help="Fine-tune a checkpoint on labelled data; or go on with a run.",
    examples=(
        "kbert finetune bert-base-uncased --task classify --train train.tsv \\",
        "    --dev dev.tsv -o run",
        "kbert finetune --resume run",
    ),
)
@click.argument("source", required=False, metavar="[SRC]", shell_complete=names_or_files)
@click.option("--task", type=_TASKS, help="Texts, words or answers.")
@click.option("--train", metavar="FILE", type=_PATH, help="Labelled data.")
@click.option("--dev", metavar="FILE", type=_PATH, help="To evaluate with after each epoch.")
@click.option("--teacher", metavar="SRC", help="To learn of: a model of the same labels.")
@click.option("-o", "--output", metavar="RUN", type=Output(), help="New folder.")
@click.option("--resume", "run", metavar="RUN", type=_PATH, help="Go on.")
@click.option("--uncased/--cased", "lowercase", default=None, help=CASING_HELP)
@with_settings(FinetuningSettings, _HELP)
@with_surroundings
def finetune(source, task, train, dev, teacher, output, run, around, **settings):
    """Fine-tune the checkpoint SRC: `--task classify --train train.tsv -o RUN`.

    \b
    classify:   text, [second text,] label, between tabs; or .csv, .jsonl with
                those columns
    regress:    the same with a number for the label
    multilabel: the same with labels between commas, or none
    tag:        a word and its label a line, sentences between blank lines
    qa:         SQuAD's JSON, 1.1 or 2.0
    embed:      two texts (a pair), three or more (the others are negatives), two
                and a score, or one and a label, between tabs; or .csv, .jsonl

    Ctrl-C saves; `kbert finetune --resume RUN` goes on, and so it does after a crash.
    """
    settings = given(settings, around)
    if run is not None:
        refuse_with_resume(task=task, output=output)
        moved = {"source": source, "train": train, "dev": dev, "teacher": teacher}
        _go_on(run, **moved, **around, **settings)
        return
    needed = (("SRC", source), ("--task", task), ("--train", train), ("-o RUN", output))
    for name, value in needed:
        if value is None:
            raise click.UsageError(
                f"{name} is missing: kbert finetune SRC --task classify --train FILE -o RUN"
            )
    check_new_run(output, "finetune")
    FinetuningSettings.of(settings)
    check_file(train)
    check_file(dev)
    _check_source(source)
    if teacher is not None:
        check_source(teacher)
    with starting_keras():
        from kbert.tasks.finetuning.finetune import finetune as start

        import_engine()
    data = {"train": train, "dev": dev, "teacher": teacher, "output": output}
    tuned = stoppable(start, source, task, **data, **around, **settings)
    _say(tuned)


def _check_source(source) -> None:
    """Raise where neither a checkpoint nor an adapter of one is at a path."""
    from kbert.checkpoints import run_models
    from kbert.tasks.finetuning import continued_adapter

    folder, is_run = continued_adapter.find_adapter(source), run_models.is_one(Path(source))
    check_source(continued_adapter.find_base(folder) if folder and not is_run else source)


def _go_on(run: Path, **options) -> None:
    from kbert.training.run.run_folder import RunFolder

    refuse_other_task(RunFolder.open(run), "finetune")
    for name in ("source", "teacher"):
        if options[name] is not None:
            check_source(options[name])
    check_file(options["train"])
    check_file(options["dev"])
    with starting_keras():
        from kbert.tasks.resume import resume

        import_engine()
    _say(stoppable(resume, run, **options))


def _say(tuned) -> None:
    if tuned.metrics:
        click.echo(", ".join(f"{name} {value:.4f}" for name, value in tuned.metrics.items()))
    say_where(tuned)


@command(
    short_help="How good a model is on labelled data.",
    examples=("kbert evaluate run/model --task classify --data dev.tsv",),
)
@SOURCE
@click.option("--task", type=_TASKS, required=True, help="Texts, words or answers.")
@click.option("--data", metavar="FILE", type=_PATH, required=True, help="As for finetune.")
@click.option("--max-length", type=POSITIVE, help="Tokens of an example; default: the model's.")
@click.option("--batch-size", type=POSITIVE, default=32, show_default=True)
@click.option("--text-column", help=_COLUMNS["text_column"])
@click.option("--text-pair-column", help=_COLUMNS["text_pair_column"])
@click.option("--label-column", help=_COLUMNS["label_column"])
@click.option("--no-header", is_flag=True, help=_COLUMNS["no_header"])
@PRECISION
@output_format("json")
def evaluate(source, task, data, form, **options):
    """Print the figures of the model SRC on labelled data."""
    head = task_of(task).head
    check_source(source, f"--task {task}", None if head == "encoder" else head)
    check_file(data)
    with starting_keras():
        import kbert.tasks.running  # noqa: F401
        from kbert.checkpoints.bert import load
        from kbert.tasks.finetuning.evaluate import evaluate as figures_of
    if casing() is not None:
        source = load(source, lowercase=casing())
    figures = figures_of(source, task, data, **options)
    if form == "json":
        click.echo(json.dumps(figures, indent=2))
        return
    width = max(map(len, figures))
    for name, value in figures.items():
        click.echo(f"{name:<{width}}  {value:.4f}")


COMMANDS = (finetune, evaluate)
