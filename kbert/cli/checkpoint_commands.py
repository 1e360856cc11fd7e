"""The commands that download, list, upload, inspect and convert checkpoints."""

import dataclasses
from pathlib import Path

import click

import kbert
from kbert.checkpoints.formats import WRITERS
from kbert.cli import options as shared
from kbert.cli.command import Choice, command, model_names
from kbert.cli.console import progress, say, say_json, say_table, starting_keras
from kbert.cli.inputs import check_file, check_source, check_writable, read_lines, start_quietly
from kbert.cli.options import CONFIG, SOURCE, Output, casing, option, output_format
from kbert.io.atomic_write import refuse_input

_SIZE_WIDTH = 12  # characters of a size in megabytes


def _check_config(context, parameter, value):
    return None if value is None else kbert.get_config(value)


CONFIG_OPTION = option(
    "--config CONFIG",
    str,
    "Configuration of weights that have none: a preset or a JSON file.",
    callback=_check_config,
)
IGNORE = option(
    "--ignore PATTERN",
    str,
    "Tensors to leave out that are not BERT's, by name or pattern. May be repeated.",
    multiple=True,
)
READ_AS = option("--from-format FORMAT", str, "Format to read, if SRC holds several formats.")


@command(
    "Download a model by its name.",
    "kbert download bert-base-uncased",
    "kbert download sentence-transformers/all-MiniLM-L6-v2 -o minilm",
    "kbert download google-bert/bert-base-uncased@refs/pr/1",
    "kbert download kaggle://keras/bert/keras/bert_base_en",
)
@click.argument("name", shell_complete=model_names)
@option("-o --output FOLDER", Output(), "New folder to copy the model to.")
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
    with progress(f"downloading {name}"):
        folder = kbert.download(name, output)
    say(str(folder))


@command("List the downloaded models and their sizes.", "kbert cache", "kbert cache --format json")
@shared.JSON
def cache():
    """List the models in the caches of Hugging Face and Kaggle.

    kbert opens models of the types bert, roberta, distilbert and BertBackbone by their NAME. NAME
    alone means the commit of the branch main; NAME@COMMIT means another one.

    To remove a model, use `hf cache rm`, or delete its folder: --format json lists the folders.
    """
    from kbert.hub import hugging_face, kaggle
    from kbert.hub.cached_models import list_cached_models, measure_total

    models = list_cached_models()
    yield models
    if models:
        _say_models(models)

    say(f"{_megabytes(measure_total()):>{_SIZE_WIDTH}}  in all")
    for folder in (hugging_face.cache_folder(), kaggle.cache_folder()):
        note = "" if folder.is_dir() else " (not there)"
        say(f"{'':14}{folder}{note}")


def _say_models(models: list) -> None:
    """Print a table of the models in the caches."""
    lines = [("SIZE", "COMMIT", "BRANCH", "TYPE", "NAME")]
    for model in models:
        kind = model.kind if model.is_whole else "incomplete"
        refs = ",".join(model.refs) or "-"
        size = _megabytes(model.bytes)
        commit = model.revision[:8]
        lines.append((size, commit, refs, kind, model.name))

    widths = []
    for column in zip(*lines, strict=True):
        widths.append(max(len(cell) for cell in column))
    size_width, commit_width, refs_width, kind_width, _ = widths
    size_width = max(size_width, _SIZE_WIDTH)
    for size, commit, refs, kind, name in lines:
        identity = f"{commit:{commit_width}}  {refs:{refs_width}}  {kind:{kind_width}}"
        say(f"{size:>{size_width}}  {identity}  {name}")


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


