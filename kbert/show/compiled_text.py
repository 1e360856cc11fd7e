"""Text of 80 columns with the TPU compiler's report on a training step and the accounting."""

from collections.abc import Sequence

from kbert.show.texts import aligned
from kbert.training.slices.compiler import CompiledUpdate

_NOTES = {"v4": "v4: the compiler's are of one of a chip's two cores, with half of its work"}


def compiled_text(found: CompiledUpdate) -> str:
    """Memory and FLOPs beside the plan's, collectives, estimated cycles by part."""
    parts = [_beside(found), _collectives(found), _cycles(found)]
    return "\n\n".join([f"COMPILED in {found.seconds:,.0f} s", *parts]) + "\n"


def _beside(found: CompiledUpdate) -> str:
    plan, chips, turns = found.plan, found.plan.devices.chips, found.plan.accumulation_steps
    flops = (found.counted_flops + plan.recomputed_flops) / chips / turns
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


def _collectives(found: CompiledUpdate) -> str:
    lines: list[Sequence[str]] = [("BETWEEN CHIPS", "number", "MiB")]
    for kind, (count, size) in found.collectives.items():
        lines.append((kind, f"{count:,}", f"{size / 2**20:,.1f}"))
    return aligned(lines) if found.collectives else "BETWEEN CHIPS  nothing"


def _cycles(found: CompiledUpdate) -> str:
    header = ("THE COMPILER'S ESTIMATE", "products", "other", "share")
    lines: list[Sequence[str]] = [header]
    for name, (products, other) in found.cycles.items():
        share = (products + other) / max(found.all_cycles, 1)
        lines.append((name.replace("_", " "), f"{products:,}", f"{other:,}", f"{share:.1%}"))
    clock = found.plan.devices.accelerator.clock or 0
    return (
        f"{aligned(lines)}\n{found.all_cycles:,} cycles, at {clock / 1e9:g} GHz "
        f"{found.estimated_seconds:.4g} s: {found.utilization:.1%} of the datasheet's peak"
        "\nan estimate: nobody measured it"
    )
