"""Texts of 80 columns: a plan, what the compiler says of it, the table of accelerators."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kbert.graph.accelerators import accelerators
from kbert.graph.plan import Plan, plan
from kbert.io.units import duration
from kbert.show.texts import align

if TYPE_CHECKING:
    from kbert.training.compiled.compiler import CompiledUpdate

_NOTES = {"v4": "v4: the compiler's are of one of a chip's two cores, with half of its work"}
_BACKENDS = {"jax": "JAX", "tensorflow": "TensorFlow"}

_KINDS = 10  # of kernels that are shown


def plan_text(title: str, result: Plan) -> str:
    """Memory by part, FLOPs, time, and what would make it fit."""
    chip, chips = result.devices.accelerator, result.devices.chips
    steps, rank = result.accumulation_steps, result.lora_rank
    options = {
        result.precision: True,
        f"{steps} micro-batches": steps > 1,
        "gradient checkpointing": result.gradient_checkpointing,
        f"{result.freeze} frozen": result.freeze,
        f"adapters of rank {rank} on {result.lora_targets}": rank,
        "averages of the weights": result.ema,
    }
    texts = ", ".join(text for text, is_on in options.items() if is_on)
    return (
        f"{title} on {result.devices.name}, {texts}\n"
        f"{chips} chip{'s' * (chips > 1)} of {chip.memory / 2**30:,.0f} GiB and "
        f"{chip.peak_flops / 1e12:,.4g} TFLOP/s\n({chip.source})\n"
        f"{result.seq_len} tokens per sequence, {result.max_predictions} predicted; "
        f"{result.batch_size:,} sequences per step, {result.batch_size // chips:,} per chip\n\n"
        f"{_memory(result)}\n\n{_update(result)}\n"
    )


def _memory(result: Plan) -> str:
    memory = result.memory
    sizes = {
        "weights": memory.weights,
        "Adam's moments": memory.moments,
        **({"averages": memory.averages} if memory.averages else {}),
        "gradients": memory.gradients,
        "activations": memory.activations,
        "peak": memory.total,
        "available": memory.capacity,
    }
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
    for one in accelerators().values():
        bandwidth = f"{(one.bandwidth or 0) / 1e9:,.0f}"
        sizes = (f"{one.memory / 2**30:,.0f}", bandwidth, f"{one.peak_flops / 1e12:,.4g}")
        needed = "no bfloat16", "-"
        if one.computes(options["precision"]):
            slice_ = f"{one.name}:{one.slices[0]}" if one.slices else None
            chip = {"tpu": slice_, "gpu": None if slice_ else one.name}
            turns = options["accumulation_steps"]
            result = plan(title, **(options | chip | {"batch_size": 256 * turns}))
            hours = result.chip_hours and result.chip_hours / turns
            largest = result.largest_batch // result.devices.chips
            needed = f"{largest:,}", "-" if hours is None else f"{hours:,.0f}"
        lines.append((one.name, one.kind, *sizes, *needed))
    settings = f"{options['seq_len']} tokens per sequence, {options['precision']}"
    return (
        f"{title}, {settings}\n\n{align(lines)}\n\n"
        "chip-hours: of all steps of 256 sequences; more: kbert plan --tpu or --gpu\n"
    )


def describe_compiled(step: "CompiledUpdate") -> str:
    """Memory and FLOPs beside the plan's, collectives, a GPU's kernels, estimated time by part."""
    lines: list[Sequence[str]] = [("BETWEEN CHIPS", "number", "MiB")]
    for kind, (count, size) in step.collectives.items():
        lines.append((kind, f"{count:,}", f"{size / 2**20:,.1f}"))
    texts = [
        f"COMPILED in {step.seconds:,.0f} s: the step of {_BACKENDS[step.backend]}",
        _compare(step),
        align(lines) if step.collectives else "BETWEEN CHIPS  nothing",
        *[_kernels(step)] * bool(step.kernels),
        _estimate(step),
    ]
    return "\n\n".join(texts) + "\n"


def _compare(step: "CompiledUpdate") -> str:
    plan, chips, turns = step.plan, step.plan.devices.chips, step.plan.accumulation_steps
    flops = (step.model_flops + plan.recomputed_flops) / chips / turns
    of_turns = f" of one of {turns} turns" if turns > 1 else ""
    held = plan.memory.weights + plan.memory.moments
    rest = plan.memory.total - held
    pairs = {
        "weights, moments, batch, MiB": (step.arguments / 2**20, held / 2**20),
        "gradients, activations, MiB": ((step.temporary + step.outputs) / 2**20, rest / 2**20),
        "all, MiB": (step.memory / 2**20, plan.memory.total / 2**20),
        f"GFLOP{of_turns}": (step.flops / 1e9, flops / 1e9),
    }
    lines: list[Sequence[str]] = [("OF A CHIP", "compiler", "accounting", "ratio")]
    for name, (one, other) in pairs.items():
        lines.append((name, f"{one:,.1f}", f"{other:,.1f}", f"{one / other:.2f}"))
    note = _NOTES.get(plan.devices.accelerator.name)
    return "\n".join([align(lines), note] if note else [align(lines)])


def _kernels(step: "CompiledUpdate") -> str:
    lines: list[Sequence[str]] = [("KERNELS", "number", "GiB", "ms")]
    largest = sorted(step.kernels.items(), key=lambda one: -one[1][2])
    sums = {
        name: [sum(one[column] for _, one in kernels) for column in range(3)]
        for name, kernels in {"others": largest[_KINDS:], "all": largest}.items()
    }
    for kind, (count, moved, seconds) in [*largest[:_KINDS], *sums.items()]:
        lines.append((kind, f"{count:,}", f"{moved / 2**30:,.2f}", f"{seconds * 1e3:,.2f}"))
    return align(lines)


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