@command(
    "Upload a model to Hugging Face.",
    "kbert push run my-name/my-model",
    "kbert push folder my-org/my-model --private",
)
@click.argument("folder")
@click.argument("name")
@option("--private", bool, "Create the repository as private.")
def push(folder, name, private):
    """Upload a model to Hugging Face in one commit, and print the commit's address.

    FOLDER is a checkpoint or a finished run. NAME is owner/name on Hugging Face; the repository is
    created if there is none. Log in first with `hf auth login`, or set HF_TOKEN.

    If the repository has a model already, its files are deleted. Its README.md stays if FOLDER has
    none. A new repository always gets a model card. Optimizer states, logs and hidden files are not
    uploaded. The card of a run names its data files and its base model: read it, README.md in
    FOLDER, before you upload.
    """
    with progress(f"uploading {folder}"):
        address = kbert.push(folder, name, private)
    say(address)


@command(
    "Show what a checkpoint contains.",
    "kbert inspect bert-base-uncased",
    "kbert inspect uncased_L-2_H-128_A-2.zip --tensors",
)
@SOURCE
@CONFIG_OPTION
@READ_AS
@IGNORE
@option("--tensors every_tensor", bool, "List every tensor with its shape.")
@output_format("json")
def inspect(source, config, from_format, ignore, every_tensor, form):
    """Show a checkpoint's format, configuration, tensors, heads and totals.

    SRC is a folder or file of Google, transformers, sentence-transformers, KerasHub, keras_bert or
    kbert. No weights are loaded. The exit status is 1 if something does not fit.
    """
    from kbert.checkpoints.inspection import inspection_text

    check_source(source, form=from_format)
    start_quietly(source)
    with progress(f"looking into {source}"):
        report = kbert.inspect(source, config=config, format=from_format, ignore=ignore)

    if form == "json":
        values = dataclasses.asdict(report)
        values["config"] = report.config.to_dict()
        values |= {"params": report.params, "bytes": report.bytes}
        say_json(values)
    else:
        click.echo(inspection_text(report, every_tensor), nl=False)
    if report.problems:
        click.get_current_context().exit(1)


@command(
    "Convert a checkpoint to another format.",
    "kbert convert bert-base-uncased preset --to keras_hub",
    "kbert convert uncased_L-2_H-128_A-2.zip tiny",
    "kbert convert bert-base-uncased bert.onnx",
    "kbert convert bert-base-uncased merged --adapter run/adapter",
    "kbert convert run out --to transformers_onnx --quantize int8_dynamic",
    "kbert convert run served --to saved_model --text",
    "kbert convert keras_bert.h5 bert --vocab vocab.txt --uncased",
    "kbert convert folder bert --ignore 'adapter.*'",
    basic="to head adapter overwrite",
)
@SOURCE
@click.argument("destination", metavar="DST", type=Output())
@option(
    "--to FORMAT",
    Choice(list(WRITERS)),
    f"Format to write: {', '.join(WRITERS)}. Default: by DST's ending, else transformers.",
)
@option("--head", shared.HEAD_NAMES, "Head to write. Default: the checkpoint's own.")
@option("--architecture CLASS", str, "Name of transformers' class to write in config.json.")
@option("--adapter FOLDER", str, "LoRA adapter of SRC to merge into its weights.")
@option(
    "--quantize",
    Choice(["int8", "int8_dynamic"]),
    "Quantize the matrix products to int8, for onnx and transformers_onnx.",
)
@option(
    "--calibration FILE",
    str,
    "Texts for --quantize int8: a file with one per line; - reads standard input.",
)
@option("--text", bool, "Write a saved_model that takes texts; it needs tensorflow-text.")
@option("--overwrite", bool, "Write over a model or file at DST, or into a folder with files.")
@option(
    "--vocab FILE",
    str,
    "Vocabulary of SRC, a vocab.txt, if SRC has none; give --uncased or --cased too.",
)
@CONFIG_OPTION
@READ_AS
@IGNORE
def convert(
    source, destination, to, head, adapter, overwrite, vocab, config, from_format, ignore, **options
):
    """Read a checkpoint of any format and write it in another.

    DST is a folder, or a file for keras (.keras), onnx (.onnx) and litert (.tflite). --overwrite
    replaces a model of the same format there, and files of the same names. A folder with another
    format, a run and its model are always refused; so is SRC, if --head, --adapter or --ignore
    change it.
    """
    from kbert.checkpoints import formats

    to = to or formats.format_for(destination)
    chosen = {name: value for name, value in options.items() if value not in (None, False)}
    options = chosen
    _check_options(to, options, vocab)
    is_changed = bool(head or adapter or ignore)  # else what is written has all that is read
    inputs = (source, adapter) if is_changed else ()
    _check_destination(destination, to, inputs, overwrite)
    is_replaced = formats.is_there(destination, to)
    check_source(source, form=from_format)
    if adapter is not None:
        _check_adapter(adapter)

    lowercase = casing()
    tokenizer = None
    if vocab is not None:
        tokenizer = kbert.Tokenizer.from_vocab(vocab, lowercase=bool(lowercase))

    with starting_keras():
        from kbert.checkpoints.bert import load, save
        from kbert.checkpoints.fitting import vocabulary_problems
    reading = {"head": head, "config": config, "format": from_format}
    reading |= {"adapter": adapter, "ignore": ignore}
    with progress(f"reading {source}"):
        bert = load(source, lowercase=lowercase, **reading)
    if tokenizer is not None:
        problems = vocabulary_problems(tokenizer.vocab_size, bert.config)
        if problems:
            raise ValueError(f"{vocab} does not fit {source}: {problems[0]}")
        bert = dataclasses.replace(bert, tokenizer=tokenizer)

    with progress(f"writing {destination}"):
        save(bert, destination, format=to, overwrite=overwrite, **options)
    description = f"{to}, {bert.head}, {bert.model.count_params():,} parameters"
    note = ", in place of the old one" if is_replaced else ""
    say(f"wrote {destination} ({description}){note}")


