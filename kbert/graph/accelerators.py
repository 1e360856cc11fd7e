"""Accelerators: memory and peak of one chip, and the slices that a TPU comes in.

The table is accelerators.tsv, from the vendors' datasheets, of one chip: GiB, TFLOP/s for dense
products of bfloat16 (V100, T4: float16) that are summed in float32, GB/s of the memory, and the
clock of a TPU. Datasheets say twice as much with sparsity, or with sums in float16 on a GeForce.
"""

import math
import os
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
    result = {}
    for row in read_package_table("kbert.graph", "accelerators.tsv"):
        name, kind, gib, tflops, bandwidth, clock, bfloat16, slices, source = row
        result[name] = Accelerator(
            name=name,
            kind=kind,
            memory=int(gib) * 2**30,
            peak_flops=float(tflops) * 1e12,
            bandwidth=float(bandwidth) * 1e9,
            clock=float(clock) * 1e9 if clock else None,
            has_bfloat16=bfloat16 == "yes",
            slices=tuple(slices.split()),
            source=source,
        )
    return result


def tpu(name: str) -> Devices:
    """Return a slice by its name, "v5e:4x4"; a ValueError for an unknown one names the nearest."""
    kind, _, shape = name.partition(":")
    chip = _find(kind, "TPU")
    if shape not in chip.slices:
        known_names = [f"{kind}:{known}" for known in chip.slices]
        near = hint(name, known_names, "there are")
        raise ValueError(f"tpu must be a slice that there is, got {name!r}: {near}")
    sides = [int(side) for side in shape.split("x")]
    chips = math.prod(sides)
    return Devices(name, chip, chips)


def gpu(name: str, own: bool = False) -> Devices:
    """Return GPUs by their name and number: "H100:8", "NVIDIA GeForce RTX 4090".

    With `own` a GPU that is not in the table is accepted, without memory and peak. Else a
    ValueError names a close one.
    """
    kind, colon, count = name.partition(":")
    chip = _gpus_by_plain_names().get(_plain(kind))
    if chip is None and own:
        chip = Accelerator(kind, "GPU", 0, 0, None, None, True, (), "")
    if chip is None:
        chip = _find(kind, "GPU")

    if colon and not (count.isdecimal() and int(count)):
        raise ValueError(f"gpu must be a name and how many there are, H100:8, got {name!r}")
    return Devices(name, chip, int(count or 1))


def find_memory(device: str) -> int | None:
    """Return the bytes of a device's memory by the name that its driver gives; None: unknown.

    "CPU" has the machine's memory.
    """
    if device == "CPU" and hasattr(os, "sysconf"):  # Windows has none
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    plain = _plain(device)
    known = _gpus_by_plain_names()
    names = [name for name in known if name in plain]
    return known[max(names, key=len)].memory if names else None


def _gpus_by_plain_names() -> dict[str, Accelerator]:
    """Return the GPUs by the names that users give them, with and without their memory."""
    chips = [chip for chip in accelerators().values() if chip.kind == "GPU"]
    gpus = {_plain(chip.name): chip for chip in chips}
    with_memory = {f"{name}{chip.memory // 2**30}gb": chip for name, chip in gpus.items()}
    return gpus | with_memory


def _plain(name: str) -> str:
    return re.sub(r"nvidia|geforce|tesla|rtx|sxm\d|pcie|[\s_-]", "", name.lower())


def _find(name: str, kind: str) -> Accelerator:
    names = [chip.name for chip in accelerators().values() if chip.kind == kind]
    if name in names:
        return accelerators()[name]
    way = "for any other GPU give --peak-flops and --memory, in Python peak_flops= and memory="
    also = f" ({way})" if kind == "GPU" else ""
    raise ValueError(
        f"{kind.lower()} must be a {kind} that is known, got {name!r}: "
        f"{hint(name, names, 'there are')}{also}"
    )
