"""What a command computes with: a checkpoint, and texts."""

import contextlib
import logging
import re
import sys
from pathlib import Path

import click

from kbert.cli.console import progress, starting, starting_keras
from kbert.cli.early_checks import check_source
from kbert.cli.options import casing
from kbert.data.corpus.text_files import decode_line
from kbert.data.labelled.columns import NAMES, NUMBERS
from kbert.io import bounds


def read_lines(path: str) -> list[str]:
    """The lines of a UTF-8 file, or of stdin for "-"; an empty line is an empty text.

    Raises:
        OSError: it cannot be read.
        ValueError: nothing in it, or a line that is not UTF-8: named.
    """
    name = "stdin" if path == "-" else path
    if path == "-" and (sys.stdin is None or sys.stdin.closed):
        raise ValueError("stdin must have one text per line, but it is closed: give a file")
    if path != "-":
        bounds.check_regular(path)
    content = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    lines = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    _warn_of_header(lines[0], name)
    if not lines[-1]:  # what follows the last line's end
        lines.pop()
    if not lines:
        raise ValueError(f"{name} must have one text per line, but it is empty")
    return [
        decode_line(line.removesuffix(b"\r"), f"{name}, line {number}")
        for number, line in enumerate(lines, 1)
    ]


def _warn_of_header(line: bytes, name: str) -> None:
    """Report a first line of names of columns: each line is read as a text."""
    cells = [cell.strip().lower() for cell in re.split("[\t,]", line.decode(errors="replace"))]
    if set(cells) <= NAMES and not set(cells) <= {*NUMBERS}:
        logging.getLogger("kbert").warning(
            "%s, line 1: %r is read as a text: if it is a header, remove it",
            *(name, line.decode(errors="replace").strip()[:60]),
        )


@contextlib.contextmanager
def loaded(source: str, command: str = "", head: str | None = None):
    """The checkpoint, opened; the block is for what computes with it, and may need a head."""
    check_source(source, command, head)
    with starting_keras():
        from kbert.checkpoints.bert import load
        from kbert.model import builder  # noqa: F401
    with _without_missing_heads():
        with progress(f"reading {source}"):
            bert = load(source, lowercase=casing())
        if head is not None:
            from kbert.tasks.checks import require_head_of

            require_head_of(source, command, head, bert.head)
        yield bert


def start_quietly(source: str) -> None:
    """Starts TensorFlow, which talks while it starts, where a reader of Google's needs it."""
    from kbert.checkpoints import formats, google_folder

    path = formats.locate(source)
    if path.suffix == ".zip" or google_folder.is_checkpoint(path):
        with starting("TensorFlow"), contextlib.suppress(ImportError):
            import tensorflow  # noqa: F401


@contextlib.contextmanager
def _without_missing_heads():
    """No warning of heads that the checkpoint lacks: the task itself says whether it needs them."""
    logger = logging.getLogger("kbert")

    def matters(record) -> bool:
        return "newly initialized" not in str(record.msg)

    logger.addFilter(matters)
    try:
        yield
    finally:
        logger.removeFilter(matters)


def texts_of(texts: tuple[str, ...], lines: str | None) -> list[str]:
    if bool(texts) == bool(lines):
        got = "both" if texts else "neither"
        raise click.UsageError(f"give texts or --lines FILE, got {got}")
    return read_lines(lines) if lines else list(texts)
