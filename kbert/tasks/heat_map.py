"""A square matrix over tokens as a picture."""

import errno
import io
import os
import warnings
from pathlib import Path

import numpy as np

from kbert import printable
from kbert.files import write_beside

ENDINGS = (".png", ".svg", ".pdf")
_INCHES = 0.22  # a token's
_MARGIN = 2.0  # for the tokens' names and the scale, in inches
_PIXELS = 6000  # a side of a PNG, at most


def check_path(path: str | os.PathLike) -> Path:
    """The path; an error for an ending or a folder that cannot be."""
    path = Path(path)
    if path.suffix.lower() not in ENDINGS:
        raise ValueError(f"path must end with one of {', '.join(ENDINGS)}, got {path.name!r}")
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such folder", str(path.parent))
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "a folder, not a file", str(path))
    return path


def draw(weights: np.ndarray, tokens: list[str], title: str, path: Path) -> None:
    """Writes the picture of weights (S, S), rows attend to columns; always the same bytes."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    settings = {
        "font.family": "DejaVu Sans",
        "font.size": 9,
        "svg.hashsalt": "kbert",
        "svg.fonttype": "none" if path.suffix.lower() == ".svg" else "path",
    }
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # drawn as a box
        side = _MARGIN + _INCHES * len(tokens)
        figure = Figure((side + 0.8, side), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        image = axes.imshow(weights, cmap="viridis", vmin=0, interpolation="nearest")
        _label(axes, [printable.line(token) for token in tokens])
        axes.set_title(printable.line(title), fontsize=10)
        figure.colorbar(image, ax=axes, shrink=0.8, label="attention weight")
        content = io.BytesIO()
        format = path.suffix.lower().removeprefix(".")
        undated = {} if format == "png" else {"Date" if format == "svg" else "CreationDate": None}
        figure.savefig(
            content, format=format, dpi=min(150, _PIXELS / (side + 0.8)), metadata=undated
        )
    write_beside(path, content.getvalue())


def _label(axes, tokens: list[str]) -> None:
    places = range(len(tokens))
    axes.set_xticks(places, tokens, rotation=90, parse_math=False)
    axes.set_yticks(places, tokens, parse_math=False)
    axes.set_xlabel("is attended to")
    axes.set_ylabel("attends")
