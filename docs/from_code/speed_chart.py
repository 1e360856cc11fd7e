"""The chart of docs/benchmarks/speed.md, drawn from the table of that page.

`python docs/from_code/speed_chart.py` writes docs/benchmarks/speed.svg, which is committed, so that
GitHub shows it too. A test compares the two.
"""

import html
from pathlib import Path

from kbert.io import palette

PAGE = Path(__file__).parents[1] / "benchmarks" / "speed.md"
BARS = {  # rows of the table, with what a reader needs to know of each
    "1": "Pretraining, float32, vs KerasHub",
    "2": "Pretraining, bfloat16, vs KerasHub",
    "4": "Pretraining, float32, vs keras_bert",
    "3 float32": "Pretraining, float32, vs transformers",
    "11": "Sentence embeddings, float32, vs sentence-transformers",
    "12": "Sentence embeddings, bfloat16, vs sentence-transformers",
    "13 random order": "Fine-tuning, vs transformers (random order, its default)",
    "13": "Fine-tuning, vs transformers (batches by length)",
    "13 bfloat16": "Fine-tuning, bfloat16, vs transformers (batches by length)",
    "15": "Loading base, vs reading its arrays with safetensors",
    "10 of 1, KerasHub": "Memory of pretraining, vs KerasHub",
    "10 of 1, transformers": "Memory of pretraining, vs transformers",
}
_COLOURS = palette.WEIGHTS["light"][4:1:-1]
# Pixels. The chart is as narrow as a phone, so that its letters are not made smaller there.
_WIDTH, _MARGIN = 400, 10
_UNIT = 90  # for a ratio of 1
_BAR, _LETTERS = 13, 13
_ORANGE, _PAPER = palette.ORANGE.light, palette.PAPER.light


def ratios() -> tuple[list[str], dict[str, list[str]]]:
    """Return the processors, and each row's ratios, as the page's table has them."""
    _, _, table = PAGE.read_text(encoding="utf-8").partition("\n| row |")
    lines = [line.strip("| ").split(" | ") for line in table.partition("\n\n")[0].splitlines()]
    return lines[0][2:], {cells[0]: cells[3:] for cells in lines[2:]}


def chart() -> str:
    """Draw the bars, one per processor that a row was measured on, below the row's label."""
    processors, table = ratios()
    bars, texts = [], []

    title = ("Time or memory of the other library ÷ kbert's.", "Above 1, kbert is better.")
    y = 20
    for line in title:
        texts.append(_text(_MARGIN, y, line))
        y += 18
    for colour, processor in zip(_COLOURS, processors, strict=True):
        bars.append(_box(_MARGIN, y - 10, 11, 11, colour))
        texts.append(_text(_MARGIN + 18, y, processor))
        y += 18

    equal = _MARGIN + _UNIT
    top = y + 4
    texts.append(_text(equal, top, "1: equal", anchor="middle", colour=_ORANGE))
    y = top + 22

    for row, label in BARS.items():
        texts.append(_text(_MARGIN, y, label))
        y += 6
        for colour, ratio in zip(_COLOURS, table[row], strict=True):
            if ratio == "–":
                continue
            end = _MARGIN + float(ratio) * _UNIT
            bars.append(_box(_MARGIN, y, float(ratio) * _UNIT, _BAR, colour))
            texts.append(_text(end + 4, y + _BAR - 2, ratio, size=12))
            y += _BAR + 2
        y += 20

    line = f'<path d="M{equal} {top + 5}V{y - 20}" stroke="{_ORANGE}" stroke-dasharray="4 3"/>'
    size = f'width="{_WIDTH}" height="{y - 10}" viewBox="0 0 {_WIDTH} {y - 10}"'
    begin = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif">'
    paper = _box(0, 0, _WIDTH, y, _PAPER)
    return "\n".join([begin, paper, *bars, line, *texts, "</svg>\n"])


def _box(x: float, y: float, width: float, height: float, colour: str) -> str:
    return f'<rect x="{x}" y="{y}" width="{width:.1f}" height="{height}" fill="{colour}"/>'


def _text(
    x: float,
    y: float,
    text: str,
    *,
    size: int = _LETTERS,
    anchor: str = "start",
    colour: str = palette.INK.light,
) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"'
    halo = f'stroke="{_PAPER}" stroke-width="3" paint-order="stroke"'  # where it crosses the line
    return f'<text {place} fill="{colour}" {halo}>{html.escape(text)}</text>'


if __name__ == "__main__":
    PAGE.with_suffix(".svg").write_text(chart(), encoding="utf-8")
