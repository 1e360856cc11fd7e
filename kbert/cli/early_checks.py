"""What a command line gives, checked before Keras starts: it takes seconds to."""

import os
from pathlib import Path

import click

from kbert.io import bounds


class Input(click.Path):
    """A path to read, as a `Path`; an empty one would be the working folder."""

    def __init__(self):
        super().__init__(path_type=Path)

    def convert(self, value, param, ctx):
        if not str(value):
            self.fail("expected a path, got an empty one", param, ctx)
        return super().convert(value, param, ctx)


class Output(Input):
    """A path to write to, as a `Path`."""

    def convert(self, value, param, ctx):
        if str(value):
            bounds.refuse_url(value, to_write=True)
        return super().convert(value, param, ctx)


def check_writable(path: Path) -> None:
    """A PermissionError where the first folder above a path that is there cannot be written to."""
    folder = next((one for one in path.absolute().parents if one.exists()), Path("/"))
    if not folder.is_dir():
        raise NotADirectoryError(f"{folder}: a file, not a folder")
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"{folder}: cannot write in this folder")


def check_file(path: str | os.PathLike | None) -> None:
    """An OSError where a file to read, if one is given, is not there or is none that ends."""
    if path is not None:
        bounds.check_regular(path)
        with open(path, "rb"):
            pass


def check_source(
    source: str | os.PathLike, task: str = "", head: str | None = None, form: str | None = None
) -> None:
    """Raises where no checkpoint is at a path, or one that says that it has another head.

    Args:
        source: the path.
        task: what the head is for, as the user calls it.
        head: the head that it must have; None: any.
        form: the format to read, where it is given.
    """
    from kbert.checkpoints import formats

    said = formats.read_head(source, form)
    if head is not None and said is not None:
        from kbert.tasks.checks import require_head_of

        require_head_of(str(source), task, head, said)
