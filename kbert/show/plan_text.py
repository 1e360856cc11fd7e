"""Texts of 80 columns: a plan, what the compiler says of it, the table of accelerators."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kbert.graph.accelerators import Accelerator, accelerators
from kbert.io.units import duration
from kbert.planning.plan import Plan, plan
from kbert.show.texts import align

if TYPE_CHECKING:
    from kbert.planning.compiler import CompiledUpdate

_NOTES = {"v4": "v4: the compiler's are of one of a chip's two cores, with half of its work"}
_BACKENDS = {"jax": "JAX", "tensorflow": "TensorFlow"}

_KINDS = 10  # of kernels that are shown


def plan_text(title: str, result: Plan) -> str:
    """Memory by part, FLOPs, time, and what would make it fit."""
    chip = result.devices.accelerator
    chips = result.devices.chips
    return (
        f"{title} on {result.devices.name}, {', '.join(_list_options(result))}\n"
        f"{chips} chip{'s' * (chips > 1)} of {chip.memory / 2**30:,.0f} GiB and "
        f"{chip.peak_flops / 1e12:,.4g} TFLOP/s\n({chip.source})\n"
        f"{result.seq_len} tokens per sequence, {result.max_predictions} predicted; "
        f"{result.batch_size:,} sequences per step, {result.batch_size // chips:,} per chip\n\n"
        f"{_memory(result)}\n\n{_update(result)}\n"
    )


def _list_options(result: Plan) -> list[str]:
    """Return what is not as by default, after the precision."""
    texts = [result.precision]
    if result.accumulation_steps > 1:
        texts.append(f"{result.accumulation_steps} micro-batches")
    if result.gradient_checkpointing:
        texts.append("gradient checkpointing")
    if result.freeze:
        texts.append(f"{result.freeze} frozen")
    if result.lora_rank:
        texts.append(f"adapters of rank {result.lora_rank} on {result.lora_targets}")
    if result.ema:
        texts.append("averages of the weights")
    return texts


def _memory(result: Plan) -> str:
    memory = result.memory
    sizes = {
        "weights": memory.weights,
        "Adam's moments": memory.moments,
        "averages": memory.averages,
        "gradients": memory.gradients,
        "activations": memory.activations,
        "peak": memory.total,
        "available": memory.capacity,
    }
    if not memory.averages:
        del sizes["averages"]
    lines: list[Sequence[str]] = [("MEMORY PER CHIP", "MiB")]
    lines += [(name, f"{size / 2**20:,.1f}") for name, size in sizes.items()]

    # Gradients come as activations go: the parts are more than is there at once.
    largest = f"the largest batch that fits: {result.largest_batch:,}"
    if memory.fits:
        return f"{align(lines)}\nfits; {largest}"
    if not result.largest_batch:
        largest = "not even one sequence per chip fits"
    if memory.fixed > memory.capacity:
        largest = (
            "not even one sequence fits: weights, moments and gradients are larger than the memory"
        )
    return f"{align(lines)}\nDOES NOT FIT; {largest}"


def _update(result: Plan) -> str:
    lines = [("PER STEP", ""), ("FLOPs", f"{result.flops:.4e}")]
    if result.recomputed_flops:
        lines.append(("recomputed FLOPs", f"{result.recomputed_flops:.4e}"))
    if result.seconds is None or result.hours is None:
        return align(lines) + "\nno time: the table has no peak for float32, give --peak-flops"
    lines += [
        (f"seconds, at {result.utilization:.0%} of the peak", f"{result.seconds:,.4g}"),
        (f"{result.steps:,} steps", duration(result.hours * 3600)),
        ("chip-hours", f"{result.chip_hours:,.0f}"),
    ]
    return align(lines)


def accelerators_text(title: str, **options) -> str:
    """Return a row per accelerator: largest batch of a chip, chip-hours at 256 sequences per step.

    `title` is the configuration; `options` are those of `plan`, without accelerator and batch.
    """
    header = ("", "kind", "GiB", "GB/s", "TFLOP/s", "sequences per chip", "chip-hours")
    lines: list[Sequence[str]] = [header]
    for accelerator in accelerators().values():
        memory = f"{accelerator.memory / 2**30:,.0f}"
        bandwidth = f"{(accelerator.bandwidth or 0) / 1e9:,.0f}"
        peak = f"{accelerator.peak_flops / 1e12:,.4g}"
        needed = _plan_alone(title, accelerator, options)
        identity = (accelerator.name, accelerator.kind)
        lines.append((*identity, memory, bandwidth, peak, *needed))

    settings = f"{options['seq_len']} tokens per sequence, {options['precision']}"
    return (
        f"{title}, {settings}\n\n{align(lines)}\n\n"
        "chip-hours: of all steps of 256 sequences; more: kbert plan --tpu or --gpu\n"
    )


def _plan_alone(title: str, accelerator: Accelerator, options: dict) -> tuple[str, str]:
    """Return the largest batch of a chip, and the chip-hours of a plan on the smallest slice."""
    if not accelerator.computes(options["precision"]):
        return "no bfloat16", "-"
    turns = options["accumulation_steps"]
    changed = options | {"batch_size": 256 * turns, "tpu": None, "gpu": None}
    if accelerator.slices:
        changed["tpu"] = f"{accelerator.name}:{accelerator.slices[0]}"
    else:
        changed["gpu"] = accelerator.name

    result = plan(title, **changed)
    largest = result.largest_batch // result.devices.chips
    hours = "-" if result.chip_hours is None else f"{result.chip_hours / turns:,.0f}"
    return f"{largest:,}", hours


def describe_compiled(step: "CompiledUpdate") -> str:
    """Memory and FLOPs beside the plan's, collectives, a GPU's kernels, estimated time by part."""
    lines: list[Sequence[str]] = [("BETWEEN CHIPS", "number", "MiB")]
    for kind, (count, size) in step.collectives.items():
        lines.append((kind, f"{count:,}", f"{size / 2**20:,.1f}"))
    texts = [
        f"COMPILED in {step.seconds:,.0f} s: the step of {_BACKENDS[step.backend]}",
        _compare(step),
        align(lines) if step.collectives else "BETWEEN CHIPS  nothing",
    ]
    if step.kernels:
        texts.append(_kernels(step))
    texts.append(_estimate(step))
    return "\n\n".join(texts) + "\n"


def _compare(step: "CompiledUpdate") -> str:
    plan = step.plan
    turns = plan.accumulation_steps
    flops = (step.model_flops + plan.recomputed_flops) / plan.devices.chips / turns
    of_turns = f" of one of {turns} turns" if turns > 1 else ""

    fixed = plan.memory.weights + plan.memory.moments
    rest = plan.memory.total - fixed
    compiled_rest = step.temporary + step.outputs
    lines: list[Sequence[str]] = [
        ("OF A CHIP", "compiler", "accounting", "ratio"),
        _write_pair("weights, moments, batch, MiB", step.arguments, fixed, 2**20),
        _write_pair("gradients, activations, MiB", compiled_rest, rest, 2**20),
        _write_pair("all, MiB", step.memory, plan.memory.total, 2**20),
        _write_pair(f"GFLOP{of_turns}", step.flops, flops, 1e9),
    ]

    text = align(lines)
    note = _NOTES.get(plan.devices.accelerator.name)
    return f"{text}\n{note}" if note else text


def _write_pair(name: str, compiled: float, counted: float, unit: float) -> Sequence[str]:
    """Return a line of the compiler's and the accounting's numbers, in a unit, and their ratio."""
    compiled = compiled / unit
    counted = counted / unit
    return name, f"{compiled:,.1f}", f"{counted:,.1f}", f"{compiled / counted:.2f}"


def _kernels(step: "CompiledUpdate") -> str:
    lines: list[Sequence[str]] = [("KERNELS", "number", "GiB", "ms")]
    kernels = step.kernels.items()
    slowest = sorted(kernels, key=lambda item: item[1][2], reverse=True)
    entries = slowest[:_KINDS]
    rest = slowest[_KINDS:]
    entries.append(("others", _add_kernels(rest)))
    entries.append(("all", _add_kernels(slowest)))
    for kind, (count, moved, seconds) in entries:
        gib = f"{moved / 2**30:,.2f}"
        milliseconds = f"{seconds * 1e3:,.2f}"
        lines.append((kind, f"{count:,}", gib, milliseconds))
    return align(lines)


def _add_kernels(kernels: Sequence[tuple[str, tuple]]) -> tuple[int, int, float]:
    """Return the sums of kernels' number, bytes moved and seconds."""
    count, moved, seconds = 0, 0, 0.0
    for _, costs in kernels:
        count += costs[0]
        moved += costs[1]
        seconds += costs[2]
    return count, moved, seconds


def _estimate(step: "CompiledUpdate") -> str:
    lines: list[Sequence[str]] = [("ESTIMATE, MS", "products", "other", "share")]
    for name, (products, other) in step.estimate.items():
        share = (products + other) / (step.estimated_seconds or 1)
        cells = f"{products * 1e3:,.2f}", f"{other * 1e3:,.2f}", f"{share:.1%}"
        lines.append((name.replace("_", " "), *cells))
    source = "the compiler's cycles"
    if step.kernels:
        source = "bytes, FLOPs and launches of kernels; not the traffic of GPUs"
    return (
        f"{align(lines)}\n{step.estimated_seconds * 1e3:,.4g} ms a step, "
        f"{step.utilization:.1%} of the datasheet's peak\n"
        f"Estimated from {source}\nNot measured."
    )
