"""The figures for papers that the page on pictures shows.

`python docs/from_code/paper_pictures.py SRC` writes them to docs/how_to; SRC is a checkpoint with
the vocabulary of bert-base-uncased. A test compares them.
"""

import sys
from pathlib import Path

import kbert

PAGES = Path(__file__).parents[1] / "how_to"
TEXT = ("my dog is cute", "he likes playing")


def draw(source: str, folder: Path = PAGES) -> None:
    """Write the architecture of base, as a column and as a slide, and the input of a text."""
    kbert.plot("base", folder / "paper.svg", style="paper")
    kbert.plot("base", folder / "slide.svg", layout="wide")
    kbert.plot(source, folder / "input.svg", text=TEXT)


if __name__ == "__main__":
    draw(sys.argv[1])
