"""Checks of what a command line names, before Keras starts; checkpoints and texts."""

import contextlib
import logging
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import BinaryIO

import click

from kbert.cli.console import call_in_messages, progress, starting, starting_keras
from kbert.cli.options import Input, casing
from kbert.data.corpus.text_files import decode_line
from kbert.data.labelled.columns import NAMES, NUMBERS
from kbert.io import bounds
from kbert.io.atomic_write import part_folder_of
from kbert.io.interrupted_saves import open_whole
from kbert.io.text_bytes import convert_text, drop_ending

_FILE_NAME = re.compile(r"\S*[/\\]\S*|\S+\.[A-Za-z]\w{1,5}")  # without blanks
_STDIN = "kbert.stdin"  # in click's context
_TABLES = (".csv", ".jsonl", ".json", ".ndjson")


def check_writable(path: Path) -> None:
    """Raise a PermissionError where the first existing folder above a path is not writable."""
    folder = path.absolute().parent
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir():
        raise NotADirectoryError(f"{folder}: a file, not a folder")
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"{folder}: cannot write in this folder")


def check_file(path: str | os.PathLike | None) -> None:
    """Raise an OSError where a file to read, if one is given, is missing or never ends."""
    if path is not None:
        bounds.check_regular(path)
        with open(path, "rb"):
            pass


def check_source(
    source: str | os.PathLike, task: str = "", head: str | None = None, form: str | None = None
) -> None:
    """Raise where no checkpoint is at a path, or one with another head than a task needs.

    `form` is the format to read, where the user names it.
    """
    from kbert.checkpoints import formats

    its_head = formats.read_head(source, form)
    if head is not None and its_head is not None:
        from kbert.tasks.common.checks import require_head_of

        require_head_of(str(source), task, head, its_head)


@contextlib.contextmanager
def open_checkpoint(source: str, task: str = "", head: str | None = None):
    """Open a checkpoint for a task, which may need a head."""
    check_source(source, task, head)
    with starting_keras():
        from kbert.checkpoints.bert import load
        from kbert.model import builder  # noqa: F401
        from kbert.tasks.common.checks import require_head_of

    def matters(record) -> bool:
        return "newly initialized" not in str(record.msg)

    logger = logging.getLogger("kbert")
    logger.addFilter(matters)  # the task says whether it needs a head that is missing
    try:
        with progress(f"reading {source}"):
            bert = load(source, lowercase=casing())
        if head is not None:
            require_head_of(source, task, head, bert.head)
        yield bert
    finally:
        logger.removeFilter(matters)


def start_quietly(source: str) -> None:
    """Start TensorFlow without its messages where a reader of Google's checkpoints needs it."""
    from kbert.checkpoints import formats, google_folder

    path = formats.locate(source)
    with open_whole(path) as whole:
        needs_tensorflow = path.suffix == ".zip" or google_folder.is_checkpoint(whole)
    if needs_tensorflow:
        with starting("TensorFlow"), contextlib.suppress(ImportError):
            import tensorflow  # noqa: F401


def read_texts(texts: tuple[str, ...], lines: str | None) -> list[str]:
    """Return the texts of the command line or of `--lines FILE`, one of the two."""
    if bool(texts) == bool(lines):
        got = "both" if texts else "neither (--lines - reads standard input)"
        raise click.UsageError(f"give texts or --lines FILE, got {got}")
    return read_lines(lines) if lines else list(texts)


def read_texts_or_file(inputs: tuple[str, ...], lines: str | None) -> list[str]:
    """Return texts as `read_texts` does; a single input that names a file, or -, is that file."""
    if lines is None and len(inputs) == 1 and _names_file(inputs[0]):
        return read_lines(inputs[0])
    for text in inputs:
        if os.path.isfile(text):
            raise click.UsageError(f"{text} is a file: give it alone, as --lines {text}")
    return read_texts(inputs, lines)