def _check_destination(destination: Path, to: str, inputs: tuple, overwrite: bool) -> None:
    """Raise where a checkpoint cannot be written, or would replace one of the `inputs`."""
    from kbert.checkpoints import formats, run_models

    formats.check_destination(destination, to)
    run_models.refuse_model_of_run(destination)
    refuse_input(destination, inputs)
    if not overwrite:
        formats.refuse_to_replace(destination, to)
    check_writable(destination)


def _check_adapter(adapter: str) -> None:
    """Raise an OSError where no LoRA adapter is at a path."""
    from kbert.hub import fetching
    from kbert.io.interrupted_saves import open_whole

    with open_whole(fetching.locate(adapter)) as whole:
        check_file(whole / "adapter_config.json")


def _check_options(to: str, options: dict, vocab: str | None) -> None:
    """Check a format's options; read the texts of --calibration."""
    from kbert.checkpoints import formats

    formats.check_options(to, options)
    needs_calibration = options.get("quantize") == "int8"
    if ("calibration" in options) != needs_calibration:
        raise click.UsageError(
            "--quantize int8 and --calibration FILE need each other: give both, or --quantize "
            "int8_dynamic, which needs no texts"
        )
    if vocab is not None and casing() is None:
        raise click.UsageError(
            "--vocab FILE needs --uncased or --cased: a vocab.txt does not say its casing"
        )
    if "text" in options:
        from kbert.exports import saved_model

        saved_model.require_text()
    if "calibration" in options:
        options["calibration"] = read_lines(options["calibration"])


@command(
    "List the parameters by transformers' names.",
    "kbert params base",
    "kbert params tiny --format tsv > tiny.tsv",
)
@CONFIG
@output_format("tsv", "json", "markdown")
def params(config, form):
    """List the parameters by transformers' names, with shapes and totals."""
    config = kbert.get_config(config)
    if form == "text":
        from kbert.show.texts import params_text

        click.echo(params_text(config), nl=False)
    elif form == "json":
        say_json(kbert.named_parameters(config))
    else:
        say_table(kbert.named_parameters(config), form)
