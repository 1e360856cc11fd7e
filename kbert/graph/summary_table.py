"""A summary's rows as a table of text in keras_bert's layout, whole at any width."""

import itertools
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence

from kbert.graph.closed_form import Row
from kbert.graph.trained_parts import TrainedParts

_HEADER = ("Layer (type)", "Output Shape", "Param #", "Connected to")
_GAP = 2
_INDENT = 2
_NOTEBOOK_WIDTH = 100  # what Jupyter shows of a line before it wraps, in the midst of a word


def width_shown() -> int | None:
    """Return the columns of a line that is printed now; None in a pipe or a file: any number."""
    notebooks = sys.modules.get("ipykernel.iostream")  # Jupyter's, Colab's, Visual Studio Code's
    if notebooks is not None and isinstance(sys.stdout, notebooks.OutStream):
        return _NOTEBOOK_WIDTH
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def summary_text(
    layers: Sequence[Row],
    layer_range: Sequence[str] | None = None,
    *,
    width: int | None = None,
    positions: Sequence[float] | None = None,
    counts: tuple[int, int] | None = None,
    mark: Callable[[Row], str] | None = None,
) -> str:
    """Return a graph's table and its closing lines, which count the model's own parameters alone.

    `layer_range` is as in `select`, `width` and `positions` as in `format_table`. `counts` are the
    parameters, and how many of them are trainable; `mark` fills one more column, "Trainable".
    """
    shown = select(layers, layer_range)
    marks = []
    if mark:
        marks = [mark(row) for row in shown]
    text = format_table(shown, width, positions, marks)

    if layer_range is not None:
        params = sum(row.params for row in shown)
        text += f"Shown: {len(shown)} of {len(layers)} rows, {params:,} params\n"

    if counts is None:
        params = sum(row.params for row in layers)
        counts = params, params
    total, trainable = counts
    return text + (
        f"Total params: {total:,}\nTrainable params: {trainable:,}\n"
        f"Non-trainable params: {total - trainable:,}\n"
    )


def trainable_columns(layers: Sequence[Row], trained: TrainedParts) -> dict:
    """Return `counts` and `mark` of `summary_text` for partial training: Y, N, or LoRA (frozen).

    Adapters count as parameters of the model: all, and those that are trained.
    """
    adapted = {matrix.layer for matrix in trained.adapted}

    def mark(row: Row) -> str:
        if row.layer in adapted:
            return "LoRA"
        if not row.params:
            return "-"
        return "N" if row.layer in trained.frozen else "Y"

    total = sum(row.params for row in layers)
    frozen = sum(row.params for row in layers if row.layer in trained.frozen)
    added = trained.adapter_params
    trainable = total - frozen + added
    return {"counts": (total + added, trainable), "mark": mark}


def select(layers: Sequence[Row], layer_range: Sequence[str] | None) -> tuple[Row, ...]:
    """Return the rows from the first match of one pattern to the last match of the other."""
    if layer_range is None:
        return tuple(layers)
    has_texts = all(isinstance(part, str) for part in layer_range)
    if len(layer_range) != 2 or not has_texts:
        raise ValueError(f"layer_range must be two names or patterns, got {layer_range!r}")

    matches = []
    for pattern in layer_range:
        try:
            layer_names = [row.layer for row in layers]
            indices = [index for index, name in enumerate(layer_names) if re.match(pattern, name)]
        except re.error as error:
            raise ValueError(f"layer_range must be patterns, got {pattern!r}: {error}") from None
        if not indices:
            raise ValueError(
                f"layer_range must match layers, got {pattern!r}, which matches none: "
                "see their names in the whole summary"
            )
        matches.append(indices)

    first, last = matches
    if min(first) > max(last):  # the wrong way round, as Keras takes it too
        first, last = last, first
    return tuple(layers[min(first) : max(last) + 1])


