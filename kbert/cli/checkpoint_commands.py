"""The commands that look into a checkpoint and write it in another format."""

import click

from kbert.checkpoints.formats import WRITERS
from kbert.cli.command import Choice, command
from kbert.cli.console import progress, say, say_json, starting_keras
from kbert.cli.early_checks import Output, check_file, check_source, check_writable
from kbert.cli.inputs import read_lines, start_quietly
from kbert.cli.options import CONFIG, HEAD_NAMES, SOURCE, casing, output_format


def _check_config(context, parameter, value):
    from kbert.graph.presets import get_config

    return None if value is None else get_config(value)


CONFIG_OPTION = click.option(
    "--config",
    metavar="CONFIG",
    callback=_check_config,
    help="Configuration of weights that have none: a preset or a JSON file.",
)
READ_AS = click.option(
    "--from-format", metavar="FORMAT", help="Format to read, if SRC holds several formats."
)


@command(
    short_help="Show what a checkpoint contains.",
    examples=(
        "kbert inspect bert-base-uncased",
        "kbert inspect uncased_L-2_H-128_A-2.zip --tensors",
    ),
)
@SOURCE
@CONFIG_OPTION
@READ_AS
@click.option("--tensors", "every_tensor", is_flag=True, help="List every tensor with its shape.")
@output_format("json")
def inspect(source, config, from_format, every_tensor, form):
    """Show a checkpoint's format, configuration, tensors, heads and totals.

    SRC is a folder or file of Google, transformers, sentence-transformers, KerasHub, keras_bert or
    kbert. No weights are loaded. The exit status is 1 if something does not fit.
    """
    from kbert.checkpoints.inspection import inspect as look
    from kbert.checkpoints.inspection import inspection_text

    check_source(source, form=from_format)
    start_quietly(source)
    with progress(f"looking into {source}"):
        found = look(source, config=config, format=from_format)
    if form == "json":
        say_json(_record(found))
    else:
        click.echo(inspection_text(found, every_tensor), nl=False)
    if found.problems:
        click.get_current_context().exit(1)


@command(
    short_help="Convert a checkpoint to another format.",
    examples=(
        "kbert convert bert-base-uncased preset --to keras_hub",
        "kbert convert uncased_L-2_H-128_A-2.zip tiny",
        "kbert convert bert-base-uncased bert.onnx",
        "kbert convert bert-base-uncased merged --adapter run/adapter",
        "kbert convert run out --to transformers_onnx --quantize int8_dynamic",
        "kbert convert run served --to saved_model --text",
        "kbert convert keras_bert.h5 bert --vocab vocab.txt --uncased",
    ),
    basic=("to", "head", "adapter"),
)
@SOURCE
@click.argument("destination", metavar="DST", type=Output())
@click.option(
    "--to",
    type=Choice(list(WRITERS)),
    metavar="FORMAT",
    help=f"Format to write: {', '.join(WRITERS)}. Default: by DST's ending, else transformers.",
)
@click.option("--head", type=HEAD_NAMES, help="Head to write. Default: the checkpoint's own.")
@click.option(
    "--architecture", metavar="CLASS", help="Name of transformers' class to write in config.json."
)
@click.option("--adapter", metavar="FOLDER", help="LoRA adapter of SRC to merge into its weights.")
@click.option(
    "--quantize",
    type=Choice(["int8", "int8_dynamic"]),
    help="Quantize the matrix products to int8, for onnx and transformers_onnx.",
)
@click.option(
    "--calibration", metavar="FILE", help="Texts for --quantize int8: a file with one per line."
)
@click.option(
    "--text",
    is_flag=True,
    help="Write a saved_model that takes texts; it needs tensorflow-text.",
)
@click.option(
    "--vocab",
    metavar="FILE",
    help="Vocabulary of SRC, a vocab.txt, if SRC has none; give --uncased or --cased too.",
)
@CONFIG_OPTION
@READ_AS
def convert(
    source,
    destination,
    to,
    head,
    architecture,
    adapter,
    quantize,
    calibration,
    text,
    vocab,
    config,
    from_format,
):
    """Read a checkpoint of any format and write it in another.

    DST is a folder, or a file for keras (.keras), onnx (.onnx) and litert (.tflite). A model of
    the same format there is replaced. A folder with another format, or with a run, is refused.
    """
    import dataclasses

    from kbert.checkpoints import fitting, formats
    from kbert.checkpoints.hub import fetching
    from kbert.data.tokenization.tokenizer import Tokenizer

    to = to or formats.format_for(destination)
    given = {"architecture": architecture, "quantize": quantize, "calibration": calibration}
    options = {name: value for name, value in given.items() if value is not None}
    options |= {"text": True} if text else {}
    formats.check_options(to, options)
    if (calibration is not None) != (quantize == "int8"):
        raise click.UsageError(
            "--quantize int8 and --calibration FILE need each other: give both, or --quantize "
            "int8_dynamic, which needs no texts"
        )
    if vocab is not None and casing() is None:
        raise click.UsageError(
            "--vocab FILE needs --uncased or --cased: a vocab.txt does not say its casing"
        )
    if text:
        from kbert.checkpoints.exports import saved_model

        saved_model.require_text()
    if calibration is not None:
        options["calibration"] = read_lines(calibration)
    formats.check_destination(destination, to)
    check_writable(destination)
    check_source(source, form=from_format)
    check_file(adapter and fetching.locate(adapter) / "adapter_config.json")
    tokenizer = None if vocab is None else Tokenizer.from_vocab(vocab, lowercase=bool(casing()))
    with starting_keras():
        from kbert.checkpoints.bert import load, save
    replaced = formats.is_there(destination, to)
    with progress(f"reading {source}"):
        bert = load(
            source,
            head=head,
            config=config,
            format=from_format,
            adapter=adapter,
            lowercase=casing(),
        )
    if tokenizer is not None:
        if problems := fitting.vocabulary_problems(tokenizer.vocab_size, bert.config):
            raise ValueError(f"{vocab} does not fit {source}: {problems[0]}")
        bert = dataclasses.replace(bert, tokenizer=tokenizer)
    with progress(f"writing {destination}"):
        save(bert, destination, format=to, **options)
    what = f"{to}, {bert.head}, {bert.model.count_params():,} parameters"
    say(f"wrote {destination} ({what})" + (", in place of the old one" if replaced else ""))


def _record(found) -> dict:
    import dataclasses

    record = dataclasses.asdict(found)
    record["config"] = found.config.to_dict()
    return record | {"params": found.params, "bytes": found.bytes}


@command(
    short_help="List the parameters by transformers' names.",
    examples=("kbert params base", "kbert params tiny --format tsv > tiny.tsv"),
)
@CONFIG
@output_format("tsv", "json", "markdown")
def params(config, form):
    """List the parameters by transformers' names, with shapes and totals."""
    from kbert.checkpoints.weight_names import named_parameters
    from kbert.graph.presets import get_config
    from kbert.io import row_formats

    config = get_config(config)
    if form == "text":
        from kbert.show.texts import params_text

        click.echo(params_text(config), nl=False)
        return
    rows = named_parameters(config)
    write = {
        "tsv": lambda rows: row_formats.to_csv(rows, "\t"),
        "json": row_formats.to_json,
        "markdown": row_formats.to_markdown,
    }[form]
    click.echo(write(rows), nl=False)


COMMANDS = [inspect, convert, params]
