"""Processes, forked off one that has imported the libraries: imports take seconds.

A test makes `Forks`; `python -m helpers.forks` is the process that forks.
"""

import contextlib
import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path


class Forks:
    """Starts functions in processes of their own, with these variables.

    Modules are imported first, where they are installed; without any, kbert's training.
    """

    def __init__(self, environment: dict[str, str], *libraries: str):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "helpers.forks", *libraries],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def start(self, function: str, *arguments, out: Path | None = None, env=()) -> int:
        """Return the number of a process that calls "module:function".

        Its stdout and stderr go to the file `out`.
        """
        out = str(out) if out else os.devnull
        return self._ask([function, arguments, out, dict(env)])

    def wait(self, number: int, seconds: float = 300) -> int:
        """Return the exit status of that process; one that takes longer is killed."""
        return self._ask([number, seconds])

    def run(self, function: str, *arguments, out: Path, env=()) -> str:
        """Return what a process printed that ended well."""
        status = self.wait(self.start(function, *arguments, out=out, env=env))
        assert status == 0, out.read_text()[-3000:]
        return out.read_text()

    def _ask(self, request: list) -> int:
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()


def import_libraries(names: list[str]) -> None:
    """Import these, or what training needs; no device is asked for: a fork finds no threads."""
    for name in names:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    if not names:
        import_training()
    gc.freeze()


def import_training() -> None:
    import keras

    import kbert.cli.main
    import kbert.tasks.finetuning.finetune
    import kbert.tasks.pretraining.pretrain
    import kbert.tasks.resume  # noqa: F401

    importlib.import_module(f"kbert.training.backends.{keras.backend.backend()}")


def call(function: str, arguments: list, out: str, env: dict) -> None:
    file = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.environ.update(env)
    module, name = function.split(":")
    getattr(importlib.import_module(module), name)(*arguments)


def wait(number: int, seconds: float) -> int:
    end = time.monotonic() + seconds
    while True:
        done, status = os.waitpid(number, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.kill(number, signal.SIGKILL)
        time.sleep(0.02)


def main() -> None:
    import_libraries(sys.argv[1:])
    for line in sys.stdin:
        request = json.loads(line)
        if len(request) == 2:
            print(wait(*request), flush=True)
            continue
        child = os.fork()
        if child == 0:
            call(*request)
            return
        print(child, flush=True)


if __name__ == "__main__":
    main()
