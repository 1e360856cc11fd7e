"""The commands that show, count, check and draw a graph."""

import re
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

import kbert
from kbert.cli import options as shared
from kbert.cli.command import Choice, command, presets_or_files
from kbert.cli.console import progress, say, say_json, say_table, starting_keras
from kbert.cli.inputs import start_quietly
from kbert.cli.options import Output, option, takes
from kbert.cli.plot_command import draw
from kbert.cli.setting_options import partial_training
from kbert.cli.view_pages import split_pair

_ACCOUNT_KEYS = (
    "config",
    "head",
    "seq_len",
    "batch_size",
    "max_predictions",
    "dtype",
    "params",
    "forward_flops",
    "trainable_params",
    "training_flops_per_sequence",
    "activation_bytes",
    "training_memory_bytes",
    "groups",
    "rows",
    "conventions",
)


@command(
    "Print a model's layers and parameters.",
    "kbert summary",
    "kbert summary large --layers 1-2",
    "kbert summary tiny --head classifier --num-labels 3 --format json",
    "kbert summary base --head classifier --lora-rank 8",
    "kbert summary base --max-predictions 20 --selected-positions",
)
@takes(shared.CONFIG, shared.GRAPH, shared.SELECTED)
@option("--seq-len S", str, "Number of tokens per sequence, or 'any'. Default: all positions.")
@option("--layers I-J", str, "Show only the encoder blocks I to J.")
@option("--collapse", bool, "Show equal encoder blocks once, as in '12 × Encoder-n'.")
@option("--built", bool, "Show the graph that Keras builds.")
@partial_training
@shared.output_format("tsv", "json", "markdown", "latex")
def summary(config, seq_len, layers, collapse, built, form, trained, **graph):
    """Print the layers of a model with their shapes and parameters, as keras_bert does.

    The table is computed with formulas, without Keras; `kbert verify` compares it with the graph
    that Keras builds. With --built the table comes from that graph.

    With --collapse the table is short. --format latex writes a table for papers, without the
    connections.

    A terminal shows the table within its width. In a pipe or a file its rows are wider:
    `kbert summary base | less -S` shows one line per layer and scrolls sideways.
    """
    _check_summary_options(layers, collapse, form, trained)
    layer_range = _layer_range(layers, config)
    if seq_len is not None:
        graph["seq_len"] = _parse_seq_len(seq_len)
    spec = shared.get_spec(config, **graph)
    from kbert.graph import short_summary, summary_table
    from kbert.graph.closed_form import rows as closed_rows
    from kbert.graph.trained_parts import trained_parts

    parts = trained_parts(spec, **trained) if trained else None
    rows = kbert.model_rows(_build(config, spec)) if built else closed_rows(spec)
    shown = summary_table.select(rows, layer_range)

    if form == "json":
        total = sum(row.params for row in rows)
        say_json({"rows": shown, "total_params": total})
        return
    if form == "latex":
        sum_name = "Shown" if layer_range else "Total"
        text = short_summary.latex_text(shown, collapse=collapse, sum_name=sum_name)
    elif collapse:
        text = short_summary.short_text(rows, width=summary_table.width_shown())
    elif form != "text":
        say_table(shown, form)
        return
    else:
        columns = summary_table.trainable_columns(rows, parts) if parts else {}
        width = summary_table.width_shown()
        text = summary_table.summary_text(rows, layer_range, width=width, **columns)
    click.echo(text, nl=False)


def _check_summary_options(layers: str | None, collapse: bool, form: str, trained: dict) -> None:
    """Raise a UsageError for options of `kbert summary` that do not go together."""
    if trained and form != "text":
        raise click.UsageError(
            "--freeze and --lora-rank go with --format text: leave one of them out"
        )
    shows_part = trained or layers
    if collapse and (shows_part or form not in ("text", "latex")):
        raise click.UsageError(
            "--collapse shows the whole graph, as text or with --format latex: leave out --layers, "
            "--freeze, --lora-rank and other formats"
        )


