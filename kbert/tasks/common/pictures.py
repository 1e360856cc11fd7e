"""Pictures by matplotlib: always the same bytes for the same picture."""

import contextlib
import io
import warnings
from collections.abc import Iterator
from pathlib import Path

from kbert.io.atomic_write import write_atomically
from kbert.io.file_kinds import mark_picture

PICTURES = (".png", ".svg", ".pdf")
_DOTS_PER_INCH = 150


@contextlib.contextmanager
def draw_figure(path: Path, font_size: float = 10.0, most_pixels: int | None = None) -> Iterator:
    """Yield an empty figure; write it atomically to the path, which ends with one of `PICTURES`.

    `font_size` is in points; a side of a .png has `most_pixels` at most.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    kind = path.suffix.lower().removeprefix(".")
    settings = {
        "font.family": "DejaVu Sans",
        "font.size": font_size,
        "svg.hashsalt": "kbert",
        "svg.fonttype": "none" if kind == "svg" else "path",
    }
    no_date = {
        "png": {},
        "svg": {"Date": None},
        "pdf": {"CreationDate": None},
    }
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # drawn as a box
        figure = Figure()
        FigureCanvasAgg(figure)
        yield figure
        dpi = float(_DOTS_PER_INCH)
        if most_pixels is not None:
            dpi = min(dpi, most_pixels / max(figure.get_size_inches()))
        file = io.BytesIO()
        figure.savefig(file, format=kind, dpi=dpi, metadata=no_date[kind])
    ending = path.suffix.lower()
    picture = mark_picture(file.getvalue(), ending)
    write_atomically(path, picture)
