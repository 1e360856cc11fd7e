"""A square matrix over tokens as a picture."""

import io
import warnings
from pathlib import Path

import numpy as np

from kbert.io import printable
from kbert.io.atomic_write import write_atomically

_INCHES = 0.22  # a token's, at most
_LONGEST = 36.0  # inches of all tokens, at most
_MARGIN = 2.0  # for the tokens' names and the scale, in inches
_NAMED = 256  # tokens, at most
_BEYOND = "0.8"  # grey: above the scale
_PIXELS = 6000  # a side of a PNG, at most


def draw(
    weights: np.ndarray, tokens: list[str], title: str, path: Path, top: float | None = None
) -> None:
    """Write the picture of weights (S, S), rows attend to columns; always the same bytes.

    Args:
        weights: from 0 to 1.
        tokens: the names of rows and columns.
        title: a text, a line break, what of it is shown; the text is cut to fit.
        path: checked by `kbert.tasks.attention.attention_map.check_path`.
        top: the weight with which the colours end; larger ones are grey. None: the largest.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    cell = min(_INCHES, _LONGEST / len(tokens))
    side = _MARGIN + cell * len(tokens)
    letters = max(10.0, 0.8 * side)  # points: of what stands around, in proportion
    ending = path.suffix.lower().removeprefix(".")
    settings = {
        "font.family": "DejaVu Sans",
        "font.size": letters,
        "svg.hashsalt": "kbert",
        "svg.fonttype": "none" if ending == "svg" else "path",
    }
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # drawn as a box
        figure = Figure((side * 1.15 + 0.5, side + 0.3), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        _colours(figure, axes, weights, top)
        _label(axes, [printable.line(token) for token in tokens], cell)
        room = int(72 * figure.get_figwidth() / (0.62 * letters))
        figure.suptitle(_titled(title, room), fontsize=letters, parse_math=False)
        content = io.BytesIO()
        undated = {} if ending == "png" else {"Date" if ending == "svg" else "CreationDate": None}
        sharp = min(150, _PIXELS / max(figure.get_size_inches()))
        figure.savefig(content, format=ending, dpi=sharp, metadata=undated)
    write_atomically(path, content.getvalue())


def _colours(figure, axes, weights: np.ndarray, top: float | None) -> None:
    import matplotlib
    from matplotlib.colors import PowerNorm

    colours = matplotlib.colormaps["viridis"].with_extremes(over=_BEYOND)
    # the square root: most weights are near 0, and differ there
    scale = PowerNorm(0.5, 0.0, weights.max() if top is None else top)
    image = axes.imshow(weights, cmap=colours, norm=scale, interpolation="nearest")
    beyond = weights.max() > scale.vmax
    said = f"\n(grey: above {top:.2g}, up to {weights.max():.2g})" if beyond else ""
    figure.colorbar(
        image,
        ax=axes,
        shrink=0.7,
        aspect=30,
        pad=0.02,
        extend="max" if beyond else "neither",
        label=f"attention weight{said}",
    )


def _titled(title: str, room: int) -> str:
    """Return the title with its first line cut to so many letters."""
    text, _, shown = title.rpartition("\n")
    text = printable.line(" ".join(text.split()))
    cut = text if len(text) <= room else f"{text[: room - 1]}…"
    return f"{cut}\n{shown}" if cut else shown


def _label(axes, tokens: list[str], cell: float) -> None:
    """Name rows and columns; where they are many, every n-th, which one can read then."""
    every = -(-len(tokens) // _NAMED)
    size = min(9.0, 72 * cell * 0.8 * every)  # points
    places, names = range(0, len(tokens), every), tokens[::every]
    axes.set_xticks(places, names, rotation=90, parse_math=False, fontsize=size)
    axes.set_yticks(places, names, parse_math=False, fontsize=size)
    axes.tick_params(length=min(3.0, size / 3), pad=min(3.0, size / 3))
    axes.set_xlabel("is attended to" + (f" (one token of {every} is named)" if every > 1 else ""))
    axes.set_ylabel("attends")
