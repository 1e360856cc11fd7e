"""The chart of docs/benchmarks/speed.md, drawn from the table of that page.

`python docs/from_code/speed_chart.py` writes docs/benchmarks/speed.svg, which is committed, so that
GitHub shows it too. A test compares the two.
"""

import html
from pathlib import Path

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
_COLOURS = ("#1f5fa8", "#4c9be8", "#a9cdf3")
_LEFT, _UNIT, _WIDTH, _BAR = 400, 85, 780, 9  # pixels; _UNIT for a ratio of 1


def ratios() -> tuple[list[str], dict[str, list[str]]]:
    """Return the processors, and each row's ratios, as the page's table has them."""
    _, _, table = PAGE.read_text(encoding="utf-8").partition("\n| row |")
    lines = [line.strip("| ").split(" | ") for line in table.partition("\n\n")[0].splitlines()]
    return lines[0][2:], {cells[0]: cells[3:] for cells in lines[2:]}


def chart() -> str:
    """Draw the bars, one per processor that a row was measured on; the line is at 1."""
    processors, table = ratios()
    bars, texts, y = [], [], 64
    for row, label in BARS.items():
        shown = [
            (colour, value)
            for colour, value in zip(_COLOURS, table[row], strict=True)
            if value != "–"
        ]
        height = len(shown) * (_BAR + 1)
        texts.append(_text(_LEFT - 8, y + height / 2 + 4, label, anchor="end"))
        for colour, value in shown:
            bars.append(_box(_LEFT, y, float(value) * _UNIT, _BAR, colour))
            texts.append(_text(_LEFT + float(value) * _UNIT + 4, y + 8.5, value, size=9))
            y += _BAR + 1
        y += 9
    line = f'<path d="M{_LEFT + _UNIT} 48V{y - 4}" stroke="#c2410c" stroke-dasharray="4 3"/>'
    texts.append(_text(_LEFT + _UNIT, 42, "1: equal", anchor="middle", colour="#c2410c"))
    for place, (colour, processor) in enumerate(zip(_COLOURS, processors, strict=True)):
        bars.append(_box(16 + place * 135, 33, 10, 10, colour))
        texts.append(_text(31 + place * 135, 42, processor))
    title = "Time (or memory) of the other library ÷ that of kbert: above 1, kbert is better"
    texts.append(_text(16, 20, title, size=13))
    size = f'width="{_WIDTH}" height="{y}" viewBox="0 0 {_WIDTH} {y}"'
    begin = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif">'
    return "\n".join([begin, _box(0, 0, _WIDTH, y, "#ffffff"), *bars, line, *texts, "</svg>\n"])


def _box(x: float, y: float, width: float, height: float, colour: str) -> str:
    return f'<rect x="{x}" y="{y}" width="{width:.1f}" height="{height}" fill="{colour}"/>'


def _text(x, y, text, size=11, anchor="start", colour="#24292f") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"'
    halo = 'stroke="#ffffff" stroke-width="3" paint-order="stroke"'  # where it crosses the line
    return f'<text {place} fill="{colour}" {halo}>{html.escape(text)}</text>'


if __name__ == "__main__":
    PAGE.with_suffix(".svg").write_text(chart(), encoding="utf-8")
