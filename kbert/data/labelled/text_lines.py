"""Numbered lines of a text file, and the cells of a table's lines."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from kbert.io import bounds
from kbert.io import json_schema as js


def read_numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (number from 1 on, line without its end); an empty one after a last end of line.

    Lines end with LF or CR LF; with CR alone, as on old Macs, where the file has no LF.

    Raises:
        OSError: it cannot be read.
        ValueError: a line that is not UTF-8.
    """
    bounds.check_regular(path)
    content = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
    end = b"\n" if b"\n" in content else b"\r"
    for number, line in enumerate(content.split(end), 1):
        try:
            yield number, line.removesuffix(b"\r").decode()
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{path}, line {number}: expected UTF-8 text, got byte 0x{line[error.start]:02x}: "
                "save the file as UTF-8"
            ) from None


def read_json_lines(path: Path) -> Iterator[tuple[int, dict]]:
    """Yield (line number, object) of JSON lines; blank lines are left out.

    Raises:
        OSError: it cannot be read.
        ValueError: a line that is not UTF-8 or no JSON object.
    """
    for number, line in read_numbered_lines(path):
        if not line.strip():
            continue
        yield number, js.parse(line, js.OBJECT, f"{path}, line {number}", any_number=True)


def read_tsv(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield (line number, cells) of lines of cells between tabs; blank ones are left out."""
    for number, line in read_numbered_lines(path):
        if line.strip():
            yield number, line.split("\t")


def read_csv(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield rows with the number of their first line: a quoted text may have several."""
    lines = [line for _, line in read_numbered_lines(path)]
    rows = csv.reader((f"{line}\n" for line in lines), strict=True)
    number = 1
    while True:
        try:
            cells = next(rows, None)
        except csv.Error as error:
            hint = "" if "," in lines[0] else hint_of_separator([("", lines[:1])])
            raise ValueError(
                f"{path}, line {number}: expected a row of CSV: {error}" + (hint and f": {hint}")
            ) from None
        if cells is None:
            return
        if len(cells) > 1 or any(map(str.strip, cells)):
            yield number, cells
        number = rows.line_num + 1


def hint_of_separator(rows: Sequence[tuple[str, Sequence[str]]]) -> str:
    """Name another separator that every line has; "" where there is none.

    The first line has one cell; texts below it may have the file's own separator.
    """
    if len(rows[0][1]) != 1:
        return ""
    lines = [" ".join(row) for _, row in rows]
    for mark, name in (("\t", "tabs"), (";", "semicolons"), ("|", "'|'"), (",", "commas")):
        if all(mark in line for line in lines):
            return (
                f"the columns seem to be separated by {name}. Save them between commas as .csv, "
                "or between tabs as .tsv"
            )
    return ""
