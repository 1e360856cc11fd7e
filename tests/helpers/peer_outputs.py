"""What peers write, computed once for all processes of a test run: each takes seconds to import.

The tests run on three backends, and in two workers: they ask the same of the same peers.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from helpers.sizes import HELPERS

FOLDER = "KBERT_TEST_PEERS"  # of the run: tests/conftest.py makes it and removes it


def run_peer(script: str, out: Path, *arguments: str | Path) -> None:
    """Runs tests/SCRIPT with these arguments, which writes into the folder `out`, or copies what it
    wrote before, given the same: the arguments but for the name of `out`, and what was in there."""
    from filelock import FileLock  # transformers and torch bring it

    asked = [script, *(str(argument) for argument in arguments)]
    given = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in out.iterdir()}
    key = [[word.replace(str(out), "") for word in asked], sorted(given.items())]
    place = Path(os.environ[FOLDER]) / hashlib.sha256(json.dumps(key).encode()).hexdigest()
    with FileLock(f"{place}.lock"):
        if not place.exists():
            computed([word.replace(str(out), f"{place}.part") for word in asked], out, place)
    shutil.copytree(place, out, dirs_exist_ok=True)


def computed(asked: list[str], out: Path, place: Path) -> None:
    part = Path(f"{place}.part")
    shutil.rmtree(part, ignore_errors=True)
    shutil.copytree(out, part)
    environment = {name: text for name, text in os.environ.items() if name != "KERAS_BACKEND"}
    environment |= {"HF_HUB_OFFLINE": "1"}
    command = [sys.executable, str(HELPERS / asked[0]), *asked[1:]]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    part.rename(place)
