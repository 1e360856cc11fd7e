"""The short form of a summary: equal encoder blocks once, numbers with thousands separators."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from kbert.graph import names
from kbert.graph.closed_form import Row
from kbert.io.latex import to_latex

_HEADER = ("Layer (type)", "Output shape", "Params")
_GAP = 2


@dataclass(frozen=True)
class Section:
    """Rows of a summary that belong together: equal encoder blocks, or what is in none.

    Attributes:
        first, last: the numbers of the blocks; 0: these layers are in none.
        layers: of one block, with names without the block's; else with the layers' names.
    """

    first: int
    last: int
    layers: tuple[Row, ...]

    @property
    def title(self) -> str:
        """What stands above the layers of a block; "" for other layers."""
        if not self.first:
            return ""
        if self.first == self.last:
            return f"Encoder-{self.first}"
        return f"{self.last - self.first + 1} × Encoder-n, n = {self.first} … {self.last}, each"

    @property
    def params(self) -> int:
        """Parameters of one block."""
        return sum(row.params for row in self.layers)


def split_layers(layers: Sequence[Row]) -> list[Section]:
    """Return the layers in sections; blocks that follow each other and are equal are one."""
    sections: list[Section] = []
    for number, part in _split_blocks(layers):
        before = sections[-1] if sections else None
        if number and before is not None and _shapes(before.layers) == _shapes(part):
            sections[-1] = replace(before, last=number)
        else:
            sections.append(Section(number, number, tuple(part)))
    return sections


def short_text(
    layers: Sequence[Row], counts: tuple[int, int] | None = None, width: int | None = None
) -> str:
    """Return the short form as text, with the closing lines of the whole one.

    `counts` are the parameters, and how many of them are trainable. A `width` in which the table
    does not fit leaves out the types of the layers.
    """
    text = _write_text(layers, counts, with_types=True)
    if width is not None and max(len(line) for line in text.splitlines()) > width:
        return _write_text(layers, counts, with_types=False)
    return text


def _write_text(layers: Sequence[Row], counts: tuple[int, int] | None, with_types: bool) -> str:
    header = _HEADER if with_types else ("Layer", *_HEADER[1:])
    lines, rules = _list_lines(layers, with_types)

    widths = []
    for column in zip(header, *lines, strict=True):
        lengths = [len(cell) for cell in column]
        widths.append(max(lengths))
    gaps = _GAP * (len(widths) - 1)
    width = sum(widths) + gaps
    written = [_align(header, widths), "=" * width]
    for number, line in enumerate(lines):
        if number in rules[1:]:
            written.append("_" * width)
        written.append(_align(line, widths))
    sums = _list_sums(layers, counts)
    return "\n".join([*written, "=" * width, *sums, ""])


def _list_lines(
    layers: Sequence[Row], with_types: bool
) -> tuple[list[tuple[str, str, str]], list[int]]:
    """Return the lines of the table, and the numbers of those with which a section begins."""
    lines: list[tuple[str, str, str]] = []
    rules = []
    for section in split_layers(layers):
        rules.append(len(lines))
        if section.title:
            lines.append((section.title, "", f"{section.params:,}"))
        for row in section.layers:
            first, *further = _split_shapes(row)
            name = f"{row.layer} ({row.type})" if with_types else row.layer
            lines.append((name, first, f"{row.params:,}"))
            lines += [("", shape, "") for shape in further]
    return lines, rules


def _list_sums(layers: Sequence[Row], counts: tuple[int, int] | None) -> list[str]:
    """Return the closing lines; `counts` are as in `short_text`."""
    if counts is None:
        params = sum(row.params for row in layers)
        counts = params, params
    total, trainable = counts
    closing = {"Total": total, "Trainable": trainable, "Non-trainable": total - trainable}
    return [f"{name} params: {count:,}" for name, count in closing.items()]


def latex_text(layers: Sequence[Row], *, collapse: bool = False, sum_name: str = "Total") -> str:
    """Return a summary as a table for LaTeX, without the column of connections."""
    header = ("Layer", "Type", "Output shape", "Parameters")
    total = sum(row.params for row in layers)
    last = (sum_name, "", "", total)
    lines: list[tuple] = []
    if not collapse:
        lines += _shapes(layers)
        return to_latex(header, lines, last)

    rules = []
    for section in split_layers(layers):
        rules.append(len(lines))
        if section.title:
            lines.append((section.title, "", "", section.params))
        lines += _shapes(section.layers)
    return to_latex(header, lines, last, rules[1:])


def _split_blocks(layers: Sequence[Row]) -> Iterator[tuple[int, list[Row]]]:
    """Yield the number of each block, 0 for layers in none, and its layers by their short names."""
    part: list[Row] = []
    number = 0
    for row in layers:
        block = names.block_of(row.layer)
        if block != number and part:
            yield number, part
            part = []
        number = block
        name = row.layer.removeprefix(names.encoder(block, ""))
        part.append(replace(row, layer=name))
    if part:
        yield number, part


def _shapes(layers: Sequence[Row]) -> list[tuple[str, str, str, int]]:
    return [(row.layer, row.type, row.output_shape, row.params) for row in layers]


def _split_shapes(row: Row) -> list[str]:
    """Return the output shapes of a layer, one each."""
    shapes = row.output_shape.removeprefix("[").removesuffix("]")
    return shapes.replace("), (", ")\n(").split("\n")


def _align(cells: Sequence[str], widths: Sequence[int]) -> str:
    layer, shape, params = cells
    gap = " " * _GAP
    line = f"{layer:<{widths[0]}}{gap}{shape:<{widths[1]}}{gap}{params:>{widths[2]}}"
    return line.rstrip()
