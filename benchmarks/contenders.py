"""Contenders in processes of their own, which stay alive and take turns: A B A B …

What else the machine does, and how warm it is, then meets all of them alike. A contender that
waits holds its memory and no core.
"""

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import packages

TORCH = {"KERAS_BACKEND": "torch"}
TENSORFLOW = {"KERAS_BACKEND": "tensorflow"}  # the environment of a contender
_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "true"}
# torch.compile else takes what an earlier process compiled; XLA compiles in each
_COMPILED_ANEW = {"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}


@dataclass(frozen=True)
class Contender:
    """One library's way to do a work.

    Attributes:
        name: as the table says it.
        make: "module:function" of this package; the function takes `options` and returns a
            function of a count that does the work so many times and returns when it is done.
        options: what `make` is called with.
        needs: packages to be installed, and files or folders to be there: a `Path` each.
        environment: variables of its process, such as KERAS_BACKEND.
        computes: what it does that the others do not, or the reverse; "" where nothing.
        fresh: whether every turn is a process of its own, which does the work once: its seconds
            are those of the whole process, "first" those of the work.
    """

    name: str
    make: str
    options: dict = field(default_factory=dict)
    needs: tuple[str | Path, ...] = ()
    environment: dict = field(default_factory=dict)
    computes: str = ""
    fresh: bool = False

    def missing(self) -> list[str]:
        """The packages and files that it needs and the machine has not."""
        return [str(name) for name in self.needs if not _is_there(name)]

    def hidden(self) -> dict[str, list[str]]:
        """What its process does not see of what is installed: see `benchmarks.packages`."""
        modules = {name for name in self.needs if isinstance(name, str)}
        backend = self.environment.get("KERAS_BACKEND", "" if modules else "tensorflow")
        return packages.hidden(frozenset(modules | {backend}))

    def start(self) -> "Process | Fresh":
        return (Fresh if self.fresh else Process)(self)


def _environment() -> dict[str, str]:
    """Ours, with what Python compiled kept, for whichever library: as a user's Python has it."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _is_there(name: str | Path) -> bool:
    return name.exists() if isinstance(name, Path) else importlib.util.find_spec(name) is not None


class Failed(Exception):
    """A contender's process ended; the last line of what it said."""


class Process:
    """A contender that runs; made by its start, gone at the end of a `with`."""

    def __init__(self, contender: Contender):
        self.contender = contender
        self._errors = os.memfd_create("errors")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.child", contender.make],
            env=_environment()
            | _QUIET
            | _COMPILED_ANEW
            | contender.environment
            | {packages.HIDDEN: json.dumps(contender.hidden())},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_) -> None:
        self._process.kill()
        with contextlib.suppress(BrokenPipeError), self._process:
            pass  # closes its streams
        os.close(self._errors)

    def ask(self, **what) -> dict:
        """What the process answers to a line of JSON: see `benchmarks.child`.

        Raises:
            Failed: it ended instead.
        """
        try:
            self._process.stdin.write(json.dumps(what) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self._process.wait()
            os.lseek(self._errors, 0, os.SEEK_SET)
            said = os.read(self._errors, 1 << 20).decode(errors="replace").strip().splitlines()
            raise Failed(said[-1] if said else f"exit status {self._process.returncode}")
        return json.loads(line)


class Fresh:
    """A contender each of whose turns is a process of its own; as `Process`."""

    def __init__(self, contender: Contender):
        self.contender = contender
        contender.hidden()  # found now: its turns are measured

    def __enter__(self) -> "Fresh":
        return self

    def __exit__(self, *_) -> None:
        pass  # each process is gone when it has answered

    def ask(self, **what) -> dict:
        """A process from its start to the end of its first work; its seconds are of all of it.

        Raises:
            Failed: it ended instead.
        """
        start = time.perf_counter()
        with Process(self.contender) as process:
            found = process.ask(options=self.contender.options)
            return found | {"seconds": time.perf_counter() - start}
