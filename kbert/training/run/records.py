"""metrics.jsonl: a JSON object a line for each step that is recorded, in order, each once."""

import json
import math
import os
from pathlib import Path

from kbert.io import json_schema as js
from kbert.io.atomic_write import write_atomically

_NUMBERS = js.mapping_of(js.or_null(js.number(-math.inf, math.inf)))
_STEP = js.fields({"step": js.whole(0, 2**62)})


class RecordFile:
    """The lines of one run, on the disk as soon as they are added.

    Args:
        path: the file; made where it is not there.
        step: steps done so far. Later lines, which a killed run left, are cut, and a line that
            is not whole.
    """

    def __init__(self, path: str | os.PathLike, step: int = 0):
        self._path = Path(path)
        lines = [line for line in read_records(path) if line["step"] <= step]
        write_atomically(path, "".join(map(_text, lines)).encode())
        self._file = self._path.open("ab", buffering=0)

    def add(self, step: int, values: dict[str, float]) -> None:
        """Add a line; raise an OSError that names the file where the disk is full."""
        data = _text({"step": step} | values).encode()
        try:
            written = self._file.write(data)
            if written < len(data):  # the disk filled up within the line
                self._file.write(data[written:])
        except OSError as error:
            raise type(error)(error.errno, error.strerror, str(self._path)) from None

    def flush(self) -> None:
        """To the disk itself."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_records(path: str | os.PathLike) -> list[dict]:
    """Return the lines of a metrics.jsonl, up to the first that is not whole.

    None where it is not there.

    A number that JSON has no word for stands as null, and is read as NaN.
    """
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return []
    lines = []
    for line in text.splitlines(keepends=True):
        try:
            values = js.check(js.parse(line, _NUMBERS, str(path)), _STEP, str(path))
        except ValueError:
            break
        if not line.endswith("\n"):
            break
        lines.append({key: math.nan if value is None else value for key, value in values.items()})
    return lines


def _text(line: dict) -> str:
    line = {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in line.items()
    }
    return json.dumps(line) + "\n"
