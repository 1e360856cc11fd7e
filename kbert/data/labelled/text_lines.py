"""Numbered lines of a text file: JSON lines, and the cells of a table's lines."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from kbert.data.labelled.quoted_tables import (
    CsvError,
    NumberedLine,
    parse_csv,
    read_tab_separated,
)
from kbert.io import bounds
from kbert.io import json_schema as js
from kbert.io.text_bytes import drop_ending, read_text

Row = tuple[str, Sequence[str]]  # file and line, cells

WAY_TO_QUOTE = ": put texts with commas in quotes, or save the file between tabs as .tsv"
_DECIMAL_COMMA = re.compile(r";\s*-?\d+,\d+$")  # the last column of what Excel writes in Europe


def read_numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (number from 1 on, line without its end), also an empty one after a final line end.

    Lines end with LF or CR LF, or with CR as on old Macs if the file has no LF. The file may be
    compressed (.gz, .bz2, .xz), or UTF-16 with its mark; see `kbert.io.text_bytes`.
    """
    bounds.check_regular(path)
    data = read_text(path)
    end = b"\n" if b"\n" in data else b"\r"
    for number, line in enumerate(data.split(end), 1):
        try:
            yield number, line.removesuffix(b"\r").decode()
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{path}, line {number}: expected UTF-8 text, got byte 0x{line[error.start]:02x}: "
                "save the file as UTF-8"
            ) from None


def read_json_lines(path: Path) -> Iterator[tuple[str, dict]]:
    """Yield (file and line, object) of JSON lines except blank ones; a ValueError for others."""
    for number, line in read_numbered_lines(path):
        if line.strip():
            location = f"{path}, line {number}"
            what = js.LINE.what
            values = js.parse(line, js.LINE, location, what, any_number=True)
            yield location, values


def read_rows(path: Path) -> list[tuple[str, list[str]]]:
    """Return (file and line, cells) of columns between commas (.csv, with quotes) or tabs.

    Blank lines are left out. Cells of a table between tabs keep their quotes, as GLUE's have them,
    unless they are quoted as pandas and Excel write them (see `quoted_tables`). A ValueError names
    what is not UTF-8, or another separator.
    """
    lines = list(read_numbered_lines(path))
    is_csv = is_comma_separated(path)
    numbered = _read_csv(path, lines) if is_csv else read_tab_separated(lines, path)

    rows = []
    for number, cells in numbered:
        stripped = [cell.strip() for cell in cells]
        rows.append((f"{path}, line {number}", stripped))
    if rows:
        _check_separator(rows, is_csv)
    return rows


def _check_separator(rows: Sequence[Row], is_csv: bool) -> None:
    """Raise a ValueError for rows that other separators divide."""
    location = rows[0][0]
    is_table = is_csv and len(rows) > 1
    lines = (",".join(cells) for _, cells in rows)
    if is_table and all(_DECIMAL_COMMA.search(line) for line in lines):
        raise ValueError(
            f"{location}: the columns seem to be separated by semicolons, with commas in the "
            "numbers. Save them between commas, with points in the numbers"
        )
    hint = _hint_of_separator(rows)
    if hint:
        between = "commas" if is_csv else "tabs"
        raise ValueError(f"{location}: expected columns between {between}, got 1 column: {hint}")


def is_comma_separated(path: Path) -> bool:
    """Return whether a table's name says .csv, also of a compressed one."""
    return drop_ending(path).suffix.lower() == ".csv"


def has_json_lines(path: Path) -> bool:
    """Return whether a file's name says JSON lines, also of a compressed one."""
    return drop_ending(path).suffix.lower() in (".json", ".jsonl", ".ndjson")


def _read_csv(path: Path, lines: Sequence[NumberedLine]) -> Iterator[tuple[int, list[str]]]:
    """Yield (number of the first line, cells) of CSV: a quoted text may have several lines."""
    texts = [line for _, line in lines]
    try:
        yield from parse_csv(texts, ",")
    except CsvError as error:
        message = f"{path}, line {error.line}: expected a row of CSV: {error}"
        hint = ""
        if "," not in texts[0]:
            hint = _hint_of_separator([("", texts[:1])])
        if hint:
            message += f": {hint}"
        raise ValueError(message) from None


def _hint_of_separator(rows: Sequence[tuple[str, Sequence[str]]]) -> str:
    """Name another separator that every line has, if the first one has one cell; else ""."""
    if len(rows[0][1]) != 1:
        return ""
    lines = [" ".join(cells) for _, cells in rows]
    separators = {"\t": "tabs", ";": "semicolons", "|": "'|'", ",": "commas"}
    for separator, name in separators.items():
        if all(separator in line for line in lines):
            return (
                f"the columns seem to be separated by {name}. Save them between commas as .csv, "
                "or between tabs as .tsv"
            )
    return ""
