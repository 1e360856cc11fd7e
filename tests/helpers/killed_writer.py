"""Write a folder's files into another, and die before the nth step on the disk."""

import contextlib
import os
import sys
from pathlib import Path

from kbert.io.atomic_write import atomic_file, part_folder_of
from kbert.io.folders import atomic_folder

STEPS = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.chmod")  # os.replace is a rename


def main(source: str, target: str, last: int, alone: bool) -> None:
    """Write `source`, a file or a folder, to `target`; status 9: killed.

    With `alone` what else the folder `target` holds goes.
    """
    count = 0

    def step(event: str, args: tuple) -> None:
        nonlocal count
        writes = event == "open" and isinstance(args[1], str) and "w" in args[1]
        if event in STEPS or writes:
            count += 1
            if count == last:
                os._exit(9)

    with writing(Path(source), Path(target), alone) as write:
        sys.addaudithook(step)
        write()


@contextlib.contextmanager
def writing(source: Path, target: Path, alone: bool):
    if source.is_file():
        content = source.read_bytes()

        def write():
            with atomic_file(target) as part, part_folder_of(target) as folder:
                (folder / "whole").write_bytes(content)
                os.replace(folder / "whole", part)
    else:
        files = {file.relative_to(source): file.read_bytes() for file in source.rglob("*.*")}

        def write():
            with atomic_folder(target, superseded=["*"] if alone else []) as folder:
                for file, content in files.items():
                    (folder / file).parent.mkdir(parents=True, exist_ok=True)
                    (folder / file).write_bytes(content)

    yield write