def _parse_seq_len(text: str) -> int | None:
    """Return a number of tokens; None for "any"."""
    if text == "any":
        return None
    if not text.isdecimal():
        raise click.UsageError(f"--seq-len must be a whole number or 'any', got {text!r}")
    return int(text)


def _layer_range(text: str | None, config: str) -> tuple[str, str] | None:
    """Return the names that the first and the last encoder block of a range begin with."""
    if text is None:
        return None

    blocks = kbert.get_config(config).num_hidden_layers
    first, dash, last = text.partition("-")
    if not dash:
        last = first
    are_numbers = first.isdecimal() and last.isdecimal()
    if not (are_numbers and 1 <= int(first) <= int(last) <= blocks):
        raise click.UsageError(
            f"--layers must be a block or a range of blocks within 1 … {blocks}, such as 1 or 1-2, "
            f"got {text!r}"
        )
    return f"Encoder-{int(first)}-", f"Encoder-{int(last)}-"


@command(
    "Count parameters, FLOPs and bytes.",
    "kbert account base",
    "kbert account large --seq-len 128 --batch-size 32 --rows",
    "kbert account base large --format latex",
)
@click.argument("config", nargs=-1, metavar="[CONFIG …]", shell_complete=presets_or_files)
@takes(shared.GRAPH, shared.SELECTED, shared.SEQ_LEN, shared.SEQUENCES, shared.DTYPE)
@option("--rows every_row", bool, "Show the rows of all layers in the text or in LaTeX too.")
@partial_training
@shared.output_format("json", "csv", "markdown", "latex")
def account(config, every_row, form, trained, head, num_labels, **options):
    """Count parameters, FLOPs and bytes with formulas, without Keras.

    Several configurations are compared: their numbers stand side by side, with two their ratio too.
    """
    names = config or ("base",)
    accounts = {}
    for name in names:
        result = kbert.account(name, head=head, num_labels=num_labels, **options, **trained)
        shared.check_labels(result.head, num_labels)
        accounts[name] = result
    if len(names) > 1:
        _compare(names, accounts, form, every_row)
        return

    if form == "text":
        from kbert.show.texts import account_text

        text = account_text(names[0], result, every_row)
        click.echo(text, nl=False)
    elif form == "json":
        say_json(_list_values(result))
    elif form == "latex":
        click.echo(result.to_latex(every_row=every_row), nl=False)
    else:
        columns = ["layer", "type", "output_shape", "params", "formula", "flops"]
        say_table(result.rows, form, [*columns, "activation_bytes"])


def _list_values(account) -> dict:
    """Return an account's values by their keys in JSON."""
    attributes = {"forward_flops": "flops", "training_memory_bytes": "memory"}
    values = {}
    for key in _ACCOUNT_KEYS:
        attribute = attributes.get(key, key)
        values[key] = getattr(account, attribute)
    return values


def _compare(names, accounts, form: str, every_row: bool) -> None:
    """Print several accounts side by side."""
    if len(accounts) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise click.UsageError(f"configurations must differ, got {twice} twice")
    if every_row or form in ("csv", "markdown"):
        raise click.UsageError(
            "several configurations go with --format text, json or latex, without --rows: give one"
        )

    comparison = kbert.compare_accounts(accounts)
    if form == "json":
        say_json({name: _list_values(account) for name, account in accounts.items()})
    elif form == "latex":
        click.echo(comparison.to_latex(), nl=False)
    else:
        from kbert.show.texts import comparison_text

        click.echo(comparison_text(comparison), nl=False)


