"""Figures of what a user names: a graph's architecture, or the input of a text."""

from collections.abc import Sequence
from typing import Any

from kbert.graph.spec import GraphSpec
from kbert.io.file_kinds import mark_picture
from kbert.show.paper.architecture import draw_architecture
from kbert.show.paper.input_figure import draw_input
from kbert.show.paper.picture import to_picture
from kbert.show.paper.shapes import Drawing
from kbert.show.paper.svg import to_svg
from kbert.show.paper.tikz import to_tikz


def write_figure(drawing: Drawing, ending: str) -> bytes:
    """Return a figure as a file: .png, .svg, .pdf or .tex."""
    if ending == ".tex":
        return to_tikz(drawing)
    picture = to_svg(drawing) if ending == ".svg" else to_picture(drawing, ending[1:])
    return mark_picture(picture, ending)


def draw_graph(source: Any, *, collapse: bool, layout: str) -> Drawing:
    """Draw the architecture of a `GraphSpec`, or of a model that has one."""
    spec = source if isinstance(source, GraphSpec) else getattr(source, "spec", None)
    if spec is None:
        raise ValueError(
            "style 'paper' draws kbert's own graphs, got another model: leave style out, which "
            "draws any functional model"
        )
    config = spec.config
    title = f"{config.family.title}, head {spec.head}, {config.num_hidden_layers} encoder blocks"
    return draw_architecture(spec, title, collapse=collapse, layout=layout)


def draw_text(
    source: Any, text: str | Sequence[str], *, layout: str, lowercase: bool | None
) -> Drawing:
    """Draw the input of a text, or of two, as the tokenizer of a checkpoint cuts them."""
    texts = [text] if isinstance(text, str) else list(text)
    if not 1 <= len(texts) <= 2:
        raise ValueError(f"text must be one text or two, got {len(texts)}")
    from kbert.show.paper.vocabulary import find_tokenizer

    tokenizer, config = find_tokenizer(source, lowercase)
    encoding = tokenizer.encode(*texts)
    if len(encoding) > config.positions:
        raise ValueError(
            f"text must have at most {config.positions} tokens, the model's positions, got "
            f"{len(encoding)}: give a shorter text"
        )
    segments = encoding.segment_ids if config.family.segments else None
    title = f"Input of {config.family.title}: {' | '.join(texts)}"
    return draw_input(encoding.tokens, segments, config.first_position, title, layout)
