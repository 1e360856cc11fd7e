"""Write a folder's files into another, and die before the nth step on the disk.

    python -m helpers.killed_writer SOURCE TARGET N [--alone]

A SOURCE may be a file. With --alone what else the folder TARGET holds goes. Status 9: killed.
"""

import contextlib
import os
import sys
from pathlib import Path

from kbert.io.atomic_write import atomic_file, part_folder_of
from kbert.io.folders import atomic_folder

STEPS = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.chmod")  # os.replace is a rename


def main(source: Path, target: Path, last: int, alone: bool) -> None:
    count = 0

    def step(event: str, args: tuple) -> None:
        nonlocal count
        writes = event == "open" and isinstance(args[1], str) and "w" in args[1]
        if event in STEPS or writes:
            count += 1
            if count == last:
                os._exit(9)

    with writing(source, target, alone) as write:
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
            with atomic_folder(target, alone=alone) as folder:
                for file, content in files.items():
                    (folder / file).parent.mkdir(exist_ok=True)
                    (folder / file).write_bytes(content)

    yield write


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), "--alone" in sys.argv)