@command("Show that one query matrix holds the matrices of all heads.", "kbert heads base")
@shared.CONFIG
@option("--built", bool, "Compute both on the layer that Keras builds.")
def heads(config, built):
    """Show that one query matrix W_Q holds those of all heads: slices and both computations."""
    from kbert.show.texts import heads_text

    config = kbert.get_config(config)
    if built:
        with starting_keras():
            from kbert.model import layers  # noqa: F401
    report = kbert.compare_heads(config, built=built)
    click.echo(heads_text(report), nl=False)


@command("Check the graph against formulas and published tables.", "kbert verify base")
@shared.CONFIG
@shared.output_format("latex")
def verify(config, form):
    """Compare the graph that Keras builds, the formulas and published tables.

    The tables come from five published texts on BERT (docs/concepts/documents.md lists them)
    and from transformers. The exit status is 0 if all agree, and 1 if any differ.
    """
    if not _verify(kbert.get_config(config), form=form).ok:
        sys.exit(1)


@command(
    "Write an interactive page of a model.",
    "kbert explore base -o bert.html",
    "kbert explore bert-base-uncased -o weights.html",
    'kbert explore run -o page.html --sentence "A fine film."',
    "kbert explore bert-base-uncased -o page.html --beside",
    "kbert explore run --serve",
)
@click.argument("source", default="base", metavar="[SRC]", shell_complete=presets_or_files)
@takes(shared.GRAPH, shared.SEQ_LEN, shared.SEQUENCES, shared.DTYPE)
@option("-o --output", Output(), "File to write; it ends in .html.")
@option(
    "--sentence sentences",
    str,
    "Text that the page shows, or two with a tab between them: an example on a page with weights, "
    "else a recording. Repeat it for more.",
    multiple=True,
)
@option(
    "--weights",
    Choice(["int8", "float16", "float32"]),
    "Format of the weights in a checkpoint's page, with which it computes what you type. The "
    "default is int8, for models of at most 40 million parameters.",
)
@option("--beside", bool, "Write the weights into a file next to the page, for larger models.")
@option(
    "--serve", bool, "Show the page on this machine, and compute what you type. Ctrl-C ends it."
)
def explore(
    source, output, batch_size, head, num_labels, sentences, weights, beside, serve, **options
):
    """Write an interactive page of a model, in one file that needs no network.

    SRC is a configuration, such as base, or a checkpoint of any format. Of a checkpoint the page
    also shows what is in every tensor. The options set what the page shows first; you can change
    them on the page.

    With --serve nothing is written: kbert prints an address of this machine for your browser, and
    computes the sentences that you type there.
    """
    from kbert.show.explorer.explore import check_path, create_spec, is_checkpoint

    _check_explore_options(output, serve, weights, beside, options["dtype"])
    if output is not None:
        check_path(output)

    if is_checkpoint(source):
        _refuse_graph_options(("head", "num_labels", *options))
        start_quietly(source)
        graph, title = source, None
    else:
        page_options = {"--serve": serve, "--sentence": sentences}
        page_options |= {"--weights": weights, "--beside": beside}
        _refuse_page_options(source, page_options)
        if options["seq_len"] is None:
            del options["seq_len"]
        graph = shared.get_spec(source, head, num_labels, create_spec, **options)
        title = source

    pairs = [split_pair(sentence) for sentence in sentences]
    if serve:
        _serve(source, pairs)
        return

    with progress(f"exploring {source}"):
        page = kbert.explore(
            graph,
            output,
            batch_size=batch_size,
            sentences=pairs or None,
            title=title,
            weights=weights,
            beside=beside,
        )
    say(f"wrote {page.path} ({output.stat().st_size:,} bytes)")
    if beside:
        file = output.with_name(f"{output.stem}.weights.js")
        say(f"wrote {file} ({file.stat().st_size:,} bytes): keep it beside the page")


