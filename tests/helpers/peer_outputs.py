"""Outputs of peers: recorded in tests/files/peers, or computed once per test run.

A test calls `run_peer`. If tests/files/peers has a recording of the same call, its files are
copied and no peer is needed. Otherwise the function runs in a process of its own, and its outputs
are kept until the end of the run for the other processes. To record what tests ask for:

    KBERT_RECORD_PEERS=1 pytest -n 0 tests/on_each_backend

Remove the old recordings of a call that changed. tests/test_peer_recordings.py computes each
recording again with the installed peers.
"""

import atexit
import functools
import hashlib
import importlib
import json
import os
import re
import shutil
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from helpers.forks import Forks
from helpers.sizes import FILES, HELPERS

FOLDER = "KBERT_TEST_PEERS"  # of the run: tests/conftest.py makes it and removes it
RECORD = "KBERT_RECORD_PEERS"
RECORDINGS = FILES / "peers"
EPOCH = (1980, 1, 1, 0, 0, 0)


def run_peer(function: str, out: Path, *arguments) -> None:
    """Write into `out` what a function of tests/helpers writes: "peer_bert:write_outputs".

    A call is known by the function, its arguments as JSON, and the files that are in `out` before.
    """
    call = [function, arguments, {str(path): digest_of(out / path) for path in files_in(out)}]
    key = hashlib.sha256(json.dumps(call).encode()).hexdigest()[:12]
    recording = RECORDINGS / f"{function.replace(':', '-')}-{key}.zip"
    recordable = not any(str(one).startswith("/") for one in arguments)  # else of this machine
    if os.environ.get(RECORD) and recordable:
        write_recording(recording, function, arguments, out)
    if recording.exists():
        same = json.loads(member(recording, "call.json"))["source"] == source_digest(function)
        assert same, f"{function} changed: record its outputs again ({RECORD}=1 pytest -n 0 ...)"
        extract(recording, "out", out)
        return
    cached = Path(os.environ[FOLDER]) / key
    if not cached.exists():
        part = Path(tempfile.mkdtemp(dir=cached.parent))
        shutil.copytree(out, part, dirs_exist_ok=True)
        compute(function, part, *arguments)
        if not cached.exists():  # else another process was faster
            part.rename(cached)
    shutil.copytree(cached, out, dirs_exist_ok=True)


def compute(function: str, out: Path, *arguments, **environment: str) -> None:
    """Call the function in a process. Skip the test if a package that it needs is not installed.

    The process is forked off one that has imported transformers, which takes 5 seconds.
    """
    with tempfile.NamedTemporaryFile("r", suffix=".txt") as file:
        forks, said = transformers_forks(), Path(file.name)
        given = "helpers.peer_outputs:call", function, str(out), *arguments
        status = forks.wait(forks.start(*given, out=said, env=environment))
        text = said.read_text(encoding="utf-8", errors="replace")
    missing = re.search(r"ModuleNotFoundError: No module named '(\w+)", text)
    if missing and missing[1] not in ("helpers", "kbert"):
        pytest.skip(f"{function} needs {missing[1]}, and no recording has its outputs")
    assert status == 0, text[-3000:]


@functools.cache
def transformers_forks() -> Forks:
    own = {"HF_HUB_OFFLINE": "1", "KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"}
    forks = Forks(os.environ | own, "transformers.models.bert.modeling_bert")
    atexit.register(forks.close)
    return forks


def call(function: str, out: str, *arguments) -> None:
    module, name = function.split(":")
    getattr(importlib.import_module(f"helpers.{module}"), name)(Path(out), *arguments)


def write_recording(recording: Path, function: str, arguments: tuple, given: Path) -> None:
    """Call the function; keep the call, the files that it was given, and those it wrote."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        shutil.copytree(given, out, dirs_exist_ok=True)
        compute(function, out, *arguments)
        facts = {"function": function, "arguments": arguments, "source": source_digest(function)}
        texts = {"call.json": json.dumps(facts, indent=1).encode()}
        texts |= {f"given/{path}": (given / path).read_bytes() for path in files_in(given)}
        texts |= {f"out/{path}": (out / path).read_bytes() for path in files_in(out)}
    part = recording.with_suffix(f".{os.getpid()}")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in texts.items():
            if f"given/{name.removeprefix('out/')}" not in texts:
                archive.writestr(zipfile.ZipInfo(name, EPOCH), content, zipfile.ZIP_DEFLATED, 9)
    part.replace(recording)


def extract(recording: Path, part: str, folder: Path) -> None:
    """Write the files of a recording's part, "given" or "out", into the folder."""
    with zipfile.ZipFile(recording) as archive:
        for name in archive.namelist():
            if name.startswith(f"{part}/"):
                path = folder / name.removeprefix(f"{part}/")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(archive.read(name))


def member(recording: Path, name: str) -> bytes:
    with zipfile.ZipFile(recording) as archive:
        return archive.read(name)


def files_in(folder: Path) -> list[Path]:
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


def digest_of(file: Path) -> str:
    """Return the SHA-256 of a file; of an .npz's arrays, whose bytes differ by NumPy's version."""
    digest = hashlib.sha256()
    if file.suffix == ".npz":
        with np.load(file) as arrays:
            for name in sorted(arrays.files):
                array = arrays[name]
                digest.update(f"{name} {array.dtype} {array.shape} ".encode() + array.tobytes())
    else:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def source_digest(function: str) -> str:
    """Return the SHA-256 of its module and the helpers that it imports, without white space."""
    sources: dict[str, str] = {}
    names = [function.split(":")[0]]
    for name in names:
        if name not in sources:
            source = (HELPERS / f"{name}.py").read_text(encoding="utf-8")
            sources[name] = "".join(source.split())
            names += re.findall(r"^\s*from helpers\.(\w+) import", source, re.MULTILINE)
    return hashlib.sha256(json.dumps(sources, sort_keys=True).encode()).hexdigest()
