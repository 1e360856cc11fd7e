"""`kbert plan`: what a pretraining takes on accelerators."""

import click

from kbert.cli.options import POSITIVE
from kbert.graph.plan_defaults import PAPER_STEPS, PRECISIONS, UTILIZATION

_PRECISIONS = click.Choice(PRECISIONS)


@click.command(short_help="Memory, FLOPs and hours on TPUs and GPUs.")
@click.argument("config", default="base")
@click.option("--tpu", metavar="SLICE", help="Such as v5e:4x4.")
@click.option("--gpu", metavar="NAME[:N]", help="Such as H100:8.")
@click.option("--seq-len", type=POSITIVE, default=128, metavar="S", help="Tokens a sequence.")
@click.option("--batch", type=POSITIVE, metavar="B", help="Sequences an update; 256.")
@click.option("--precision", type=_PRECISIONS, default="mixed_bfloat16", help="What to compute in.")
@click.option("--accumulation", type=POSITIVE, default=1, help="Micro-batches of an update.")
@click.option("--rematerialize", is_flag=True, help="Blocks are computed again: less memory.")
@click.option("--max-predictions", type=POSITIVE, metavar="M", help="Of a sequence; 15 %.")
@click.option("--utilization", type=float, default=UTILIZATION, help="Share of the peak; 0.4.")
@click.option("--steps", type=POSITIVE, default=PAPER_STEPS, help="Updates; the paper's 1,000,000.")
@click.option("--json", "as_json", is_flag=True, help="The plan as JSON.")
def plan(config, tpu, gpu, batch, as_json, **options):
    """Plan a pretraining: memory a chip, FLOPs, the largest batch, time; no Keras is imported.

    Without --tpu and --gpu: a table of all accelerators.
    """
    from kbert.graph.plan import plan as planned
    from kbert.io import row_formats
    from kbert.show.plan_text import accelerators_text, plan_text

    if tpu is None and gpu is None:
        if batch is not None or as_json:
            given = "--json" if as_json else "--batch"
            raise click.UsageError(f"{given} goes with --tpu or --gpu: give one of them")
        click.echo(accelerators_text(config, **options), nl=False)
        return
    sizes = {} if batch is None else {"batch": batch}
    found = planned(config, tpu=tpu, gpu=gpu, **sizes, **options)
    if as_json:
        click.echo(row_formats.to_json(found.as_dict()), nl=False)
    else:
        click.echo(plan_text(config, found), nl=False)


COMMANDS = (plan,)
