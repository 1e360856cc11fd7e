"""Pages of numbers that `kbert.account` counts: the 14 steps, memory, and corrections of texts."""

import re
import textwrap

from from_code.steps import STEPS
from from_code.table import cell, table
from kbert.graph.accounting import LayerAccount, account
from kbert.graph.reference.errata import errata as known_errata
from kbert.show.explorer.writing import notes_data

_LENGTHS = (128, 256, 512)
_BATCHES = (8, 32, 128)
_MODELS = ("tiny", "small", "base_uncased", "large_uncased")


def steps() -> str:
    """Return the 14 steps: what each layer does, and its count with the arithmetic."""
    rows = {row.layer: row for row in account("base").rows}
    return "\n".join(_step(number, step, rows[step.layer]) for number, step in enumerate(STEPS, 1))


def _step(number: int, step, row: LayerAccount) -> str:
    note = notes_data()["notes"][row.layer.replace("-1-", "-{n}-")]["does"]
    times = f"{step.times} × " if step.times > 1 else ""
    count = f"{times}**{row.params:,}** parameters"
    if row.formula:
        count += f": {row.formula} = {row.arithmetic}"
    text = textwrap.fill(step.text, 140, break_long_words=False, break_on_hyphens=False)
    return f"## {number}. {step.title}\n\n{note}\n\n{count}\n\n{text}\n"


def with_pictures(page: str) -> str:
    """Return the page of the 14 steps with each step's picture beside it, for the site."""

    def put(found: re.Match) -> str:
        layer = STEPS[int(found["number"]) - 1].layer
        return f"""{found["title"]}
::::{{div}} step
:::{{div}} step-picture
![Step {found["number"]} in the figure: {layer}](../_generated/steps/{found["number"]}.svg)
:::
:::{{div}} step-text
{found["text"].strip()}
:::
::::

"""

    parts = r"(?P<title>## (?P<number>\d+)\. [^\n]*\n)(?P<text>.*?)(?=\n## |\Z)"
    return re.sub(parts, put, page, flags=re.DOTALL)


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
