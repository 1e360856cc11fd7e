"""The commands for models by name: downloading one, listing those in the caches, uploading one."""

import click

from kbert.cli.command import command, model_names
from kbert.cli.console import progress, say, say_json
from kbert.cli.early_checks import Output
from kbert.cli.options import output_format


@command(
    short_help="Download a model by its name.",
    examples=(
        "kbert download bert-base-uncased",
        "kbert download sentence-transformers/all-MiniLM-L6-v2 -o minilm",
        "kbert download google-bert/bert-base-uncased@refs/pr/1",
        "kbert download kaggle://keras/bert/keras/bert_base_en",
    ),
)
@click.argument("name", shell_complete=model_names)
@click.option(
    "-o", "--output", metavar="FOLDER", type=Output(), help="New folder to copy the model to."
)
def download(name, output):
    """Download a model from Hugging Face or Kaggle, and print its folder.

    NAME is one of these:

    \b
    bert-base-uncased                       a name that kbert knows
    google-bert/bert-base-uncased           a model of Hugging Face: owner/name
    google-bert/bert-base-uncased@REVISION  its branch, tag or commit
    kaggle://keras/bert/keras/bert_base_en  a model of Kaggle

    The model goes into the cache that transformers and KerasHub use too. Only the files that kbert
    reads are downloaded. If the model is already in the cache, it is updated. To resume an
    interrupted download, run the command again.
    """
    from kbert.checkpoints.hub import fetching

    with progress(f"downloading {name}"):
        folder = fetching.download(name, output)
    say(str(folder))


@command(
    short_help="List the downloaded models and their sizes.",
    examples=("kbert cache", "kbert cache --format json"),
)
@output_format("json")
def cache(form):
    """List the models in the caches of Hugging Face and Kaggle.

    kbert opens models of the types bert, roberta, distilbert and BertBackbone by their NAME. NAME
    alone means the commit of the branch main; NAME@COMMIT means another one.

    To remove a model, use `hf cache rm`, or delete its folder: --format json lists the folders.
    """
    from kbert.checkpoints.hub import hugging_face, kaggle
    from kbert.checkpoints.hub.cached_models import list_cached_models, measure_total

    models = list_cached_models()
    if form == "json":
        say_json(models)
        return
    rows = [("SIZE", "COMMIT", "BRANCH", "TYPE", "NAME")] if models else []
    for one in models:
        kind = one.kind if one.is_whole else "incomplete"
        refs = ",".join(one.refs) or "-"
        rows.append((_megabytes(one.bytes), one.revision[:8], refs, kind, one.name))
    widths = [max(len(row[column]) for row in rows) for column in range(4)] if rows else []
    for size, *others, name in rows:
        cells = (f"{cell:{width}}" for cell, width in zip(others, widths[1:], strict=True))
        say("  ".join((f"{size:>{max(12, widths[0])}}", *cells, name)))
    say(f"{_megabytes(measure_total()):>12}  in all")
    for folder in (hugging_face.cache_folder(), kaggle.cache_folder()):
        say(f"{'':14}{folder}{'' if folder.is_dir() else ' (not there)'}")


@command(
    short_help="Upload a model to Hugging Face.",
    examples=("kbert push run my-name/my-model", "kbert push folder my-org/my-model --private"),
)
@click.argument("folder")
@click.argument("name")
@click.option("--private", is_flag=True, help="Create the repository as private.")
def push(folder, name, private):
    """Upload a model to Hugging Face in one commit, and print the commit's address.

    FOLDER is a checkpoint or a finished run. NAME is owner/name on Hugging Face; the repository is
    created if there is none. Log in first with `hf auth login`, or set HF_TOKEN.

    If the repository has a model already, its files are deleted. Its README.md stays if FOLDER has
    none. A new repository always gets a model card. Optimizer states, logs and hidden files are not
    uploaded. The card of a run names its data files and its base model: read it, README.md in
    FOLDER, before you upload.
    """
    from kbert.checkpoints import pushing

    with progress(f"uploading {folder}"):
        address = pushing.push(folder, name, private)
    say(address)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


COMMANDS = [download, cache, push]
