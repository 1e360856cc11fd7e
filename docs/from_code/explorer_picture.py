"""The picture of the explorer that README and pages show.

`python docs/from_code/explorer_picture.py` writes docs/explorer.png: BERT base with block 7 open
and its attention selected. Chromium and Playwright must be installed. Draw it again when the page
changes: no test compares the picture.
"""

import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

import kbert

PICTURE = Path(__file__).parents[1] / "explorer.png"
_OPEN = "#Encoder-7-MultiHeadSelfAttention&open=7"


def draw() -> None:
    """Write the explorer of base, and photograph it in a window of 1360 × 850 pixels."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_file = Path(folder) / "base.html"
        kbert.explore("base", page_file)

        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1360, "height": 850}, color_scheme="light")
        page.goto(page_file.as_uri() + _OPEN)
        page.screenshot(path=PICTURE)
        browser.close()


if __name__ == "__main__":
    draw()
