"""The page of an attention map: one HTML file with everything in it, or a frame in a notebook."""

import html
from importlib.resources import files

from kbert.io import pages, printable
from kbert.tasks.attention.page.page_data import page_data

_FOLDER = files(__package__)
# A script uses only those before it.
_SCRIPTS = (
    *("decoding.js", "state.js", "colours.js", "controls.js", "thumbnails.js", "lines.js"),
    *("heat_map.js", "vectors.js", "table.js", "start.js"),
)


def write_page(
    attention,
    layer: int | None = None,
    head: int | None = None,
    special: bool = False,
) -> str:
    """Return an `AttentionMap` as self-contained HTML; the arguments are those of `page_data`."""
    facts, arrays = page_data(attention, layer, head, special)
    slots = {
        "TITLE": html.escape(printable.cut(facts["text"], 60) or "no text"),
        "STYLE": pages.read_files(_FOLDER, "style.css"),
        "FACTS": pages.to_script(facts),
        "PARTS": "\n".join(
            f'<script type="text/plain" id="data-{name}">{text}</script>'
            for name, text in arrays.items()
        ),
        "SCRIPT": pages.read_files(_FOLDER, *_SCRIPTS),
    }
    return pages.fill_page(_FOLDER, slots)


def write_frame(attention) -> str:
    """Return the page as a frame for a notebook's cell, isolated from the notebook."""
    title = f"Attention of {len(attention.tokens)} tokens"
    return pages.write_frame(write_page(attention), title, "48rem", 'sandbox="allow-scripts"')
