"""Why messages come, and what to do where they do not say so themselves: causes.tsv, read.

Told by kinds of messages, so that a message that is new is explained too: the first line whose
pattern is found in "module: message" says its cause, so lines that say more stand above. Without
the last column the message says what it wants, and that is to be given. A test wants a cause for
each message, and a message for each line.
"""

import csv
from pathlib import Path
from typing import NamedTuple


class Kind(NamedTuple):
    """Messages with `pattern`, as `re` has it, in "module: message"; why they come; what to do."""

    pattern: str
    why: str
    do: str


def _read(path: Path) -> tuple[Kind, ...]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        next(rows)
        return tuple(Kind(*row) for row in rows if not row[0].startswith("# "))


KINDS = _read(Path(__file__).with_suffix(".tsv"))
