"""Pages of numbers that `kbert.account` counts: the 14 steps, memory, and corrections of texts."""

from from_code.steps import STEPS
from from_code.table import cell, table
from kbert.graph.accounting import LayerAccount, account
from kbert.graph.reference.errata import errata as known_errata
from kbert.show.explorer.notes import notes_data

_LENGTHS = (128, 256, 512)
_BATCHES = (8, 32, 128)
_MODELS = ("tiny", "small", "base_uncased", "large_uncased")


def steps() -> str:
    """Return the 14 steps: what each layer does, its count with the arithmetic, its picture."""
    rows = {row.layer: row for row in account("base").rows}
    return "\n".join(_step(number, step, rows[step.layer]) for number, step in enumerate(STEPS, 1))


def _step(number: int, step, row: LayerAccount) -> str:
    note = notes_data()["notes"][row.layer.replace("-1-", "-{n}-")]["does"]
    times = f"{step.times} × " if step.times > 1 else ""
    count = f"{times}**{row.params:,}** parameters"
    if row.formula:
        count += f": {row.formula} = {row.arithmetic}"
    return f"""
## {number}. {step.title}

::::{{div}} step
:::{{div}} step-picture
![Step {number} in the figure: {row.layer}](../_generated/steps/{number}.svg)
:::
:::{{div}} step-text
{note}

{count}

{step.text}
:::
::::
"""


def errata() -> str:
    """Return what each text says, what is correct, and the arithmetic, computed at build time."""
    lines = [
        (
            entry.source_says.removesuffix(" says").removesuffix(" say"),
            entry.says,
            entry.true,
            entry.arithmetic,
            "yes" if entry.holds else "NO",
        )
        for entry in known_errata()
    ]
    told = table(("text", "statement", "correct", "arithmetic", "checked"), lines)
    return f":::{{div}} cards errata\n{told}:::\n"


def memory() -> str:
    """Return the GiB of a training step: model × length × batch, float32 and mixed_bfloat16."""
    parts = []
    for name in _MODELS:
        header = ("length", "batch", "fixed", "float32", "mixed_bfloat16")
        lines = [_memory_line(name, length, batch) for length in _LENGTHS for batch in _BATCHES]
        parts.append(f"### {name}\n\n{table(header, lines, right=5)}")
    return "\n".join(parts)


def _memory_line(name: str, length: int, batch: int) -> tuple:
    float32, mixed = (
        account(name, length, batch, max_predictions=max(1, length * 15 // 100), dtype=dtype).memory
        for dtype in ("float32", "mixed_bfloat16")
    )
    fixed = float32.total - float32.activations
    return (cell(length), cell(batch), _gib(fixed), _gib(float32.total), _gib(mixed.total))


def _gib(size: int) -> str:
    return f"{size / 2**30:,.2f}"
