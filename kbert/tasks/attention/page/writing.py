"""The page of an attention map: one HTML file with everything in it, or a frame in a notebook."""

import html
import json
import re
from importlib import resources

from kbert.io import printable
from kbert.tasks.attention.attention_data import AttentionData
from kbert.tasks.attention.page.page_data import page_data

# A script uses only those before it.
_SCRIPTS = (
    *("decoding", "state", "colours", "controls", "thumbnails", "lines", "heat_map"),
    *("vectors", "table", "start"),
)
_SLOT = re.compile(r"<!--(\w+)-->")
_FRAME_HEIGHT = "48rem"


def write_page(
    attention: AttentionData,
    layer: int | None = None,
    head: int | None = None,
    special: bool = False,
) -> str:
    """Return the page as self-contained HTML; see `page_data` for the arguments and errors."""
    facts, arrays = page_data(attention, layer, head, special)
    slots = {
        "TITLE": html.escape(printable.cut(facts["text"], 60) or "no text"),
        "STYLE": _read_asset("style.css"),
        # "<" as an escape: no text can end the script that it stands in
        "FACTS": json.dumps(facts, ensure_ascii=False).replace("<", "\\u003c"),
        "PARTS": "\n".join(
            f'<script type="text/plain" id="data-{name}">{text}</script>'
            for name, text in arrays.items()
        ),
        "SCRIPT": "\n".join(_read_asset(f"{name}.js") for name in _SCRIPTS),
    }
    return _SLOT.sub(lambda slot: slots[slot[1]], _read_asset("page.html"))


def write_frame(attention: AttentionData) -> str:
    """Return the page as a frame for a notebook's cell, isolated from the notebook."""
    title = html.escape(f"Attention of {len(attention.tokens)} tokens")
    return (
        f'<iframe title="{title}" sandbox="allow-scripts" '
        f'style="width: 100%; height: {_FRAME_HEIGHT}; border: 0" '
        f'srcdoc="{html.escape(write_page(attention))}"></iframe>'
    )


def _read_asset(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
