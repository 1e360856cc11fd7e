"""The page of an attention map: one HTML file with everything in it, or a frame in a notebook."""

import html
import json
import re
from importlib import resources

from kbert.io import printable
from kbert.tasks.attention.attention_data import AttentionData
from kbert.tasks.attention.page.page_data import page_data

# In this order: what a script uses stands before it.
_SCRIPTS = (
    "decoding",
    "state",
    "colours",
    "controls",
    "thumbnails",
    "lines",
    "heat_map",
    "vectors",
    "table",
    "start",
)
_SLOT = re.compile(r"<!--(\w+)-->")
_FRAME_HEIGHT = "48rem"


def page(
    found: AttentionData, layer: int | None = None, head: int | None = None, special: bool = False
) -> str:
    """Return the page as HTML: style, script and numbers are in it, and it asks for nothing else.

    Args, Raises: as for `kbert.tasks.attention.page.page_data.page_data`.
    """
    data = page_data(found, layer, head, special)
    # "<" as an escape: no text can end the script that it stands in
    facts = json.dumps(data.facts, ensure_ascii=False).replace("<", "\\u003c")
    slots = {
        "TITLE": html.escape(printable.cut(data.facts["text"], 60) or "no text"),
        "STYLE": _asset("style.css"),
        "FACTS": facts,
        "PARTS": "\n".join(
            f'<script type="text/plain" id="data-{name}">{text}</script>'
            for name, text in data.parts.items()
        ),
        "SCRIPT": "\n".join(_asset(f"{name}.js") for name in _SCRIPTS),
    }
    return _SLOT.sub(lambda slot: slots[slot[1]], _asset("page.html"))


def frame(text: str, title: str) -> str:
    """Return a page as a frame for a notebook's cell: what is in it cannot touch the notebook."""
    return (
        f'<iframe title="{html.escape(title)}" sandbox="allow-scripts" '
        f'style="width: 100%; height: {_FRAME_HEIGHT}; border: 0" srcdoc="{html.escape(text)}">'
        "</iframe>"
    )


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
