"""Rows of Parquet and Arrow files, whose column of texts becomes JSON lines, read one by one.

Arrow files are those that `datasets` keeps in its cache and saves with `save_to_disk`: Arrow's
stream of record batches, or its file format.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from kbert.data.corpus import blocks
from kbert.data.corpus.blocks import LONGEST_TEXT, Block
from kbert.io import extras
from kbert.io.bounds import damage_in_one_line
from kbert.io.remote_files import failures_in_one_line
from kbert.io.text_bytes import ARROW_FILE
from kbert.io.wording import first_few, name_setting

NAMES = {"parquet": "Parquet", "arrow": "Arrow"}

_AT_ONCE = 256  # rows that are decoded at a time


def read_table(path: Path, form: str, text_column: str, first: int = 0) -> Iterator[Block]:
    """Yield the texts of a table from a row on, in blocks of about `blocks.BLOCK` bytes.

    `form` is "parquet" or "arrow"; rows are counted from 0. A row without a text, or with an empty
    one, is an empty line. The end of a block depends only on its beginning.

    Raises:
        ImportError: pyarrow is not installed.
        ValueError: a damaged file; no such column, or one that holds no text; a text that is longer
            than `LONGEST_TEXT`.
    """
    extras.require(f"{path}, a file of {NAMES[form]},", "corpora", "pyarrow")
    lines: list[bytes] = []
    size = 0
    begin = row = first

    def make_block() -> Block:
        data = b"\n".join([*lines, b""])
        return Block(data, str(path), "jsonl", text_column, begin + 1, row, row + 1, unit="row")

    for texts in _read_texts(path, form, text_column, first):
        for text in texts:
            row += 1
            line = b""
            if text:
                line = json.dumps({text_column: text}, ensure_ascii=False).encode()
            if len(line) > LONGEST_TEXT:
                raise ValueError(
                    f"{path}, row {row}: must be at most {LONGEST_TEXT >> 20} MiB long, to limit "
                    "the memory: make several rows of it"
                )
            lines.append(line)
            size += len(line) + 1
            if size >= blocks.BLOCK:
                yield make_block()
                lines, size, begin = [], 0, row
    if lines:
        yield make_block()


def _read_texts(path: Path, form: str, column: str, first: int) -> Iterator[list[str | None]]:
    """Yield the texts of a table from a row on, some at a time."""
    with path.open("rb") as raw:
        with damage_in_one_line(path, NAMES[form]), failures_in_one_line(path):
            table = _Parquet(raw) if form == "parquet" else _Arrow(raw)
        _check_column(path, table.schema, column)
        portions = table.read_texts(column, first)
        while True:
            with damage_in_one_line(path, NAMES[form]), failures_in_one_line(path):
                texts = next(portions, None)
            if texts is None:
                return
            yield texts


class _Parquet:
    """A Parquet file; row groups before the first row that is asked for are not read."""

    def __init__(self, raw: BinaryIO):
        import pyarrow.parquet

        self._file = pyarrow.parquet.ParquetFile(raw, buffer_size=1 << 20)
        self.schema = self._file.schema_arrow

    def read_texts(self, column: str, first: int) -> Iterator[list]:
        begin = 0
        for group in range(self._file.num_row_groups):
            end = begin + self._file.metadata.row_group(group).num_rows
            if end > first:
                batches = self._file.iter_batches(_AT_ONCE, row_groups=[group], columns=[column])
                yield from _texts_from(batches, column, first - begin)
            begin = end


class _Arrow:
    """A file of Arrow, in its format for streams or in that for files."""

    def __init__(self, raw: BinaryIO):
        import pyarrow

        is_file = raw.read(len(ARROW_FILE)) == ARROW_FILE
        raw.seek(0)
        if is_file:
            file = pyarrow.ipc.open_file(raw)
            self.schema = file.schema
            self._batches = (file.get_batch(number) for number in range(file.num_record_batches))
        else:
            stream = pyarrow.ipc.open_stream(raw)
            self.schema = stream.schema
            self._batches = iter(stream)

    def read_texts(self, column: str, first: int) -> Iterator[list]:
        yield from _texts_from(self._batches, column, first)


def _texts_from(batches: Iterable, column: str, first: int) -> Iterator[list]:
    """Yield the texts of record batches from a row on, counted from the first batch's beginning."""
    for batch in batches:
        count = batch.num_rows
        texts = batch.column(column)
        for begin in range(max(first, 0), count, _AT_ONCE):
            yield texts.slice(begin, _AT_ONCE).to_pylist()
        first -= count


def _check_column(path: Path, schema, column: str) -> None:
    """Raise a ValueError if a table has no such column of texts."""
    from pyarrow import types

    if schema.get_field_index(column) < 0:
        raise ValueError(
            f"{path}: must have a column {column!r} of texts, has {first_few(schema.names)}: name "
            f"the right one, {name_setting('text_column')}"
        )
    kind = schema.field(column).type
    if types.is_dictionary(kind):
        kind = kind.value_type
    is_text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    if not is_text:
        raise ValueError(
            f"{path}: the column {column!r} must hold texts, holds {kind}: name another one, "
            f"{name_setting('text_column')}"
        )
