"""Reads figures for papers back from their SVG: boxes, texts and lines, with y going down."""

import re
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

SVG = "{http://www.w3.org/2000/svg}"


class Label(NamedTuple):
    """A line of text: where it stands, its sizes in points, and its letters."""

    x: float
    y: float
    anchor: str
    sizes: tuple[float, ...]
    text: str


class Figure(NamedTuple):
    """What is in the file; a box is (left, top, right, bottom, kind), a line its points."""

    width: float  # millimetres
    height: float
    sides: tuple[float, float]  # in the units of the shapes
    boxes: list[tuple[float, float, float, float, str]]
    labels: list[Label]
    lines: list[list[tuple[float, float]]]

    def rows(self) -> list[list[str]]:
        """The texts from bottom to top, from left to right within a height."""
        heights: dict[float, list[Label]] = {}
        for label in self.labels:
            heights.setdefault(round(label.y, 1), []).append(label)
        return [[one.text for one in sorted(heights[y])] for y in sorted(heights, reverse=True)]


def read_figure(path: Path) -> Figure:
    root = ElementTree.fromstring(path.read_bytes())
    base = float(root.get("font-size"))
    boxes, labels, lines = [], [], []
    for element in root.iter():
        tag = element.tag.removeprefix(SVG)
        if tag == "rect" and element.get("class"):
            left, top = float(element.get("x")), float(element.get("y"))
            right = left + float(element.get("width"))
            bottom = top + float(element.get("height"))
            boxes.append((left, top, right, bottom, element.get("class")))
        elif tag == "text":
            sizes = [float(part.get("font-size", base)) for part in element.iter()]
            place = float(element.get("x")), float(element.get("y")), element.get("text-anchor")
            labels.append(Label(*place, tuple(sizes), "".join(element.itertext())))
        elif tag == "path":
            numbers = [float(n) for n in re.findall(r"-?[\d.]+", element.get("d"))]
            lines.append(list(zip(numbers[::2], numbers[1::2], strict=True)))
    millimetres = [float(root.get(side).removesuffix("mm")) for side in ("width", "height")]
    _, _, *sides = map(float, root.get("viewBox").split())
    return Figure(*millimetres, tuple(sides), boxes, labels, lines)


def bounds(label: Label) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of a text in DejaVu Sans, the widest of its fonts."""
    from PIL import ImageFont

    fonts = Path(find_spec("matplotlib").origin).parent / "mpl-data" / "fonts" / "ttf"
    face = ImageFont.truetype(fonts / "DejaVuSans.ttf", 100)
    letter = label.text[0] if len(label.sizes) > 1 else label.text
    width = face.getlength(letter) * label.sizes[0] / 100
    width += face.getlength(label.text[len(letter) :]) * label.sizes[-1] / 100
    left = label.x - {"start": 0, "middle": width / 2, "end": width}[label.anchor]
    return left, label.y - 0.76 * label.sizes[0], left + width, label.y + 0.24 * label.sizes[0]