def _check_explore_options(
    output: Path | None, serve: bool, weights: str | None, beside: bool, dtype: str
) -> None:
    """Raise a UsageError for options of `kbert explore` that are wrong for any model."""
    from kbert.graph.accounting import DTYPES

    if dtype not in DTYPES:
        raise click.UsageError(f"--dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
    if serve and (weights or beside):
        raise click.UsageError("--weights and --beside go with -o, got --serve")
    writes_file = output is not None
    if serve == writes_file:
        got = "both" if serve else "neither"
        raise click.UsageError(f"give -o page.html, the file to write, or --serve, got {got}")


def _refuse_graph_options(names: Iterable[str]) -> None:
    """Raise a UsageError for an option on the command line that only a configuration can have."""
    context = click.get_current_context()
    for name in names:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            option = name.replace("_", "-")
            raise click.UsageError(f"--{option} goes with a configuration, got a checkpoint")


def _refuse_page_options(config: str, options: dict[str, Any]) -> None:
    """Raise a UsageError for an option that only a checkpoint's page can have."""
    for flag, value in options.items():
        if value:
            raise click.UsageError(f"{flag} goes with a checkpoint, got a configuration: {config}")


def _serve(source: str, sentences: list) -> None:
    """Serve a checkpoint's page until Ctrl-C."""
    from kbert.show.explorer.explore import explore_served
    from kbert.show.explorer.live.serving import Server

    with progress(f"exploring {source}"):
        page, tracer = explore_served(source, sentences)
    with Server(page.html, tracer) as server:
        say(f"{server.url} shows {source}, on this machine only. Ctrl-C ends it.")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            say("stopped")


@command("Show BERT base: the main parts of summary, account, verify and plot.", "kbert demo")
@option("-o --output", Output(), "File for the picture.", default="bert.png")
def demo(output):
    """Show BERT base: its layers, its parameters and FLOPs, a check and a picture.

    Each part begins with the command that prints the whole.
    """
    from kbert.graph.summary_table import summary_text, width_shown
    from kbert.show.plotting import check_path
    from kbert.show.texts import account_text

    check_path(output)
    start = time.perf_counter()
    model = _build("base", shared.get_spec("base", "pretraining", None))

    rows = kbert.model_rows(model)
    account = kbert.account("base")
    shown = [row for row in rows if not re.match("Encoder-(?!1-)", row.layer)]
    counts = (account.params, account.params)  # all, and the trainable ones
    _introduce("summary", f"{len(shown)} of {len(rows)} rows: Encoder-2 to 12 repeat Encoder-1")
    click.echo(summary_text(shown, width=width_shown(), counts=counts))

    _introduce("account", "parameters and FLOPs")
    paragraphs = account_text("base", account).split("\n\n")
    click.echo("\n\n".join(paragraphs[:3]) + "\n")

    _introduce("verify", "the comparisons")
    report = _verify(model, whole=False)

    click.echo(f"\n$ kbert plot base -o {output}\n")
    draw(model, output)

    click.echo(f"Summary, account, check and picture in {time.perf_counter() - start:.0f} s.")
    if not report.ok:
        sys.exit(1)


def _introduce(name: str, part: str) -> None:
    """Print the command whose output follows, and which part of it."""
    click.echo(f"$ kbert {name} base  # here {part}\n")


def _build(config, spec):
    """Build the graph in Keras, to look at."""
    with starting_keras():
        from kbert.model import builder  # noqa: F401
    from kbert.model.deferred import build_outline

    with progress(f"building {config}"):
        return build_outline(spec)


def _verify(subject, whole: bool = True, form: str = "text"):
    """Print the report on a configuration or a model; not `whole`: only its comparisons."""
    with starting_keras():
        from kbert.model import builder  # noqa: F401
        from kbert.show import verification
    with progress("verifying"):
        report = verification.verify(subject)
    if form == "latex":
        click.echo(report.to_latex(), nl=False)
        return report

    text = str(report)  # the comparisons, then what is wrong in published texts
    if report.ok and not whole:
        text = text.split("\n\n")[0] + "\n"
    click.echo(text, nl=False)
    return report
