"""Scalars for TensorBoard, written without TensorFlow.

`tf.summary` needs the package tensorboard beside TensorFlow and is not there on JAX and torch. The
file is simple: records framed as TFRecord frames them, each an `Event` of TensorFlow's event.proto
with a `Summary` of summary.proto, of which the four fields used here are written by hand.
"""

import os
import struct
import time
from pathlib import Path

# CRC-32C (Castagnoli), reflected; TFRecord rotates it and adds a constant.
_TABLE = []
for _byte in range(256):
    for _ in range(8):
        _byte = (_byte >> 1) ^ (0x82F63B78 if _byte & 1 else 0)
    _TABLE.append(_byte)
_MASK_DELTA = 0xA282EAD8
_START = b"\x08\x01"  # SessionLog.status = START


class EventFile:
    """An event file of one start of a run, in TensorBoard's log folder.

    What older files there say of steps after `step` is void: TensorBoard drops it, so that a
    resumed run has no step twice.
    """

    def __init__(self, folder: str | os.PathLike, step: int = 0):
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        count = sum(1 for _ in folder.glob("events.out.tfevents.*"))
        now = int(time.time())
        name = f"events.out.tfevents.{now:010d}.kbert.{count:04d}"  # read in the order of names
        self._file = (folder / name).open("xb", buffering=0)
        self._write(_field(3, b"brain.Event:2"))
        self._write(_field(2, step + 1) + _field(7, _START))

    def add(self, step: int, values: dict[str, float]) -> None:
        """Add the values of one step, by their tags."""
        summary = b"".join(
            _field(1, _field(1, tag.encode()) + b"\x15" + struct.pack("<f", value))
            for tag, value in values.items()
        )
        self._write(_field(2, step) + _field(5, summary))

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, event: bytes) -> None:
        event = b"\x09" + struct.pack("<d", time.time()) + event
        length = struct.pack("<Q", len(event))
        self._file.write(length + _masked(length) + event + _masked(event))


def _varint(number: int) -> bytes:
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(parts) + bytes([number])


def _field(number: int, content: int | bytes) -> bytes:
    """Return a field of a protocol buffer: a number, or bytes behind their length."""
    if isinstance(content, int):
        return _varint(number << 3) + _varint(content)
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _masked(data: bytes) -> bytes:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    rotated = (crc >> 15 | crc << 17) & 0xFFFFFFFF
    return struct.pack("<I", (rotated + _MASK_DELTA) & 0xFFFFFFFF)
