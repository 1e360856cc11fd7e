"""The peak memory of this process alone."""

import resource
from pathlib import Path


def peak_memory() -> int:
    """In KiB. On Linux a child's ru_maxrss begins with its parent's peak; VmHWM does not."""
    status = Path("/proc/self/status")
    text = status.read_text() if status.exists() else ""
    if "VmHWM:" in text:
        return int(text.split("VmHWM:")[1].split()[0])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
