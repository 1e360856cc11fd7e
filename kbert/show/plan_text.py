"""A plan as text of 80 columns, and the table of accelerators."""

from collections.abc import Sequence

from kbert.graph.accelerators import Accelerator, accelerators
from kbert.graph.plan import Plan, plan
from kbert.io.units import duration
from kbert.show.texts import aligned


def plan_text(title: str, found: Plan) -> str:
    """Memory by part, FLOPs, time, and what would make it fit."""
    return "\n\n".join([_head(title, found), _memory(found), _update(found)]) + "\n"


def _head(title: str, found: Plan) -> str:
    chip, chips = found.devices.accelerator, found.devices.chips
    options = [found.precision]
    options += [f"{found.accumulation_steps} micro-batches"] if found.accumulation_steps > 1 else []
    options += ["gradient checkpointing"] if found.gradient_checkpointing else []
    options += [f"{found.freeze} frozen"] if found.freeze else []
    options += (
        [f"adapters of rank {found.lora_rank} on {found.lora_targets}"] if found.lora_rank else []
    )
    return (
        f"{title} on {found.devices.name}, {', '.join(options)}\n"
        f"{chips} chip{'s' * (chips > 1)} of {chip.memory / 2**30:,.0f} GiB and "
        f"{chip.peak_flops / 1e12:,.4g} TFLOP/s\n({chip.source})\n"
        f"{found.seq_len} tokens per sequence, {found.max_predictions} predicted; "
        f"{found.batch_size:,} sequences per step, {found.batch_size // chips:,} per chip"
    )


def _memory(found: Plan) -> str:
    memory = found.memory
    parts = {
        "weights": memory.weights,
        "Adam's moments": memory.moments,
        "gradients": memory.gradients,
        "activations": memory.activations,
        "peak": memory.total,
        "available": memory.capacity,
    }
    lines: list[Sequence[str]] = [("MEMORY PER CHIP", "MiB")]
    lines += [(name, f"{size / 2**20:,.1f}") for name, size in parts.items()]
    # Gradients come as activations go: the parts are more than is there at once.
    largest = f"the largest batch that fits: {found.largest_batch:,}"
    if memory.fits:
        return f"{aligned(lines)}\nfits; {largest}"
    return f"{aligned(lines)}\nDOES NOT FIT; {largest if found.largest_batch else _way(found)}"


def _way(found: Plan) -> str:
    memory = found.memory
    if memory.fixed > memory.capacity:
        return (
            "not even one sequence fits: weights, moments and gradients are larger than the memory"
        )
    return "not even one sequence per chip fits"


def _update(found: Plan) -> str:
    lines = [("PER STEP", ""), ("FLOPs", f"{found.flops:.4e}")]
    if found.recomputed_flops:
        lines.append(("recomputed FLOPs", f"{found.recomputed_flops:.4e}"))
    if found.seconds is None or found.hours is None:
        return aligned(lines) + "\nno time: the table has no peak for float32, give --peak-flops"
    seconds = [(f"seconds, at {found.utilization:.0%} of the peak", f"{found.seconds:,.4g}")]
    run = duration(found.hours * 3600)
    seconds += [(f"{found.steps:,} steps", run), ("chip-hours", f"{found.chip_hours:,.0f}")]
    return aligned([*lines, *seconds])


def accelerators_text(title: str, **options) -> str:
    """Return a row per accelerator: largest batch of a chip, chip-hours at 256 sequences per step.

    Args:
        title: the configuration, as its user named it.
        options: of `plan`, without accelerator and batch.
    """
    header = ("", "kind", "GiB", "GB/s", "TFLOP/s", "sequences per chip", "chip-hours")
    lines: list[Sequence[str]] = [header]
    for one in accelerators().values():
        bandwidth = f"{(one.bandwidth or 0) / 1e9:,.0f}"
        sizes = (f"{one.memory / 2**30:,.0f}", bandwidth, f"{one.peak_flops / 1e12:,.4g}")
        lines.append((one.name, one.kind, *sizes, *_what_it_takes(title, one, options)))
    asked = f"{options['seq_len']} tokens per sequence, {options['precision']}"
    return (
        f"{title}, {asked}\n\n{aligned(lines)}\n\n"
        "chip-hours: of all steps of 256 sequences; more: kbert plan --tpu or --gpu\n"
    )


def _what_it_takes(title: str, one: Accelerator, options: dict) -> tuple[str, str]:
    if not one.computes(options["precision"]):
        return "no bfloat16", "-"
    slice_ = f"{one.name}:{one.slices[0]}" if one.slices else None
    whole = {"tpu": slice_, "gpu": None if slice_ else one.name}
    found = plan(title, **(options | whole | {"batch_size": 256 * options["accumulation_steps"]}))
    largest = found.largest_batch // found.devices.chips
    hours = found.chip_hours and found.chip_hours / options["accumulation_steps"]
    return f"{largest:,}", "-" if hours is None else f"{hours:,.0f}"
