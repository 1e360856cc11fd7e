"""Works for the benchmarks' tests: functions of options that return functions of a count."""

import importlib.metadata
import importlib.util
import subprocess
import sys
import time


def sleeper(seconds):
    time.sleep(seconds)
    return lambda count: time.sleep(seconds * count)


def looking(names):
    """Count for each module: 1 where it is found, 1 more where a package of that name is."""

    def is_packaged(name):
        try:
            return bool(importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            return False

    counts = {name: bool(importlib.util.find_spec(name)) + is_packaged(name) for name in names}
    return lambda count: counts


def starting(line):
    return lambda count: subprocess.run([sys.executable, *line], check=True)


def fitting(kind, size, length, batch, precision):
    """Have benchmarks/gpu.py find that 2 sequences fit and 3 do not; 5 fail in another way."""
    if batch in (3, 4, 5):
        says = "broken" if batch == 5 else "out of memory: 9 GiB"
        print(f"a page\n{says}", file=sys.stderr)
        sys.exit(1)
    return lambda count: time.sleep(0.01 * count) or {"device_memory": 7 * batch}
