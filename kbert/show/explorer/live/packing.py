"""Weights as bytes that the page decodes: one tensor after the other, see page/live/weights.js."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

FORMATS = ("int8", "float16", "float32")
GROUP = 32  # numbers of a row that share a scale
_ALIGNMENT = 4  # bytes
_LARGEST = 127
_LARGEST_HALF = float(np.finfo("float16").max)


@dataclass(frozen=True)
class PackedWeights:
    """Weights as bytes.

    Attributes:
        layout: the name, shape and format of each tensor, in order.
        data: their bytes.
    """

    layout: tuple[tuple[str, tuple[int, ...], str], ...]
    data: bytes


def pack_weights(tensors: Iterable[tuple[str, np.ndarray]], precision: str) -> PackedWeights:
    """Pack tensors by name; matrices in the precision, vectors and short tables as float32."""
    layout, chunks = [], []
    for name, array in tensors:
        array = np.ascontiguousarray(array, "float32")
        form = precision if array.ndim == 2 and len(array) > 2 else "float32"
        layout.append((name, array.shape, form))
        chunks += _encode(array, form)
    return PackedWeights(tuple(layout), b"".join(chunks))


def _encode(array: np.ndarray, form: str) -> list[bytes]:
    if form == "float32":
        return [array.astype("<f4").tobytes()]
    if form == "float16":
        largest = float(np.abs(array).max())
        if largest > _LARGEST_HALF:
            raise ValueError(
                f"float16 weights must be at most {_LARGEST_HALF:,.0f}, got {largest:,.0f}: choose "
                "weights='float32' (--weights float32)"
            )
        halves = array.astype("<f2")
        return [_pad(halves.tobytes())]

    scales, numbers = quantize(array)
    scales = scales.astype("<f2")
    return [_pad(scales.tobytes()), _pad(numbers.tobytes())]


def unpack_weights(packed: PackedWeights) -> dict[str, np.ndarray]:
    """Return weights by name in float32, as the page decodes them."""
    arrays = {}
    start = 0

    def take(dtype: str, count: int) -> np.ndarray:
        nonlocal start
        numbers = np.frombuffer(packed.data, dtype, count, start)
        start += numbers.nbytes + -numbers.nbytes % _ALIGNMENT
        return numbers

    for name, shape, form in packed.layout:
        size = math.prod(shape)
        if form == "int8":
            height, columns = shape
            groups = math.ceil(columns / GROUP)
            halves = take("<f2", height * groups)
            scales = halves.astype("float32").reshape(height, groups)
            units = np.repeat(scales, GROUP, axis=1)
            numbers = take("i1", size).reshape(shape)
            arrays[name] = numbers * units[:, :columns]
        else:
            dtype = "<f4" if form == "float32" else "<f2"
            numbers = take(dtype, size)
            arrays[name] = numbers.astype("float32").reshape(shape)
    return arrays


def quantize(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return float16 scales (rows, groups) and int8 numbers (rows, columns) in units of these."""
    height, columns = array.shape
    missing = -columns % GROUP
    paddings = ((0, 0), (0, missing))
    padded = np.pad(array, paddings)
    groups = padded.reshape(height, -1, GROUP)

    largest = np.abs(groups).max(axis=2)
    scales = np.minimum(largest / _LARGEST, _LARGEST_HALF)
    scales = scales.astype("float16")
    units = scales.astype("float32")[:, :, None]

    quotients = np.zeros_like(groups)
    np.divide(groups, units, out=quotients, where=units > 0)
    rounded = np.rint(quotients)
    numbers = np.clip(rounded, -_LARGEST, _LARGEST)
    padded_numbers = numbers.astype("int8").reshape(height, -1)
    return scales, np.ascontiguousarray(padded_numbers[:, :columns])


def _pad(data: bytes) -> bytes:
    return data + bytes(-len(data) % _ALIGNMENT)
