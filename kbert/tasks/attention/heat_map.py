"""A square matrix over tokens as a picture."""

from pathlib import Path

import numpy as np

from kbert.io import palette, printable
from kbert.tasks.common.pictures import draw_figure

_INCHES = 0.22  # per token, at most
_LONGEST = 36.0  # inches of all tokens, at most
_MARGIN = 2.0  # for the tokens' names and the scale, in inches
MOST_NAMED = 256  # tokens, at most
BEYOND_SCALE = "0.8"  # grey: above the scale
_PIXELS = 6000  # a side of a PNG, at most


def draw(
    weights: np.ndarray, tokens: list[str], title: str, path: Path, top: float | None = None
) -> None:
    """Write the picture of weights (S, S), from 0 to 1; rows attend to columns.

    `title` is a text, which is cut to fit, a line break, and a caption. The colour scale ends at
    the weight `top`, None: the largest; larger weights are grey.
    """
    cell = min(_INCHES, _LONGEST / len(tokens))
    side = _MARGIN + cell * len(tokens)
    font_size = max(10.0, 0.8 * side)
    with draw_figure(path, font_size, _PIXELS) as figure:
        figure.set_size_inches(side * 1.15 + 0.5, side + 0.3)
        figure.set_layout_engine("constrained")
        axes = figure.add_subplot()
        _draw_weights(figure, axes, weights, top)
        _name_tokens(axes, tokens, cell)
        _write_title(figure, title, font_size)


def _draw_weights(figure, axes, weights: np.ndarray, top: float | None) -> None:
    """Draw the cells in colours, and the colour scale up to `top`."""
    from matplotlib.colors import LinearSegmentedColormap, PowerNorm

    largest = weights.max()
    if top is None:
        top = largest
    ramp = palette.as_fractions(palette.WEIGHTS["light"])
    colours = LinearSegmentedColormap.from_list("weights", ramp).with_extremes(over=BEYOND_SCALE)
    # the square root: most weights are near 0, and differ there
    scale = PowerNorm(0.5, 0.0, top)
    image = axes.imshow(weights, cmap=colours, norm=scale, interpolation="nearest")

    label, extend = "attention weight", "neither"
    if largest > scale.vmax:
        label += f"\n(grey: above {top:.2g}, up to {largest:.2g})"
        extend = "max"
    looks = {"shrink": 0.7, "aspect": 30, "pad": 0.02}
    figure.colorbar(image, ax=axes, label=label, extend=extend, **looks)


def _name_tokens(axes, tokens: list[str], cell: float) -> None:
    """Write the names of rows and columns; of many, every n-th, so that they can be read."""
    every = -(-len(tokens) // MOST_NAMED)
    ticks = range(0, len(tokens), every)
    labels = [printable.line(token) for token in tokens[::every]]
    size = min(9.0, 72 * cell * 0.8 * every)  # points
    axes.set_xticks(ticks, labels, rotation=90, parse_math=False, fontsize=size)
    axes.set_yticks(ticks, labels, parse_math=False, fontsize=size)
    tick = min(3.0, size / 3)
    axes.tick_params(length=tick, pad=tick)

    note = f" (one token of {every} is named)" if every > 1 else ""
    axes.set_xlabel(f"is attended to{note}")
    axes.set_ylabel("attends")


def _write_title(figure, title: str, font_size: float) -> None:
    """Write the text, cut to the figure's width, and the caption below."""
    text, _, caption = title.rpartition("\n")
    letters = int(72 * figure.get_figwidth() / (0.62 * font_size))
    text = " ".join(text.split())
    lines = [printable.cut(text, letters), caption]
    shown = "\n".join(line for line in lines if line)
    figure.suptitle(shown, fontsize=font_size, parse_math=False)
