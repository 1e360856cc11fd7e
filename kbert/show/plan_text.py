"""Texts of 80 columns: a plan, what the compiler says of it, the table of accelerators."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kbert.graph.accelerators import Accelerator, accelerators
from kbert.graph.plan import Plan, plan
from kbert.io.units import duration
from kbert.show.texts import aligned

if TYPE_CHECKING:
    from kbert.training.compiled.compiler import CompiledUpdate


_NOTES = {"v4": "v4: the compiler's are of one of a chip's two cores, with half of its work"}
_BACKENDS = {"jax": "JAX", "tensorflow": "TensorFlow"}

_KINDS = 10  # of kernels that are shown


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


def compiled_text(found: "CompiledUpdate") -> str:
    """Memory and FLOPs beside the plan's, collectives, a GPU's kernels, estimated time by part."""
    parts = [_beside(found), _collectives(found)]
    parts += [_kernels(found)] * bool(found.kernels)
    parts.append(_estimate(found))
    title = f"COMPILED in {found.seconds:,.0f} s: the step of {_BACKENDS[found.backend]}"
    return "\n\n".join([title, *parts]) + "\n"


def _beside(found: "CompiledUpdate") -> str:
    plan, chips, turns = found.plan, found.plan.devices.chips, found.plan.accumulation_steps
    flops = (found.model_flops + plan.recomputed_flops) / chips / turns
    of_turns = f" of one of {turns} turns" if turns > 1 else ""
    held = plan.memory.weights + plan.memory.moments
    rest = plan.memory.total - held
    pairs = {
        "weights, moments, batch, MiB": (found.arguments / 2**20, held / 2**20),
        "gradients, activations, MiB": (
            (found.temporary + found.outputs) / 2**20,
            rest / 2**20,
        ),
        "all, MiB": (found.memory / 2**20, plan.memory.total / 2**20),
        f"GFLOP{of_turns}": (found.flops / 1e9, flops / 1e9),
    }
    lines: list[Sequence[str]] = [("OF A CHIP", "compiler", "accounting", "ratio")]
    for name, (one, other) in pairs.items():
        lines.append((name, f"{one:,.1f}", f"{other:,.1f}", f"{one / other:.2f}"))
    note = _NOTES.get(plan.devices.accelerator.name)
    return "\n".join([aligned(lines), note] if note else [aligned(lines)])


def _collectives(found: "CompiledUpdate") -> str:
    lines: list[Sequence[str]] = [("BETWEEN CHIPS", "number", "MiB")]
    for kind, (count, size) in found.collectives.items():
        lines.append((kind, f"{count:,}", f"{size / 2**20:,.1f}"))
    return aligned(lines) if found.collectives else "BETWEEN CHIPS  nothing"


def _kernels(found: "CompiledUpdate") -> str:
    lines: list[Sequence[str]] = [("KERNELS", "number", "GiB", "ms")]
    largest = sorted(found.kernels.items(), key=lambda one: -one[1][2])
    sums = {
        name: [sum(one[place] for _, one in rows) for place in range(3)]
        for name, rows in {"others": largest[_KINDS:], "all": largest}.items()
    }
    for kind, (count, moved, seconds) in [*largest[:_KINDS], *sums.items()]:
        lines.append((kind, f"{count:,}", f"{moved / 2**30:,.2f}", f"{seconds * 1e3:,.2f}"))
    return aligned(lines)


def _estimate(found: "CompiledUpdate") -> str:
    lines: list[Sequence[str]] = [("ESTIMATE, MS", "products", "other", "share")]
    for name, (products, other) in found.estimate.items():
        share = (products + other) / (found.estimated_seconds or 1)
        figures = f"{products * 1e3:,.2f}", f"{other * 1e3:,.2f}", f"{share:.1%}"
        lines.append((name.replace("_", " "), *figures))
    source = "the compiler's cycles"
    if found.kernels:
        source = "bytes, FLOPs and launches of kernels; not the traffic of GPUs"
    return (
        f"{aligned(lines)}\n{found.estimated_seconds * 1e3:,.4g} ms a step, "
        f"{found.utilization:.1%} of the datasheet's peak\n"
        f"Estimated from {source}\nNot measured."
    )
