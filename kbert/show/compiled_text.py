"""Text of 80 columns with a compiler's report on a training step and the accounting."""

from collections.abc import Sequence

from kbert.show.texts import aligned
from kbert.training.compiled.compiler import CompiledUpdate

_NOTES = {"v4": "v4: the compiler's are of one of a chip's two cores, with half of its work"}

_BACKENDS = {"jax": "JAX", "tensorflow": "TensorFlow"}
_KINDS = 10  # of kernels that are shown


def compiled_text(found: CompiledUpdate) -> str:
    """Memory and FLOPs beside the plan's, collectives, a GPU's kernels, estimated time by part."""
    parts = [_beside(found), _collectives(found)]
    parts += [_kernels(found)] * bool(found.kernels)
    parts.append(_estimate(found))
    title = f"COMPILED in {found.seconds:,.0f} s: the step of {_BACKENDS[found.backend]}"
    return "\n\n".join([title, *parts]) + "\n"


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


def _kernels(found: CompiledUpdate) -> str:
    lines: list[Sequence[str]] = [("KERNELS", "number", "GiB", "ms")]
    largest = sorted(found.kernels.items(), key=lambda one: -one[1][2])
    sums = {
        name: [sum(one[place] for _, one in rows) for place in range(3)]
        for name, rows in {"others": largest[_KINDS:], "all": largest}.items()
    }
    for kind, (count, moved, seconds) in [*largest[:_KINDS], *sums.items()]:
        lines.append((kind, f"{count:,}", f"{moved / 2**30:,.2f}", f"{seconds * 1e3:,.2f}"))
    return aligned(lines)


def _estimate(found: CompiledUpdate) -> str:
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
