"""Outputs of peers: recorded in tests/files/peers, or computed once per test run.

A test calls `run_peer`. If tests/files/peers has a recording of the same call, its files are
copied and no peer is needed. Otherwise the script runs, and its outputs are kept until the end of
the run for the other processes. To record what tests ask for:

    KBERT_RECORD_PEERS=1 pytest -n 0 tests/on_each_backend

Remove the old recordings of a call that changed. tests/test_peer_recordings.py computes each
recording again with the installed peers.
"""

import atexit
import functools
import hashlib
import json
import os
import re
import runpy
import shutil
import sys
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
OUT = "{out}"  # stands for the output folder in recorded arguments
EPOCH = (1980, 1, 1, 0, 0, 0)


def run_peer(script: str, out: Path, *arguments: str | Path) -> None:
    """Write the outputs of tests/helpers/SCRIPT, called with these arguments, into `out`.

    A call is known by its script, its arguments, where the path of `out` stands for any folder,
    and the files that are in `out` before.
    """
    words = [str(argument).replace(str(out), OUT) for argument in arguments]
    call = [script, words, {str(path): digest_of(out / path) for path in files_in(out)}]
    key = hashlib.sha256(json.dumps(call).encode()).hexdigest()[:12]
    recording = RECORDINGS / f"{Path(script).stem}-{key}.zip"
    recordable = not any(Path(word).is_absolute() for word in words)  # else of this machine alone
    if os.environ.get(RECORD) and recordable:
        write_recording(recording, script, words, out)
    if recording.exists():
        same = json.loads(member(recording, "call.json"))["source"] == source_digest(script)
        assert same, f"{script} changed: record its outputs again ({RECORD}=1 pytest -n 0 ...)"
        extract(recording, "out", out)
        return
    cached = Path(os.environ[FOLDER]) / key
    if not cached.exists():
        part = Path(tempfile.mkdtemp(dir=cached.parent))
        shutil.copytree(out, part, dirs_exist_ok=True)
        compute(script, words, part)
        if not cached.exists():  # else another process was faster
            part.rename(cached)
    shutil.copytree(cached, out, dirs_exist_ok=True)


def compute(script: str, words: list[str], out: Path) -> None:
    """Run the script in a process. Skip the test if a package that it needs is not installed.

    The process is forked off one that has imported transformers, which takes 5 seconds.
    """
    with tempfile.NamedTemporaryFile("r", suffix=".txt") as file:
        arguments = str(HELPERS / script), [word.replace(OUT, str(out)) for word in words]
        forks, said = transformers_forks(), Path(file.name)
        number = forks.start("helpers.peer_outputs:run_script", *arguments, out=said)
        status, text = forks.wait(number), said.read_text(encoding="utf-8", errors="replace")
    missing = re.search(r"ModuleNotFoundError: No module named '(\w+)", text)
    if missing and missing[1] not in ("helpers", "kbert"):
        pytest.skip(f"{script} needs {missing[1]}, and no recording has its outputs")
    assert status == 0, text[-3000:]


@functools.cache
def transformers_forks() -> Forks:
    environment = {name: text for name, text in os.environ.items() if name != "KERAS_BACKEND"}
    environment |= {"HF_HUB_OFFLINE": "1"}
    forks = Forks(environment, "transformers.models.bert.modeling_bert")
    atexit.register(forks.close)
    return forks


def run_script(path: str, words: list[str]) -> None:
    sys.argv = [path, *words]
    runpy.run_path(path, run_name="__main__")


def write_recording(recording: Path, script: str, words: list[str], given: Path) -> None:
    """Run the script, and keep its call, the files that it was given, and those it wrote."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        shutil.copytree(given, out, dirs_exist_ok=True)
        compute(script, words, out)
        call = {"script": script, "arguments": words, "source": source_digest(script)}
        texts = {"call.json": json.dumps(call, indent=1).encode()}
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


def source_digest(script: str) -> str:
    """Return the SHA-256 of a script and the helpers that it imports, without white space."""
    sources: dict[str, str] = {}
    names = [Path(script).stem]
    for name in names:
        if name not in sources:
            source = (HELPERS / f"{name}.py").read_text(encoding="utf-8")
            sources[name] = "".join(source.split())
            names += re.findall(r"^\s*from helpers\.(\w+) import", source, re.MULTILINE)
    return hashlib.sha256(json.dumps(sources, sort_keys=True).encode()).hexdigest()
