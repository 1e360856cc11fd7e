"""Accelerators: memory and peak of one chip, and the slices that a TPU comes in.

The table is accelerators.tsv, from the vendors' datasheets, of one chip: GiB, TFLOP/s for dense
products of bfloat16 (V100, T4: float16) that are summed in float32, GB/s of the memory, and the
clock of a TPU. Datasheets say twice as much with sparsity, or with sums in float16 on a GeForce.
"""

import math
import re
from dataclasses import dataclass
from functools import cache

from kbert.io.row_formats import read_package_table
from kbert.io.wording import hint

# Defaults of `kbert plan`: here, so that its help imports no accounting.
PAPER_STEPS = 1_000_000  # of 256 sequences (the paper, appendix A.2)
UTILIZATION = 0.4  # of the peak
PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")


@dataclass(frozen=True)
class Accelerator:
    """An accelerator in kbert's table, "TPU" or "GPU".

    Attributes:
        name: its name, such as "v5e".
        kind: "TPU" or "GPU".
        memory: bytes of a chip.
        peak_flops: peak FLOP/s of a chip.
        bandwidth: bytes per second between a chip and its memory; None: unknown.
        clock: cycles per second, derived from the peak: v5e has 4 arrays of 128 × 128
            multiply-adds, v4 and v5p 8, v6e 4 of 256 × 256; None: unknown.
        has_bfloat16: whether it multiplies bfloat16.
        slices: slices of a TPU, such as "4x4".
        source: where the numbers are from.
    """

    name: str
    kind: str
    memory: int
    peak_flops: float
    bandwidth: float | None
    clock: float | None
    has_bfloat16: bool
    slices: tuple[str, ...]
    source: str

    def computes(self, precision: str) -> bool:
        """Return whether it has matrix products in that policy's dtype."""
        return self.has_bfloat16 or precision != "mixed_bfloat16"


@dataclass(frozen=True)
class Devices:
    """Number of chips of one accelerator, as a user names them: "v5e:4x4", "H100:8".

    Attributes:
        name: as the user wrote it.
        accelerator: which one.
        chips: their number.
    """

    name: str
    accelerator: Accelerator
    chips: int


@cache
def accelerators() -> dict[str, Accelerator]:
    """Return all accelerators by name."""
    return {
        name: Accelerator(
            name,
            kind,
            int(gib) * 2**30,
            float(tflops) * 1e12,
            float(bandwidth) * 1e9,
            float(clock) * 1e9 if clock else None,
            bfloat16 == "yes",
            tuple(slices.split()),
            source,
        )
        for name, kind, gib, tflops, bandwidth, clock, bfloat16, slices, source in (
            read_package_table("kbert.graph", "accelerators.tsv")
        )
    }


def tpu(name: str) -> Devices:
    """Return a slice by its name, "v5e:4x4"; a ValueError for an unknown one names the nearest."""
    kind, _, shape = name.partition(":")
    chip = _find(kind, "TPU")
    if shape not in chip.slices:
        near = hint(name, [f"{kind}:{known}" for known in chip.slices], "there are")
        raise ValueError(f"tpu must be a slice that there is, got {name!r}: {near}")
    return Devices(name, chip, math.prod(map(int, shape.split("x"))))


def gpu(name: str, own: bool = False) -> Devices:
    """Return GPUs by their name and number: "H100:8", "NVIDIA GeForce RTX 4090".

    With `own` a GPU that is not in the table is accepted, without memory and peak. Else a
    ValueError names a close one.
    """
    kind, colon, count = name.partition(":")
    names = {_plain(one.name): one for one in accelerators().values() if one.kind == "GPU"}
    names |= {f"{plain}{one.memory // 2**30}gb": one for plain, one in names.items()}
    chip = names.get(_plain(kind))
    if chip is None and own:
        chip = Accelerator(kind, "GPU", 0, 0, None, None, True, (), "")
    chip = chip or _find(kind, "GPU")
    if colon and not (count.isdecimal() and int(count)):
        raise ValueError(f"gpu must be a name and how many there are, H100:8, got {name!r}")
    return Devices(name, chip, int(count or 1))


def _plain(name: str) -> str:
    return re.sub(r"nvidia|geforce|tesla|rtx|[\s_-]", "", name.lower())


def _find(name: str, kind: str) -> Accelerator:
    names = [one.name for one in accelerators().values() if one.kind == kind]
    if name not in names:
        way = "for any other GPU give --peak-flops and --memory, in Python peak_flops= and memory="
        also = f" ({way})" if kind == "GPU" else ""
        raise ValueError(
            f"{kind.lower()} must be a {kind} that is known, got {name!r}: "
            f"{hint(name, names, 'there are')}{also}"
        )
    return accelerators()[name]
