"""`kbert plan`: what a pretraining takes on accelerators."""

import sys

import click

import kbert
from kbert.cli.command import Choice, command
from kbert.cli.console import progress, say_json
from kbert.cli.options import CONFIG, POSITIVE, option, output_format
from kbert.cli.setting_options import partial_training
from kbert.graph.accelerators import PAPER_STEPS, PRECISIONS, UTILIZATION
from kbert.io.progress import progress_bar


@command(
    "Plan memory, FLOPs and hours on TPUs and GPUs.",
    "kbert plan base --tpu v5e:4x4 --batch-size 4096",
    "kbert plan large --gpu H100:8 --seq-len 512 --gradient-checkpointing",
    "kbert plan base --gpu H100 --batch-size 64 --compile",
    "kbert plan large_uncased --gpu L4 --freeze embeddings,1-20",
    "kbert plan base --gpu RTX-4080 --peak-flops 97.5T --memory 16GiB",
)
@CONFIG
@option("--tpu SLICE", str, "TPU slice, such as v5e:4x4.")
@option("--gpu NAME[:N]", str, "GPU and number, such as H100:8 or RTX-4090.")
@option("--peak-flops FLOPS", str, "Peak FLOP/s of another GPU, such as 165T.")
@option("--memory BYTES", str, "Memory of another GPU, such as 24GiB.")
@option("--seq-len S", POSITIVE, "Number of tokens per sequence.", default=128)
@option(
    "--batch-size B",
    POSITIVE,
    "Number of sequences per training step, over all chips. Default: 256.",
)
@option(
    "--precision", Choice(PRECISIONS), "Precision of the computation.", default="mixed_bfloat16"
)
@option("--accumulation-steps", POSITIVE, "Number of micro-batches per training step.", default=1)
@option(
    "--gradient-checkpointing",
    bool,
    "Recompute the encoder blocks in the backward pass; it needs less memory.",
)
@option("--max-predictions M", POSITIVE, "Number of masked tokens per sequence. Default: 15 %.")
@option("--utilization", float, "Share of the peak FLOP/s that is reached.", default=UTILIZATION)
@option(
    "--steps",
    POSITIVE,
    "Number of training steps. Default: the paper's 1,000,000.",
    default=PAPER_STEPS,
)
@partial_training
@option("--ema", float, "Share of the moving average of the weights that a step keeps.")
@option(
    "--compile compiles",
    bool,
    "Compile the training step for the TPUs or GPUs too; it takes minutes.",
)
@output_format("json")
def plan(config, tpu, gpu, peak_flops, memory, batch_size, ema, compiles, form, trained, **options):
    """Plan a pretraining: memory per chip, FLOPs, the largest batch and the time, without Keras.

    Without --tpu and --gpu, it prints a table of all accelerators. For a GPU that is not in the
    table, give --peak-flops (of dense matrix products in --precision, summed in float32) and
    --memory. --compile needs no TPU and no GPU: it compiles the whole training step for them, in
    minutes (pip install ".[tpu]" or ".[jax-cuda]" in the clone of kbert).
    """
    from kbert.show.plan_text import accelerators_text, describe_compiled, plan_text

    options |= trained
    if ema is not None:
        options["ema"] = ema
    if compiles and (trained or ema is not None):
        raise click.UsageError(
            "--compile goes with the whole model, without averages: leave --freeze, --lora-rank "
            "and --ema out"
        )

    is_other_gpu = peak_flops is not None and memory is not None
    if tpu is None and gpu is None and not is_other_gpu:
        if peak_flops or memory:
            raise click.UsageError("--peak-flops and --memory go together, or with --tpu or --gpu")
        refused = {"--format json": form == "json", "--compile": compiles}
        refused["--batch-size"] = batch_size is not None
        for name, is_set in refused.items():
            if is_set:
                raise click.UsageError(f"{name} goes with --tpu or --gpu: give one of them")
        click.echo(accelerators_text(config, **options), nl=False)
        return

    if batch_size is not None:
        options["batch_size"] = batch_size
    devices = {
        "tpu": tpu,
        "gpu": gpu,
        "peak_flops": peak_flops,
        "memory": memory,
    }
    result = kbert.plan(config, **devices, **options)

    if form == "json":
        shown = _compile(result) if compiles else result
        say_json(shown.as_dict())
        return
    click.echo(plan_text(config, result), nl=False)
    if compiles:
        click.echo("\n" + describe_compiled(_compile(result)), nl=False)


def _compile(plan):
    """Compile the plan's training step; on a terminal, a line on stderr counts the seconds."""
    text = f"compiling for {plan.devices.name}"
    if not sys.stderr.isatty():
        with progress(text):
            return kbert.compile_plan(plan)
    with progress_bar(None, " s", desc=text, bar_format="{desc}: {elapsed}") as bar:
        return kbert.compile_plan(plan, lambda seconds: bar.update(seconds - bar.n))
