"""Where and when a record was taken: commit, versions, processor, threads, memory."""

import contextlib
import datetime
import importlib.metadata
import mmap
import os
import platform
import subprocess
from pathlib import Path

_PACKAGES = [
    "keras",
    "keras-nightly",
    "tensorflow",
    "jax",
    "jaxlib",
    "jax-cuda12-plugin",
    "torch",
    "triton",
    "numpy",
    "keras-hub",
    "sentence-transformers",
    "transformers",
    "tf-keras",
    "keras-bert",
]


def described() -> dict:
    """What a record says of the machine."""
    return {
        "date": datetime.date.today().isoformat(),
        "commit": _said_by("git", "rev-parse", "--short", "HEAD"),
        "changed": bool(_said_by("git", "status", "--porcelain", "--", "kbert", "benchmarks/*.py")),
        "processor": _processor(),
        "threads": len(os.sched_getaffinity(0)),
        "memory_mib": _memory("MemTotal"),
        "python": platform.python_version(),
        "versions": {name: found for name in _PACKAGES if (found := _version(name))},
    }


def brand(processor: str) -> str:
    """What records.jsonl calls a processor that `described` has."""
    name, *about = processor.split(", ")
    known = [short for short in ("EPYC", "Xeon") if short in name]
    # Every Xeon is of family 6; an EPYC's says which Zen it is.
    return ", ".join([*(known or [name]), *(x for x in about if x not in ("family 6", "family ?"))])


def free_memory() -> int:
    """MiB that new processes can take."""
    return _memory("MemAvailable")


def bring_memory(mib: int) -> None:
    """Asks for memory and gives it back, so that what is asked for next need not be brought first.

    A virtual machine's host takes what was free for some seconds, and brings a page again at the
    first write to it: 2.3 ms a MiB where kbert was measured, five times as long as reading a file.
    Who had to wait for it would depend on who came before.
    """
    if not hasattr(mmap, "MADV_HUGEPAGE"):  # Linux alone
        return
    memory = mmap.mmap(-1, mib << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):
        memory.madvise(mmap.MADV_HUGEPAGE)
    for start in range(0, len(memory), mmap.PAGESIZE):
        memory[start] = 1
    memory.close()
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the peak of memory is that of now


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _said_by(*command: str) -> str:
    place = Path(__file__).parents[1]  # from wherever the command was given
    try:
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    except FileNotFoundError:  # a machine without git
        return ""
    return done.stdout.strip()


def _processor() -> str:
    """Its name, its family, and whether it has AMX, or no AVX-512: what ratios differ by."""
    lines = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
    found = {name.strip(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
    if "model name" not in found:
        return platform.processor()
    flags = found.get("flags", "").split()
    kind = ""
    if "amx_tile" in flags:
        kind = ", AMX"
    elif "avx512f" not in flags:  # Zen 3 and Zen 4 are of one family
        kind = ", AVX2"
    return f"{found['model name']}, family {found.get('cpu family', '?')}{kind}"


def _memory(name: str) -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) // 1024
    raise RuntimeError(f"/proc/meminfo has no {name}")
