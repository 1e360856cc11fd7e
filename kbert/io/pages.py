"""Pages of HTML that need no other file, and frames that show them in a notebook."""

import html
import json
import re
from collections.abc import Mapping
from importlib.resources.abc import Traversable

_SLOT = re.compile(r"<!--([A-Z]+)-->")


def fill_page(folder: Traversable, slots: Mapping[str, str]) -> str:
    """Return a folder's page.html; `slots` are the contents of <!--TITLE--> and the like."""
    page = read_files(folder, "page.html")
    return _SLOT.sub(lambda slot: slots[slot[1]], page)


def read_files(folder: Traversable, *names: str) -> str:
    """Return the text of files, one after the other."""
    texts = []
    for name in names:
        text = (folder / name).read_text(encoding="utf-8")
        texts.append(text.rstrip())
    return "\n".join(texts)


def to_script(value, separators: tuple[str, str] = (", ", ": ")) -> str:
    """Return JSON that ends neither the script that it is in nor a line of it."""
    text = json.dumps(value, ensure_ascii=False, separators=separators, allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def write_frame(page: str, title: str, height: str, options: str) -> str:
    """Return a page as a frame for a notebook's cell; `options` are further HTML attributes."""
    return (
        f'<iframe title="{html.escape(title)}" srcdoc="{html.escape(page)}" '
        f'style="width: 100%; height: {height}; border: 0" {options}></iframe>'
    )
