"""The colours and the type of all pages and pictures: the explorer, a run's report, plots, charts.

A page begins with `write_css()` and uses `var(--ink)` and so on; one with curves also has
`write_series_css()`. Pictures, which are light, take `INK.light` or the lists below. Text has a
contrast of at least 4.5 with what it stands on.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Colour(NamedTuple):
    """A colour on a light page and on a dark one, as #rrggbb."""

    light: str
    dark: str


PAPER, INK = Colour("#ffffff", "#0d1117"), Colour("#1f2328", "#e6edf3")
DIM = Colour("#57606a", "#9aa4af")  # text that matters less
LINE, EDGE = Colour("#d8dee4", "#30363d"), Colour("#6e7781", "#848d97")
SOFT = Colour("#f6f8fa", "#151b23")  # the ground of cards
FRAME = Colour("#fafbfc", "#10161d")  # the ground of a block of a figure
BLUE, ORANGE = Colour("#0969da", "#58a6ff"), Colour("#bc4c00", "#f0954c")  # also for and against
GREEN, PURPLE = Colour("#1a7f37", "#56d364"), Colour("#8250df", "#bc8cff")
RED = Colour("#cf222e", "#ff7b72")

SERIES = (BLUE, ORANGE, GREEN, PURPLE, RED)  # curves and bars, in their order

KINDS: Mapping[str, tuple[Colour, Colour]] = {  # fill and line of each kind of layer
    "input": (PAPER, EDGE),
    "embedding": (Colour("#ddf4ff", "#0e2a47"), Colour("#218bff", "#4d9fee")),
    "attention": (Colour("#ffefdb", "#36220f"), Colour("#e8862e", "#e8953f")),
    "feedforward": (Colour("#dafbe1", "#0f2e1a"), Colour("#2da44e", "#43b562")),
    "joint": (Colour("#f1f3f5", "#1c232c"), Colour("#8c959f", "#6a737d")),
    "mlm": (Colour("#fbefff", "#271b40"), Colour("#a475f9", "#ab82f7")),
    "head": (Colour("#ffebf5", "#381629"), Colour("#e85aad", "#ea6fa9")),
    "other": (Colour("#fff8c5", "#2e2508"), Colour("#bf8700", "#d29922")),
}
BLOCK = Colour("#ffffff", "#161b22"), Colour("#57606a", "#848d97")  # the same of a whole block

# Numbers from 0 to the largest.
WEIGHTS = {
    "light": ("#ffffff", "#d9e9fb", "#94c3f5", "#3d88e0", "#0b4ea2", "#0a2450"),
    "dark": ("#0d1117", "#102a4c", "#1a4f91", "#3d88e0", "#9ccbff", "#f2f8ff"),
}

SANS = (
    'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif, '
    '"kbert fallback"'
)
MONO = (
    'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace, "kbert fallback"'
)

_INTERFACE = {
    "paper": PAPER,
    "ink": INK,
    "dim": DIM,
    "line": LINE,
    "edge": EDGE,
    "soft": SOFT,
    "frame": FRAME,
    "frame-attention": Colour("#fff9f0", "#1d1710"),
    "attention-stroke": KINDS["attention"][1],
    "accent": BLUE,
    "in": BLUE,
    "out": ORANGE,
    "ok": GREEN,
    "warn": Colour("#9a3412", "#ffa585"),
    "warn-fill": Colour("#fff7ed", "#2a1a12"),
    "shade": Colour("#1f232814", "#00000088"),
}


def write_css() -> str:
    """Return the palette as CSS variables: light or dark as the reader's system is.

    The attribute data-theme of the root element, "light" or "dark", chooses instead. Printed pages
    are light unless it says "dark". A class k-KIND sets --fill and --stroke.
    """
    classes = []
    kinds = {**KINDS, "encoder": BLOCK}
    for kind, (fill, stroke) in kinds.items():
        variables = _write_variables({"fill": fill, "stroke": stroke})
        classes.append(f".k-{kind} {{ {variables} }}")

    lines = [
        f":root {{ color-scheme: light dark; --sans: {SANS}; --mono: {MONO};",
        _write_variables(_INTERFACE),
        "--shadow: 0 1px 2px var(--shade), 0 6px 20px var(--shade); }",
        "@media print { :root { color-scheme: light; } }",
        ':root[data-theme="light"] { color-scheme: light; }',
        ':root[data-theme="dark"] { color-scheme: dark; }',
        *classes,
    ]
    return "\n".join(lines)


def write_series_css() -> str:
    """Return the colours of curves and bars as CSS variables, --series-0 and so on."""
    series = {f"series-{number}": colour for number, colour in enumerate(SERIES)}
    return f":root {{ {_write_variables(series)} }}"


def _write_variables(colours: Mapping[str, Colour]) -> str:
    return " ".join(
        f"--{name}: light-dark({colour.light}, {colour.dark});" for name, colour in colours.items()
    )


def read_rgb(colour: str) -> tuple[int, int, int]:
    """Return red, green and blue of #rrggbb, 0 to 255 each."""
    red, green, blue = bytes.fromhex(colour.removeprefix("#"))
    return red, green, blue


def as_fractions(colours: Sequence[str]) -> list[tuple[float, ...]]:
    """Return red, green and blue of each colour, 0 to 1, as matplotlib takes them."""
    fractions = []
    for colour in colours:
        fractions.append(tuple(channel / 255 for channel in read_rgb(colour)))
    return fractions
