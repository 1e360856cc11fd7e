"""`kbert …` in this process: as the console script runs it, without starting another Python."""

import csv
import io
import json
from typing import NamedTuple

from kbert.cli.main import main


class Done(NamedTuple):
    """What a command left behind."""

    status: int
    out: str
    err: str


def kbert(capsys, *arguments) -> Done:
    """Runs a command line; `capsys` is pytest's fixture."""
    capsys.readouterr()
    status = 0
    try:
        main([str(argument) for argument in arguments])
    except SystemExit as exit_:
        status = exit_.code or 0
    out, err = capsys.readouterr()
    return Done(status, out, err)


def read_table(out: str, form: str) -> list[list]:
    """The cells of a printed table, without its header; `form` is "tsv", "json" or "markdown"."""
    if form == "json":
        rows = json.loads(out)
        return [list(row.values()) for row in (rows if isinstance(rows, list) else rows["rows"])]
    if form == "tsv":
        return list(csv.reader(io.StringIO(out), delimiter="\t"))[1:]
    _, rule, *lines = [line for line in out.splitlines() if line.startswith("|")]
    assert set(rule) <= set("|-: ")
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
