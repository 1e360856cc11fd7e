"""Open checkpoints in a process of its own, as `kbert.load` does but for the graph.

The process takes their paths on stdin.

A line of JSON a path: what came of it, the seconds it took and the process's peak memory in MiB.
Its memory is limited to 3 GiB more than it has after its start.
"""

import contextlib
import hashlib
import importlib
import json
import os
import resource
import select
import subprocess
import sys
import time
from pathlib import Path

LIMIT = 3 * 2**30
SECONDS, MIB = 60, 2048


class Worker:
    """A process that opens checkpoints; started anew where one made it die or wait."""

    def __init__(self, config: dict, first: Path):
        self.command = [sys.executable, __file__, json.dumps(config), str(first)]
        self.process = None

    def start(self) -> None:
        self.close()
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.peak = self.answer(300)["peak"]

    def ask(self, path: Path, seconds: float = SECONDS) -> dict:
        if self.process is None:
            self.start()
        self.process.stdin.write(f"{path}\n".encode())
        self.process.stdin.flush()
        answer = self.answer(seconds)
        if answer["kind"] in ("over time", "died"):
            self.close()
        elif answer["peak"] > self.peak + MIB:
            answer["kind"] = "over 2 GB"
            self.close()
        return answer

    def answer(self, seconds: float) -> dict:
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        line = self.process.stdout.readline() if ready else b""
        return json.loads(line) if line else {"kind": "died" if ready else "over time"}

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
        self.process = None


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    config = json.loads(sys.argv[1])
    open_one(Path(sys.argv[2]), config)  # imports everything but what only some formats need
    for name in ("torch", "tensorflow"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    status = Path("/proc/self/status").read_text()
    held = int(status.split("VmData:")[1].split()[0]) * 1024
    resource.setrlimit(resource.RLIMIT_DATA, (held + LIMIT, held + LIMIT))
    print(json.dumps({"peak": peak_memory() // 1024}), file=answers, flush=True)
    for line in sys.stdin:
        start = time.monotonic()
        answer = try_to_open(Path(line.strip()), config)
        answer |= {"seconds": time.monotonic() - start, "peak": peak_memory() // 1024}
        print(json.dumps(answer), file=answers, flush=True)


def peak_memory() -> int:
    """Return the peak memory of this process alone, in KiB.

    On Linux a child's ru_maxrss begins with its parent's peak; VmHWM does not.
    """
    status = Path("/proc/self/status")
    text = status.read_text() if status.exists() else ""
    if "VmHWM:" in text:
        return int(text.split("VmHWM:")[1].split()[0])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def try_to_open(path: Path, config: dict) -> dict:
    try:
        return {"kind": "opened", "digest": open_one(path, config)}
    except (ValueError, OSError) as error:
        text = str(error)
        named = isinstance(error, OSError) or str(path.parent) in text
        return {"kind": "refused" if "\n" not in text and named else "unclear", "said": text}
    except BaseException as error:
        return {"kind": "other", "said": f"{type(error).__name__}: {error}"}


def open_one(path: Path, config: dict) -> str:
    """A digest of all that was read; a ValueError for what does not fit."""
    import kbert
    from kbert.checkpoints import fitting, formats, transfer
    from kbert.checkpoints.inspection import inspect, inspection_text
    from kbert.data.tokenization.tokenizer import Tokenizer

    if path.suffix == ".txt":
        return " ".join(Tokenizer.load(path, lowercase=True).tokens)
    needed = kbert.BertConfig(**config) if path.suffix == ".h5" else None
    inspection_text(inspect(path, config=needed), every_tensor=True)
    digest = hashlib.sha256()
    with formats.open_checkpoint(path, needed) as checkpoint:
        fit = fitting.fit(checkpoint, checkpoint.spec)
        fit.check(str(path))
        if checkpoint.vocabulary is not None:
            words = Tokenizer.load(checkpoint.vocabulary, **checkpoint.rules)
            digest.update(" ".join(words.tokens).encode())
        digest.update(json.dumps(checkpoint.spec.config.to_dict()).encode())
        for entry in fit.entries:
            if entry.name in fit.tensors:
                array = transfer.read_array(fit.tensors[entry.name], entry, [])
                digest.update(entry.name.encode() + array.tobytes())
    return digest.hexdigest()


if __name__ == "__main__":
    main()
