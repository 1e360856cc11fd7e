"""`kbert.plot`: the diagram of a model, its figure for a paper, or the input of a text."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kbert.graph import closed_form
from kbert.graph.aliases import answer_old_names
from kbert.graph.closed_form import Row
from kbert.graph.config import BertConfig
from kbert.graph.spec import GraphSpec
from kbert.io import printable
from kbert.io.atomic_write import check_new_file, write_atomically
from kbert.io.wording import check_choice
from kbert.show import graphviz
from kbert.show.diagrams import draw_diagram

if TYPE_CHECKING:
    import keras

    from kbert.checkpoints.bert import Bert

ENDINGS = (".png", ".svg", ".pdf", ".dot", ".mmd", ".tex")
STYLES = ("full", "paper")
LAYOUTS = ("tall", "wide")


@printable.escape_errors()
@answer_old_names
def plot(
    source: "keras.Model | Bert | GraphSpec | BertConfig | str | os.PathLike",
    output: str | os.PathLike,
    *,
    collapse: bool = True,
    style: str | None = None,
    layout: str = "tall",
    text: str | Sequence[str] | None = None,
    lowercase: bool | None = None,
) -> Path:
    """Draw a functional model, or the input of a text.

    Args:
        source: any functional `keras.Model`, or a `Bert`; or a preset's name, a path to a JSON file
            or a `BertConfig`, which draws its `build_bert`; or any `GraphSpec`. The last four are
            drawn from the closed forms, without Keras; `verify` proves that they equal the built
            graph. With `text` a checkpoint's name or path, or a `Bert`; its weights are not read.
        output: the picture's path. Its ending chooses the format: .png, .svg, .pdf, .dot
            (Graphviz's language), .mmd (Mermaid's) or .tex (TikZ, for LaTeX). The same graph gives
            the same bytes.
        collapse: whether to draw identical encoder blocks once, in a frame with their number.
        style: one of the following. None: "paper" for a .tex file, a wide layout or a text, else
            "full".
            "full": each layer with its type, output shape and parameters.
            "paper": kbert's own graphs as papers show them: names without prefixes, no dropout,
            "Add & Norm" as one box, 89 mm wide with a text of 8 points.
        layout: "tall", from bottom to top, or "wide", a slide of 16:9.
        text: a text, or two, to draw its input: rows of token, segment and position embeddings.
        lowercase: for `text`, whether the vocabulary is uncased; None: the checkpoint's setting.

    Returns:
        The path. The file is written atomically.

    Raises:
        ValueError, OSError, ImportError: as in `check_path`, before anything is drawn; a ValueError
            also for a model that is not functional, and for a text without a vocabulary.
        RuntimeError: Graphviz failed.
    """
    style = find_style(output, style, layout, text is not None)
    path = check_path(output, style)
    ending = path.suffix.lower()
    if text is not None:
        from kbert.show.paper.named_sources import draw_text, write_figure

        drawing = draw_text(source, text, layout=layout, lowercase=lowercase)
        picture = write_figure(drawing, ending)
    elif style == "paper":
        from kbert.show.paper.named_sources import draw_graph, write_figure

        drawing = draw_graph(_find_graph(source), collapse=collapse, layout=layout)
        picture = write_figure(drawing, ending)
    else:
        picture = draw_diagram(_list_layers(_find_graph(source)), ending, collapse=collapse)
    write_atomically(path, picture)
    return path


def find_style(
    path: str | os.PathLike, style: str | None = None, layout: str = "tall", has_text: bool = False
) -> str:
    """Return the style of a diagram.

    Raises:
        ValueError: an unknown style or layout; one that the ending or the layout does not have.
    """
    check_choice(layout, LAYOUTS, "layout")
    ending = Path(path).suffix.lower()
    for_papers = {
        "layout 'wide'": layout == "wide",
        "a .tex file": ending == ".tex",
        "text": has_text,
    }
    reasons = [reason for reason, applies in for_papers.items() if applies]
    if style is None:
        style = "paper" if reasons else "full"
    check_choice(style, STYLES, "style")
    if style == "full" and reasons:
        raise ValueError(f"{reasons[0]} is drawn in style 'paper', got style 'full'")
    if style == "paper" and ending in (".dot", ".mmd"):
        what = reasons[0] if reasons else "style 'paper'"
        raise ValueError(f"{what} is drawn as .png, .svg, .pdf or .tex, got {ending}")
    return style


def check_path(path: str | os.PathLike, style: str = "full") -> Path:
    """Return the path if a diagram of a style can be written there.

    Raises:
        ValueError, OSError: an unknown ending; no file can be written there.
        ImportError: a .png, .svg or .pdf of style "full" without Graphviz.
    """
    path = check_new_file(path, ENDINGS, "a diagram's path")
    if style == "full" and path.suffix.lower() not in (".dot", ".mmd"):
        graphviz.command()
    return path


def _find_graph(source):
    """Return the spec that a user's source means, or the model."""
    if isinstance(source, (str, os.PathLike, BertConfig)):
        return GraphSpec.of(source)
    if isinstance(source, GraphSpec):
        return source
    from kbert.checkpoints.bert import Bert

    return source.model if isinstance(source, Bert) else source


def _list_layers(graph) -> tuple[Row, ...]:
    """Return the rows of a spec or a model."""
    if isinstance(graph, GraphSpec):
        return closed_form.rows(graph)
    from kbert.model.summary import model_rows

    return model_rows(graph)
