"""Records of a run: metrics.jsonl, one JSON object per recorded step, and TensorBoard's scalars.

`tf.summary` needs the package tensorboard beside TensorFlow and is not there on JAX and torch. The
file is simple: records framed as TFRecord frames them, each an `Event` of TensorFlow's event.proto
with a `Summary` of summary.proto, of which the four fields used here are written by hand.
"""

import json
import math
import os
import struct
import time
from pathlib import Path

from kbert.io import json_schema as js
from kbert.io.atomic_write import write_atomically
from kbert.io.json_values import as_json

_NUMBER = js.number(-math.inf, math.inf)
_NUMBERS = js.mapping_of(js.or_null(_NUMBER))
_STEP = js.fields({"step": js.whole(0, 2**62)})


class RecordFile:
    """The lines of one run, on the disk once added; lines after `step` or not whole are cut."""

    def __init__(self, path: str | os.PathLike, step: int = 0):
        self._path = Path(path)
        lines = [line for line in read_records(path) if line["step"] <= step]
        encoded = [_encode(line) for line in lines]
        write_atomically(path, b"".join(encoded))
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
        os.fsync(self._file.fileno())

    def close(self) -> None:
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
            values = js.parse(line, _NUMBERS, str(path))
            values = js.check(values, _STEP, str(path))
        except ValueError:
            break
        if not line.endswith("\n"):
            break
        for key, value in values.items():
            if value is None:
                values[key] = math.nan
        lines.append(values)
    return lines


def _encode(line: dict) -> bytes:
    return json.dumps(as_json(line)).encode() + b"\n"


# CRC-32C (Castagnoli), reflected; TFRecord rotates it and adds a constant.
_TABLE = []
for _byte in range(256):
    for _ in range(8):
        _byte = (_byte >> 1) ^ (0x82F63B78 if _byte & 1 else 0)
    _TABLE.append(_byte)
_MASK_DELTA = 0xA282EAD8
_START = b"\x08\x01"  # SessionLog.status = START


class EventFile:
    """A TensorBoard file of one start of a run; it voids older files' steps after `step`."""

    def __init__(self, folder: str | os.PathLike, step: int = 0):
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        count = sum(1 for _ in folder.glob("events.out.tfevents.*"))
        now = int(time.time())
        name = f"events.out.tfevents.{now:010d}.kbert.{count:04d}"  # read in the order of names
        path = folder / name
        self._file = path.open("xb", buffering=0)
        self._write(_field(3, b"brain.Event:2"))
        self._write(_field(2, step + 1) + _field(7, _START))

    def add(self, step: int, values: dict[str, float]) -> None:
        summary = b""
        for tag, value in values.items():
            number = b"\x15" + struct.pack("<f", value)
            summary += _field(1, _field(1, tag.encode()) + number)
        self._write(_field(2, step) + _field(5, summary))

    def close(self) -> None:
        self._file.close()

    def _write(self, event: bytes) -> None:
        wall_time = struct.pack("<d", time.time())
        event = b"\x09" + wall_time + event
        length = struct.pack("<Q", len(event))
        header = length + _mask_checksum(length)
        self._file.write(header + event + _mask_checksum(event))


def _varint(number: int) -> bytes:
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*data, number])


def _field(number: int, value: int | bytes) -> bytes:
    """Return a field of a protocol buffer: a number, or bytes behind their length."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _mask_checksum(data: bytes) -> bytes:
    crc = 0xFFFFFFFF
    for byte in data:
        index = (crc ^ byte) & 0xFF
        crc = _TABLE[index] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    rotated = (crc >> 15 | crc << 17) & 0xFFFFFFFF
    return struct.pack("<I", (rotated + _MASK_DELTA) & 0xFFFFFFFF)
