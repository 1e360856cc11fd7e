"""Cells in quotes: of CSV, and of tables between tabs, which may have been written with quotes.

Programs that quote (pandas, Python's csv, Excel) quote a cell that holds a quote, a tab or a line
end, and double the quotes in it. Programs that do not (GLUE's) write a quote as any other
character. So a table is quoted if each cell that begins with a quote is a whole quoted cell, and
something shows that the quotes are not part of the text; see `_shows_quoting`.
"""

import csv
import itertools
import logging
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

NumberedLine = tuple[int, str]
NumberedCells = tuple[int, list[str]]

_logger = logging.getLogger("kbert")
_LONGEST_CELL = 2**31 - 1  # characters; the csv module's 131,072 is less than a long text has
_QUOTED = re.compile(r'"(?:[^"]|"")*"')


class CsvError(ValueError):
    """A row that is no CSV; `line` is the number of its first line."""

    def __init__(self, error: csv.Error, line: int):
        super().__init__(str(error))
        self.line = line


def parse_csv(lines: Sequence[str], delimiter: str) -> Iterator[NumberedCells]:
    """Yield (number of the first line, cells) of rows; a quoted cell may have several lines.

    Blanks before a cell are dropped, so that a quote behind them begins a quoted cell.
    """
    csv.field_size_limit(_LONGEST_CELL)
    terminated = (f"{line}\n" for line in lines)
    skips_blanks = delimiter == ","  # csv would take an empty cell for blanks between tabs
    records = csv.reader(
        terminated, delimiter=delimiter, strict=True, skipinitialspace=skips_blanks
    )

    number = 1
    while True:
        try:
            cells = next(records, None)
        except csv.Error as error:
            raise CsvError(error, number) from None
        if cells is None:
            return
        if len(cells) > 1 or any(cell.strip() for cell in cells):
            yield number, cells
        number = records.line_num + 1


def read_tab_separated(lines: Sequence[NumberedLine], path: Path) -> list[NumberedCells]:
    """Return (number of the first line, cells) of a table between tabs, quoted or not.

    A quoted table logs that its quotes are dropped.
    """
    plain = []
    for number, line in lines:
        if line.strip():
            plain.append((number, line.split("\t")))
    quoted = _parse_quoted([line for _, line in lines], plain)
    if quoted is None:
        return plain
    _logger.warning("%s: cells in quotes are read without them, as pandas and Excel do", path)
    return quoted


def _parse_quoted(lines: list[str], plain: list[NumberedCells]) -> list[NumberedCells] | None:
    """Return the rows of a quoted table; None if its quotes are part of the texts."""
    table = [cells for _, cells in plain]
    table_cells = itertools.chain.from_iterable(table)
    if not any(cell.startswith('"') for cell in table_cells):
        return None
    if _count_widths(plain) == 1:  # no cell has several lines or a tab
        if not _shows_quoting(table):
            return None
        without_quotes = []
        for number, cells in plain:
            unquoted = [_drop_quotes(cell) for cell in cells]
            without_quotes.append((number, unquoted))
        return without_quotes

    try:
        quoted = list(parse_csv(lines, "\t"))
    except CsvError:
        return None
    if _count_widths(quoted) != 1:
        return None
    _, first = quoted[0]
    if len(first) == 1 or _joins_rows(quoted, plain):
        return None
    return quoted


def _count_widths(rows: list[NumberedCells]) -> int:
    """Return how many different numbers of cells rows have."""
    return len({len(cells) for _, cells in rows})


def _joins_rows(quoted: list[NumberedCells], plain: list[NumberedCells]) -> bool:
    """Return whether cells of several lines have tabs, and no other row shows that it is quoted.

    They are probably rows of texts, of which the first begins and the last ends with a quote.
    """
    rows_of_one_line = set()
    has_tab_and_line_end = False
    for number, cells in quoted:
        multiline = [cell for cell in cells if "\n" in cell]
        if not multiline:
            rows_of_one_line.add(number)
        if any("\t" in cell for cell in multiline):
            has_tab_and_line_end = True
    if not has_tab_and_line_end:
        return False

    width = len(quoted[0][1])
    rows = []
    for number, cells in plain:
        if number in rows_of_one_line and len(cells) == width:
            rows.append(cells)
    return not rows or not _shows_quoting(rows)


def _shows_quoting(rows: list[list[str]]) -> bool:
    """Return whether quotes of rows of one width stand around cells, not within texts.

    Each cell that begins with a quote must be a whole quoted cell. Then a doubled quote shows it;
    or a column below the first line of which each cell is quoted, as where all texts are; or
    commas, where no cell without quotes has one, as Excel writes them.
    """
    begun, unquoted = [], []
    for cell in itertools.chain.from_iterable(rows):
        if cell.startswith('"'):
            begun.append(cell)
        else:
            unquoted.append(cell)

    if not all(_QUOTED.fullmatch(cell) for cell in begun):
        return False
    if any('""' in cell[1:-1] for cell in begun):
        return True
    headless = rows[1:] if len(rows) > 2 else rows
    for column in zip(*headless, strict=True):
        if len(column) == 1:
            continue
        if all(cell.startswith('"') for cell in column):
            return True

    if any(re.search('[",]', cell) for cell in unquoted):
        return False
    return any("," in cell for cell in begun)


def _drop_quotes(cell: str) -> str:
    if not cell.startswith('"'):
        return cell
    return cell[1:-1].replace('""', '"')
