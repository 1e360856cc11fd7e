"""`kbert plan`: what a pretraining takes on accelerators."""

import click

from kbert.cli.command import Choice, command
from kbert.cli.console import say_json
from kbert.cli.options import CONFIG, POSITIVE, output_format, trained_in_part
from kbert.graph.plan_defaults import PAPER_STEPS, PRECISIONS, UTILIZATION

_PRECISIONS = Choice(PRECISIONS)


@command(
    short_help="Plan memory, FLOPs and hours on TPUs and GPUs.",
    examples=(
        "kbert plan base --tpu v5e:4x4 --batch-size 4096",
        "kbert plan large --gpu H100:8 --seq-len 512 --gradient-checkpointing",
        "kbert plan base --gpu H100 --batch-size 64 --compile",
        "kbert plan large_uncased --gpu L4 --freeze embeddings,1-20",
        "kbert plan base --gpu RTX-4080 --peak-flops 97.5T --memory 16GiB",
    ),
)
@CONFIG
@click.option("--tpu", metavar="SLICE", help="TPU slice, such as v5e:4x4.")
@click.option("--gpu", metavar="NAME[:N]", help="GPU and number, such as H100:8 or RTX-4090.")
@click.option(
    "--peak-flops", "--peak", metavar="FLOPS", help="Peak FLOP/s of another GPU, such as 165T."
)
@click.option("--memory", metavar="BYTES", help="Memory of another GPU, such as 24GiB.")
@click.option(
    "--seq-len",
    type=POSITIVE,
    default=128,
    metavar="S",
    help="Number of tokens per sequence. Default: 128.",
)
@click.option(
    "--batch-size",
    type=POSITIVE,
    metavar="B",
    help="Number of sequences per training step, over all chips. Default: 256.",
)
@click.option(
    "--precision",
    type=_PRECISIONS,
    default="mixed_bfloat16",
    help="Precision of the computation. Default: mixed_bfloat16.",
)
@click.option(
    "--accumulation-steps",
    type=POSITIVE,
    default=1,
    help="Number of micro-batches per training step. Default: 1.",
)
@click.option(
    "--gradient-checkpointing",
    is_flag=True,
    help="Recompute the encoder blocks in the backward pass; it needs less memory.",
)
@click.option(
    "--max-predictions",
    type=POSITIVE,
    metavar="M",
    help="Number of masked tokens per sequence. Default: 15 %.",
)
@click.option(
    "--utilization",
    type=float,
    default=UTILIZATION,
    help=f"Share of the peak FLOP/s that is reached. Default: {UTILIZATION}.",
)
@click.option(
    "--steps",
    type=POSITIVE,
    default=PAPER_STEPS,
    help="Number of training steps. Default: the paper's 1,000,000.",
)
@trained_in_part
@click.option(
    "--compile",
    "compiles",
    is_flag=True,
    help="Compile the training step for the TPUs or GPUs too; it takes minutes.",
)
@output_format("json")
def plan(config, tpu, gpu, peak_flops, memory, batch_size, compiles, form, trained, **options):
    """Plan a pretraining: memory per chip, FLOPs, the largest batch and the time, without Keras.

    Without --tpu and --gpu, it prints a table of all accelerators. For a GPU that is not in the
    table, give --peak-flops (of dense matrix products in --precision, summed in float32) and
    --memory. --compile needs no TPU and no GPU: it compiles the whole training step for them, in
    minutes (pip install "kbert-keras[tpu]" or "kbert-keras[jax-cuda]").
    """
    from kbert.graph.plan import plan as planned
    from kbert.show.plan_text import accelerators_text, plan_text

    options |= trained
    if compiles and trained:
        raise click.UsageError(
            "--compile goes with the whole model: leave --freeze, --lora-rank out"
        )
    own = {"peak_flops": peak_flops, "memory": memory}
    if tpu is None and gpu is None and None in own.values():
        given = {"--format json": form == "json", "--compile": compiles}
        given |= {"--batch-size": batch_size is not None}
        if own["peak_flops"] or own["memory"]:
            raise click.UsageError("--peak-flops and --memory go together, or with --tpu or --gpu")
        for name in (name for name, is_given in given.items() if is_given):
            raise click.UsageError(f"{name} goes with --tpu or --gpu: give one of them")
        click.echo(accelerators_text(config, **options), nl=False)
        return
    sizes = {} if batch_size is None else {"batch_size": batch_size}
    found = planned(config, tpu=tpu, gpu=gpu, **own, **sizes, **options)
    if form == "json":
        result = _compiled(found) if compiles else found
        say_json(result.as_dict())
        return
    click.echo(plan_text(config, found), nl=False)
    if compiles:
        from kbert.show.compiled_text import compiled_text

        click.echo("\n" + compiled_text(_compiled(found)), nl=False)


def _compiled(found):
    """The plan's update, compiled; the seconds go by on stderr."""
    from kbert.io.progress import progress_bar
    from kbert.training.compiled.compiler import compile_plan

    said = f"compiling for {found.devices.name}"
    with progress_bar(None, " s", desc=said, bar_format="{desc}: {elapsed}") as bar:
        return compile_plan(found, lambda seconds: bar.update(seconds - bar.n))


COMMANDS = (plan,)