def format_table(
    layers: Sequence[Row],
    width: int | None = None,
    positions: Sequence[float] | None = None,
    trainable: Sequence[str] = (),
) -> str:
    """Return the table, rules and header included; nothing is cut at any width.

    A line is as wide as `width`, None: as the longest cells need. Columns end at `positions`,
    shares of the width or characters. `trainable` are the marks of one more column.
    """
    header = [*_HEADER]
    cells = [_list_cells(row) for row in layers]
    if trainable:
        header.append("Trainable")
        for cells_of_row, mark in zip(cells, trainable, strict=True):
            cells_of_row.append(mark)

    columns = zip(header, *cells, strict=True)
    natural = [_widest_line(column) for column in columns]
    full = sum(natural) + _GAP * (len(natural) - 1)
    if positions:
        widths = _fit_columns(positions, len(header), width or full)
        width = sum(widths) + _GAP * (len(widths) - 1)
    elif width is None or width >= full:
        widths = natural
    else:
        return _stack(header, cells, natural, width)

    blocks = [_columns(row, widths) for row in (header, *cells)]
    return _draw_rules(blocks, width or full)


def _list_cells(row: Row) -> list[str]:
    """Return a row's cells in the order of the header; each connection is a line."""
    connections = row.connected_to.replace(", ", "\n")
    return [f"{row.layer} ({row.type})", row.output_shape, str(row.params), connections]


def _widest_line(column: Sequence[str]) -> int:
    lines = "\n".join(column).split("\n")
    return max(len(line) for line in lines)


def _fit_columns(positions: Sequence[float], count: int, width: int) -> list[int]:
    """Return the widths of columns that end at `positions`: shares of a width, or characters."""
    share = width if positions[-1] <= 1 else 1
    ends = [int(end * share) for end in positions]
    if len(ends) < count:
        ends.append(ends[-1] + len("Trainable") + _GAP)

    starts = [-_GAP, *ends]
    spans = zip(starts, ends, strict=False)
    widths = [end - start - _GAP for start, end in spans]
    if len(ends) != count or min(widths) < 1:
        raise ValueError(
            f"positions must be {count} rising ends of columns at least {_GAP + 1} "
            f"characters apart, got {list(positions)!r}"
        )
    return widths


def _stack(header, cells, natural, width: int) -> str:
    """Return a name on its own lines, the other columns below it, connections where they fit."""
    for shape in (natural[1], min(natural[1], 18)):
        widths = [shape, natural[2], *natural[4:]]
        rest = width - _INDENT - sum(widths) - _GAP * len(widths)
        if rest >= natural[3]:
            widths.insert(2, rest)
            break

    blocks = [_stack_row(row, widths, width) for row in (header, *cells)]
    return _draw_rules(blocks, width)


def _stack_row(row: Sequence[str], widths: Sequence[int], width: int) -> str:
    """Return a row's name and, below it, its columns; connections that do not fit follow."""
    name, *columns = row
    connections = []
    if len(columns) > len(widths):
        connections = _wrap(columns.pop(2), width - 2 * _INDENT)
    first_line = _columns(columns, widths, right=1)
    below = "\n".join([first_line, *connections])
    indented = textwrap.indent(below.rstrip(), " " * _INDENT)
    return "\n".join([*_wrap(name, width), indented])


def _columns(cells: Sequence[str], widths: Sequence[int], right: int = 2) -> str:
    """Return cells side by side, each wrapped within its width; column `right` is set right."""
    widths_of_cells = zip(cells, widths, strict=True)
    columns = [_wrap(cell, width) for cell, width in widths_of_cells]
    lines = []
    for pieces in itertools.zip_longest(*columns, fillvalue=""):
        padded = []
        for index, (piece, width) in enumerate(zip(pieces, widths, strict=True)):
            is_right = index == right
            padded.append(piece.rjust(width) if is_right else piece.ljust(width))
        line = (" " * _GAP).join(padded)
        lines.append(line.rstrip())
    return "\n".join(lines)


def _wrap(cell: str, width: int) -> list[str]:
    pieces = []
    for line in cell.split("\n"):
        pieces += textwrap.wrap(line, max(width, 1)) or [""]
    return pieces


def _draw_rules(blocks: Sequence[str], width: int) -> str:
    header, *body_blocks = blocks
    body = f"\n{'_' * width}\n".join(body_blocks)
    return f"{'_' * width}\n{header}\n{'=' * width}\n{body}\n{'=' * width}\n"