def _names_file(text: str) -> bool:
    """Return whether a text is -, an existing file, or looks like the name of a missing one."""
    return text == "-" or os.path.isfile(text) or bool(_FILE_NAME.fullmatch(text))


def read_pairs(texts: tuple[str, ...], lines: str | None) -> tuple[list[str], list[str]]:
    """Return the first and the second texts: two arguments each, or text, tab, text per line."""
    read = read_texts(texts, lines)
    if not lines:
        if len(read) % 2:
            raise click.UsageError(f"--pairs needs two texts per pair, got {len(read)} in all")
        return read[::2], read[1::2]

    texts_a, texts_b = [], []
    for number, line in enumerate(read, 1):
        cells = line.split("\t")
        if len(cells) != 2:
            raise ValueError(
                f"{lines}, line {number}: --pairs needs a text, a tab and a second text, got "
                f"{len(cells)} columns"
            )
        texts_a.append(cells[0])
        texts_b.append(cells[1])
    return texts_a, texts_b


def read_lines(path: str) -> list[str]:
    """Return the lines of a text file, or of stdin for "-"; an empty line is an empty text."""
    if path == "-":
        name, data = "stdin", open_stdin().read()
    else:
        bounds.check_regular(path)
        name, data = path, Path(path).read_bytes()
    data = convert_text(data, name)
    lines = data.split(b"\n" if b"\n" in data else b"\r")  # CR: old Macs

    _warn_of_table(path)
    _warn_of_header(lines[0], name)
    if not lines[-1]:  # what follows the last line's end
        lines.pop()
    if not lines:
        logging.getLogger("kbert").warning("%s is empty: there are no texts", name)

    return [
        decode_line(line.removesuffix(b"\r"), f"{name}, line {number}")
        for number, line in enumerate(lines, 1)
    ]


def open_stdin() -> BinaryIO:
    """Return standard input, for `-` in place of a file of texts."""
    if sys.stdin is None or sys.stdin.closed:
        raise ValueError("stdin is closed: give a file in place of -")
    return sys.stdin.buffer


class TextInput(Input):
    """A path of texts. `-` is standard input, copied to a file, which may be read repeatedly."""

    def convert(self, value, param, ctx):
        if value != "-":
            return super().convert(value, param, ctx)
        if _STDIN in ctx.meta:
            self.fail("- is standard input, which can be given once", param, ctx)

        source = open_stdin()
        temporary = Path(tempfile.gettempdir())
        folder = ctx.find_root().with_resource(part_folder_of(Path("kbert-stdin"), temporary))
        path = folder / "stdin"
        ctx.meta[_STDIN] = path
        call_in_messages(path, "stdin")

        try:
            with open(path, "wb") as file:
                shutil.copyfileobj(source, file)
        except OSError as error:
            text = f"standard input is copied there: {error.strerror}. Set TMPDIR to another folder"
            raise OSError(error.errno, text, str(temporary)) from None
        return path


class CorpusInput(TextInput):
    """A path, glob or address of texts, as it is written; also NAME=PATH, or `-` as above."""

    def convert(self, value, param, ctx):
        path = super().convert(value, param, ctx)
        return path if value == "-" else str(value)


def _warn_of_table(path: str) -> None:
    """Report a file of rows, each line of which is read as a text."""
    ending = drop_ending(Path(path)).suffix.lower()
    if ending in _TABLES:
        logging.getLogger("kbert").warning(
            "%s: each line is read as a text, with all that is in it. If it is a %s table, write "
            "its texts to a .txt file, one per line",
            path,
            ending,
        )


def _warn_of_header(line: bytes, name: str) -> None:
    """Report a first line of column names, which is read as a text like all others."""
    text = line.decode(errors="replace")
    cells = re.split("[\t,]", text)
    columns = {cell.strip().lower() for cell in cells}
    are_row_numbers = columns <= set(NUMBERS)
    if columns <= NAMES and not are_row_numbers:
        logging.getLogger("kbert").warning(
            "%s, line 1: %r is read as a text: if it is a header, remove it",
            name,
            text.strip()[:60],
        )
