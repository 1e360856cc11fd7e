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

    Lines after `step`, which a killed run left, are cut, and a line that is not whole.
    """

    def __init__(self, path: str | os.PathLike, step: int = 0):
        self._path = Path(path)
        lines = [line for line in read_records(path) if line["step"] <= step]
        write_atomically(path, b"".join(map(_encode, lines)))
        self._file = self._path.open("ab", buffering=0)

    def add(self, step: int, values: dict[str, float]) -> None:
        """Add a line; raise an OSError that names the file where the disk is full."""
        data = _encode({"step": step} | values)
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
    """Return the lines of a metrics.jsonl, up to the first that is not whole; null is NaN."""
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


def as_json(value):
    """Convert a value to what JSON returns: tuples to lists, keys to text, NaN to null."""
    return json.loads(json.dumps(value), parse_constant=lambda name: None)


def _encode(line: dict) -> bytes:
    return json.dumps(as_json(line)).encode() + b"\n"
