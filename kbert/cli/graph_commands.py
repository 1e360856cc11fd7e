"""The commands of the graph: parse, call, print; imports wait for the command that needs them."""

import sys
import time
from pathlib import Path

import click

from kbert.cli.command import command
from kbert.cli.console import progress, say_json, starting_keras
from kbert.cli.early_checks import Output
from kbert.cli.options import (
    CONFIG,
    HEAD,
    LABELS,
    PREDICTIONS,
    SELECTED,
    labels_of,
    output_format,
    spec_of,
    trained_in_part,
)


@command(
    short_help="Print a model's layers and parameters.",
    examples=(
        "kbert summary",
        "kbert summary large --layers 1-2",
        "kbert summary tiny --head classifier --num-labels 3 --format json",
        "kbert summary base --head classifier --lora-rank 8",
        "kbert summary base --max-predictions 20 --selected-positions",
    ),
)
@CONFIG
@HEAD
@LABELS
@PREDICTIONS
@SELECTED
@click.option(
    "--seq-len",
    metavar="S",
    help="Number of tokens per sequence, or 'any'. Default: all positions.",
)
@click.option("--layers", metavar="I-J", help="Show only the encoder blocks I to J.")
@click.option("--built", is_flag=True, help="Show the graph that Keras builds.")
@trained_in_part
@output_format("tsv", "json", "markdown")
def summary(
    config,
    head,
    num_labels,
    max_predictions,
    selected_positions,
    seq_len,
    layers,
    built,
    form,
    trained,
):
    """Print the layers of a model with their shapes and parameters, as keras_bert does.

    The table is computed with formulas, without Keras; `kbert verify` compares it with the graph
    that Keras builds. With --built the table comes from that graph.

    A terminal shows the table within its width. In a pipe or a file its rows are wider:
    `kbert summary base | less -S` shows one line per layer and scrolls sideways.
    """
    if trained and form != "text":
        raise click.UsageError(
            "--freeze and --lora-rank go with --format text: leave one of them out"
        )
    layer_range = _layer_range(layers, config)
    length = _length_option(seq_len)
    spec = spec_of(config, head, num_labels, max_predictions, selected_positions, **length)
    from kbert.graph.closed_form import rows as closed_rows
    from kbert.graph.summary_rows import to_tsv
    from kbert.graph.summary_table import select, summary_text, trained_columns, width_shown
    from kbert.graph.trained_parts import trained_parts
    from kbert.io import row_formats

    parts = trained_parts(spec, **trained) if trained else None
    rows = _built_rows(config, spec) if built else closed_rows(spec)
    shown = select(rows, layer_range)
    if form == "tsv":
        click.echo(to_tsv(shown), nl=False)
    elif form == "json":
        total = sum(row.params for row in rows)
        say_json({"rows": shown, "total_params": total})
    elif form == "markdown":
        click.echo(row_formats.to_markdown(shown), nl=False)
    else:
        shown_so = trained_columns(rows, parts) if parts else {}
        click.echo(summary_text(rows, layer_range, width=width_shown(), **shown_so), nl=False)


@command(
    short_help="Count parameters, FLOPs and bytes.",
    examples=("kbert account base", "kbert account large --seq-len 128 --batch-size 32 --rows"),
)
@CONFIG
@HEAD
@LABELS
@PREDICTIONS
@SELECTED
@click.option(
    "--seq-len",
    type=int,
    metavar="S",
    help="Number of tokens per sequence. Default: all positions.",
)
@click.option(
    "--batch-size",
    type=int,
    default=1,
    metavar="B",
    help="Number of sequences per batch. Default: 1.",
)
@click.option(
    "--dtype",
    default="float32",
    help="Data type: float32, mixed_bfloat16, bfloat16, … Default: float32.",
)
@click.option(
    "--rows", "every_row", is_flag=True, help="Show the rows of all layers in the text too."
)
@trained_in_part
@output_format("json", "csv", "markdown")
def account(
    config,
    head,
    num_labels,
    max_predictions,
    selected_positions,
    seq_len,
    batch_size,
    dtype,
    every_row,
    form,
    trained,
):
    """Count parameters, FLOPs and bytes with formulas, without Keras."""
    from kbert.graph.accounting import account as count

    result = count(
        config,
        seq_len,
        batch_size,
        head=head,
        max_predictions=max_predictions,
        selected_positions=selected_positions,
        num_labels=labels_of(head, num_labels),
        dtype=dtype,
        **trained,
    )
    if form == "text":
        from kbert.show.texts import account_text

        click.echo(account_text(config, result, every_row), nl=False)
        return
    from kbert.io import row_formats

    if form == "csv":
        click.echo(row_formats.to_csv(result.rows), nl=False)
    elif form == "markdown":
        columns = ["layer", "type", "output_shape", "params", "formula", "flops"]
        click.echo(row_formats.to_markdown(result.rows, [*columns, "activation_bytes"]), nl=False)
    else:
        record = {
            "config": result.config,
            "head": result.head,
            "seq_len": result.seq_len,
            "batch_size": result.batch_size,
            "max_predictions": result.max_predictions,
            "dtype": result.dtype,
            "params": result.params,
            "forward_flops": result.flops,
            "trainable_params": result.trainable_params,
            "training_flops_per_sequence": result.training_flops_per_sequence,
            "activation_bytes": result.activation_bytes,
            "training_memory_bytes": result.memory,
            "groups": result.groups,
            "rows": result.rows,
            "conventions": result.conventions,
        }
        say_json(record)


