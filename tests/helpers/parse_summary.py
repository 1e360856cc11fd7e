"""Reads a printed summary back into rows, whatever its width: kbert's layout and Keras's."""

import itertools
import re
from typing import NamedTuple


class Printed(NamedTuple):
    """A summary as it was printed; without spaces in the cells, since wrapping moves them."""

    rows: list[tuple[str, str, int, list[str]]]  # name and type, shape, parameters, connections
    trainable: list[str]
    totals: list[str]


def expected(rows) -> list[tuple[str, str, int, list[str]]]:
    """`kbert.graph.closed_form.Row`s as `Printed` has them."""
    return [
        (
            f"{row.layer}({row.type})",
            _squeezed(row.output_shape),
            row.params,
            row.connected_to.split(", ") if row.connected_to else [],
        )
        for row in rows
    ]


def parse(text: str) -> Printed:
    """Document 004's layout, with rules of "_" and "="; names on their own lines where narrow."""
    blocks: list[list[str]] = [[]]
    for line in text.splitlines():
        if line and set(line) <= {"_", "="}:
            blocks.append([])
        else:
            blocks[-1].append(line)
    before, header, *blocks, totals = blocks
    assert not before, before
    assert _squeezed("".join(header)).startswith("Layer(type)OutputShapeParam#"), header
    rows = [_cells(header, block) for block in blocks]
    return Printed(
        [
            (
                row["Layer (type)"],
                row["Output Shape"],
                int(row["Param #"]),
                connections(row["Connected to"]),
            )
            for row in rows
        ],
        [row.get("Trainable", "") for row in rows],
        totals,
    )


def parse_keras(text: str) -> Printed:
    """Keras's own table, with box-drawing rules."""
    rows: list[list[str]] = []
    for line in text.splitlines():
        if line[0] in "┡├":
            rows.append([])
        elif line[0] == "│":
            parts = map(_squeezed, line.strip("│").split("│"))
            rows[-1] = [a + b for a, b in zip(rows[-1] or [""] * 9, parts, strict=False)]
    return Printed(
        [
            (name, shape, int(params.replace(",", "")), connections(sources))
            for name, shape, params, sources, *_ in rows
        ],
        [row[-1] for row in rows],
        [line.strip() for line in text.splitlines() if "params:" in line],
    )


def connections(text: str) -> list[str]:
    """`name[0][0]`s that stand one after the other, with or without commas."""
    return re.findall(r"[^\[\],]+\[\d+\]\[\d+\]", _squeezed(text))


def _cells(header: list[str], block: list[str]) -> dict[str, str]:
    """The cells of a row by the titles of the header, each without spaces."""
    titles = next(line for line in header if "Output Shape" in line)
    above, beside, below = [], [line for line in block if line], []
    if not titles.startswith("Layer (type)"):  # the name on lines of its own, the rest set in
        above = [line for line in beside if not line.startswith("  ")]
        beside = beside[len(above) :]
    if "Connected to" not in titles:  # then they come last, from the first line with a name
        first = next(
            (n for n, line in enumerate(beside) if re.match(r"  (?!None)[A-Z]", line)), None
        )
        if first is not None:
            beside, below = beside[:first], beside[first:]
    shape, number_end = titles.index("Output Shape"), titles.index("Param #") + len("Param #")
    first_line, *other_lines = (line[shape:number_end] for line in beside)
    number = re.search(r"(?<!\S)\d+$", first_line)
    starts = [title for title in ("Connected to", "Trainable") if title in titles]
    starts = [*(titles.index(title) for title in starts), None]
    cells = {
        "Layer (type)": "".join(above) + "".join(line[:shape] for line in beside),
        "Output Shape": first_line[: number.start()] + "".join(other_lines),
        "Param #": number[0],
        "Connected to": "".join(below),
    }
    for start, end in itertools.pairwise(starts):
        title = "Connected to" if titles[start:].startswith("Connected to") else "Trainable"
        cells[title] = "".join(line[start:end] for line in beside) + cells.get(title, "")
    return {title: _squeezed(cell) for title, cell in cells.items()}


def _squeezed(text: str) -> str:
    return "".join(text.split())
