"""The pictures of the interactive page that README and guides show.

`python docs/from_code/explorer_pictures.py MINILM` writes docs/explorer.png (BERT base with block 7
open), docs/live.png (the small model with a sentence in it) and, with the folder of
all-MiniLM-L6-v2, docs/how_to/attention.png and attribute.png. Chromium, Playwright and Pillow must
be installed. Draw them again when the page changes: no test compares the pictures.
"""

import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from PIL import Image
from playwright.sync_api import sync_playwright

import kbert

DOCS = Path(__file__).parents[1]
TEXT = "She opened the [MASK] and went into the garden."


class Picture(NamedTuple):
    """A page, the state in which it is photographed, and the window in pixels."""

    write: Callable[[Path], object]
    fragment: str
    width: int
    height: int


def list_pictures(minilm: Path) -> dict[str, Picture]:
    """Return every picture by its file's name in docs."""

    def write_live(path: Path) -> None:
        kbert.explore(DOCS / "small_model", path, sentences=[TEXT], title="A small BERT")

    def write_attention(path: Path) -> None:
        kbert.attention(kbert.load(minilm), "A cat sat.", "It was tired.").save(path)

    head = f"Encoder-2-MultiHeadSelfAttention/head-1&text={quote(TEXT)}&token=7"
    return {
        "explorer.png": Picture(
            lambda path: kbert.explore("base", path),
            *("Encoder-7-MultiHeadSelfAttention&open=7", 1360, 850),
        ),
        "live.png": Picture(write_live, head, 1360, 850),
        "how_to/attention.png": Picture(write_attention, "", 1360, 850),
    }


def draw(minilm: Path) -> None:
    """Write each page, and photograph it once it has computed what it shows."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for name, picture in list_pictures(minilm).items():
            page_file = Path(folder) / "page.html"
            page_file.unlink(missing_ok=True)
            picture.write(page_file)

            window = {"width": picture.width, "height": picture.height}
            page = browser.new_page(viewport=window, color_scheme="light")
            address = f"#{picture.fragment}" if picture.fragment else ""
            page.goto(page_file.as_uri() + address)
            page.wait_for_timeout(5000)
            page.screenshot(path=DOCS / name)
            page.close()
            reduce_colours(DOCS / name)
        browser.close()


def draw_attribution(minilm: Path) -> None:
    """Write the picture that an attribution saves, of the guide's two sentences."""
    texts = {"text": "The violin is old.", "similar_to": "She plays the violin."}
    picture = DOCS / "how_to" / "attribute.png"
    picture.unlink(missing_ok=True)  # with fewer colours it is no file of kbert's
    kbert.attribute(kbert.load(minilm), **texts).save(picture)
    reduce_colours(picture)


def reduce_colours(path: Path) -> None:
    """Write a picture again with 256 colours, in a third of the bytes."""
    Image.open(path).convert("RGB").quantize(256).save(path, optimize=True)


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
    draw_attribution(Path(sys.argv[1]))
