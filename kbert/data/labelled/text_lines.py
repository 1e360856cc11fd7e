"""Numbered lines of a text file: JSON lines, and the cells of a table's lines."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from kbert.io import bounds
from kbert.io import json_schema as js

Row = tuple[str, Sequence[str]]  # file and line, cells


def read_numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (number from 1 on, line without its end), also an empty one after a final line end.

    Lines end with LF or CR LF, or with CR as on old Macs if the file has no LF.
    """
    bounds.check_regular(path)
    data = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
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
            yield location, js.parse(line, js.LINE, location, js.LINE.what, any_number=True)


def read_rows(path: Path) -> list[tuple[str, list[str]]]:
    """Return (file and line, cells) of columns between commas (.csv, with quotes) or tabs.

    Blank lines are left out. A ValueError names what is not UTF-8, or another separator.
    """
    if is_csv := path.suffix.lower() == ".csv":
        lines = _read_csv(path)
    else:
        lines = ((n, line.split("\t")) for n, line in read_numbered_lines(path) if line.strip())
    rows = [(f"{path}, line {n}", [cell.strip() for cell in cells]) for n, cells in lines]
    if rows and (hint := _hint_of_separator(rows)):
        between = "commas" if is_csv else "tabs"
        raise ValueError(f"{rows[0][0]}: expected columns between {between}, got 1 column: {hint}")
    return rows


def _read_csv(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield (number of the first line, cells) of CSV: a quoted text may have several lines."""
    csv.field_size_limit(2**31 - 1)  # characters; 131,072 else, which a long text has
    lines = [line for _, line in read_numbered_lines(path)]
    records = csv.reader((f"{line}\n" for line in lines), strict=True)
    number = 1
    while True:
        try:
            cells = next(records, None)
        except csv.Error as error:
            hint = "" if "," in lines[0] else _hint_of_separator([("", lines[:1])])
            raise ValueError(
                f"{path}, line {number}: expected a row of CSV: {error}" + (hint and f": {hint}")
            ) from None
        if cells is None:
            return
        if len(cells) > 1 or any(map(str.strip, cells)):
            yield number, cells
        number = records.line_num + 1


def _hint_of_separator(rows: Sequence[tuple[str, Sequence[str]]]) -> str:
    """Name another separator that every line has, if the first one has one cell; else ""."""
    if len(rows[0][1]) != 1:
        return ""
    lines = [" ".join(cells) for _, cells in rows]
    for separator, name in (("\t", "tabs"), (";", "semicolons"), ("|", "'|'"), (",", "commas")):
        if all(separator in line for line in lines):
            return (
                f"the columns seem to be separated by {name}. Save them between commas as .csv, "
                "or between tabs as .tsv"
            )
    return ""