@command(
    short_help="Show that one query matrix holds the matrices of all heads.",
    examples=("kbert heads base",),
)
@CONFIG
@click.option("--built", is_flag=True, help="Compute both on the layer that Keras builds.")
def heads(config, built):
    """Show that one query matrix W_Q holds those of all heads: slices and both computations."""
    from kbert.graph.presets import get_config
    from kbert.show.one_projection import compare_heads
    from kbert.show.texts import heads_text

    config = get_config(config)
    if built:
        with starting_keras():
            from kbert.model import layers  # noqa: F401
    click.echo(heads_text(compare_heads(config, built=built)), nl=False)


@command(
    short_help="Check the graph against formulas and published tables.",
    examples=("kbert verify base",),
)
@CONFIG
def verify(config):
    """Compare the graph that Keras builds, the formulas and published tables.

    The tables come from five published texts on BERT (docs/concepts/documents.md lists them)
    and from transformers. The exit status is 0 if all agree, and 1 if any differ.
    """
    if not _verify(config).ok:
        sys.exit(1)


@command(
    short_help="Draw the graph as a picture.",
    examples=("kbert plot base -o bert.svg", "kbert plot tiny --expand -o tiny.png"),
)
@CONFIG
@HEAD
@LABELS
@PREDICTIONS
@SELECTED
@click.option(
    "-o",
    "--output",
    required=True,
    type=Output(),
    help="File to write: .png .svg .pdf .dot .mmd (Mermaid).",
)
@click.option(
    "--collapse/--expand",
    default=True,
    help="Draw one encoder block '× 12', or every block. Default: --collapse.",
)
def plot(config, head, num_labels, max_predictions, selected_positions, output, collapse):
    """Draw the graph as a picture. Graphviz need not be installed."""
    from kbert.show.diagrams import check_path

    check_path(output)
    spec = spec_of(config, head, num_labels, max_predictions, selected_positions)
    _plot(spec, output, collapse)


@command(
    short_help="Run summary, account, verify and plot for BERT base.",
    examples=("kbert demo",),
)
@click.option(
    "-o",
    "--output",
    default="bert.png",
    type=Output(),
    help="File for the picture. Default: bert.png.",
)
def demo(output):
    """Show BERT base: its layers, its parameters and FLOPs, a check and a picture."""
    from kbert.show.diagrams import check_path

    check_path(output)
    start = time.perf_counter()
    model = _build("base", spec_of("base", "pretraining", None, None))
    model.summary()
    click.echo("\n$ kbert account base\n")
    from kbert.graph.accounting import account as count
    from kbert.show.texts import account_text

    click.echo(account_text("base", count("base")))
    click.echo("$ kbert verify base\n")
    report = _verify(model)
    click.echo(f"\n$ kbert plot base -o {output}\n")
    _plot(model, output, True)
    click.echo(f"Summary, account, check and picture in {time.perf_counter() - start:.0f} s.")
    if not report.ok:
        sys.exit(1)


COMMANDS = [summary, account, heads, verify, plot, demo]


def _build(config, spec):
    """The graph that Keras builds, to look at."""
    with starting_keras():
        from kbert.model import builder  # noqa: F401
    from kbert.model.deferred import build_outline

    with progress(f"building {config}"):
        return build_outline(spec)


def _built_rows(config, spec):
    model = _build(config, spec)
    from kbert.model.summary import model_rows

    return model_rows(model)


def _verify(subject):
    from kbert.graph.presets import get_config
    from kbert.show.texts import verify_text

    if isinstance(subject, str):
        subject = get_config(subject)
    with starting_keras():
        from kbert.model import builder  # noqa: F401
        from kbert.show.verification import verify
    with progress("verifying"):
        report = verify(subject)
    click.echo(verify_text(report), nl=False)
    return report


def _plot(graph, output: Path, collapse: bool) -> None:
    from kbert.show.diagrams import plot

    with progress("drawing"):
        path = plot(graph, output, collapse=collapse)
    click.echo(f"wrote {path} ({path.stat().st_size:,} bytes)")


def _length_option(text: str | None) -> dict:
    if text is None:
        return {}
    if text == "any":
        return {"seq_len": None}
    if not text.isdecimal():
        raise click.UsageError(f"--seq-len must be a whole number or 'any', got {text!r}")
    return {"seq_len": int(text)}


def _layer_range(text: str | None, config: str) -> tuple[str, str] | None:
    from kbert.graph.presets import get_config

    if text is None:
        return None
    blocks = get_config(config).num_hidden_layers
    first, dash, last = text.partition("-")
    last = last if dash else first
    if not (first.isdecimal() and last.isdecimal() and 1 <= int(first) <= int(last) <= blocks):
        raise click.UsageError(
            f"--layers must be a block or a range of blocks within 1 … {blocks}, such as 1 or 1-2, "
            f"got {text!r}"
        )
    return f"Encoder-{int(first)}-", f"Encoder-{int(last)}-"
