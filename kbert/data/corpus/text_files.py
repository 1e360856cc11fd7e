"""Files of raw text: their paths, their format, and blocks of whole lines, read one by one."""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from glob import glob
from pathlib import Path

from kbert.data.corpus import blocks, table_files
from kbert.data.corpus.blocks import LONGEST_TEXT, Block
from kbert.io import bounds, text_bytes
from kbert.io import json_schema as js
from kbert.io.remote_files import (
    describe_remote,
    failures_in_one_line,
    find_remote,
    is_remote,
)
from kbert.io.wording import first_few, hint_of_path

FORMATS = {
    "sentences": "Google's: a sentence a line, a blank line between documents",
    "wikitext": "` = Title = ` begins a document, a paragraph a line",
    "jsonl": "JSON lines: an object with a text field is a document",
    "parquet": "Parquet: a row with a text in its text column is a document",
    "arrow": "Arrow, as `datasets` writes it: a row is a document, as in Parquet",
}
_OF_JSON = {".jsonl", ".json", ".ndjson"}
_TABLES = (".csv", ".tsv")
_OF_TABLES = {".parquet": "parquet", ".arrow": "arrow"}
_ENDINGS = {"", ".txt", ".text", ".raw", ".tokens", *_OF_JSON, *_OF_TABLES}  # in a folder
# What `datasets` writes beside its .arrow files: they describe them, and hold no text.
_OF_DATASETS = ("dataset_info.json", "state.json")
_SPLITS = "dataset_dict.json"
_HEADING = re.compile(rb"^\s*((?:=\s)+)(?!=).+\s=\s*$")


def find_files(corpus: str | os.PathLike | Iterable[str | os.PathLike]) -> list[Path]:
    """Return the files of a corpus, in the order in which they are read.

    It is a file, a folder (all its .txt .text .raw .tokens .jsonl .json files and those without an
    ending, by path, each also .gz, .bz2, .xz or .zst, and .parquet and .arrow files), a glob, or
    several of these. Each may be in a bucket, s3://… or gs://…; the paths are then `UPath`s.

    Raises:
        OSError: a path that does not exist or cannot be read; a folder without a text file.
        ValueError: a folder of `datasets` that holds several splits.
    """
    if isinstance(corpus, (str, os.PathLike)):
        corpus = [corpus]
    entries = list(corpus)
    if not entries:
        raise ValueError("the corpus must be files, folders or globs, got none")

    paths: list[Path] = []
    for entry in entries:
        if is_remote(entry):
            paths += find_remote(str(entry), _choose_texts)
            continue
        bounds.refuse_url(entry)
        path = Path(entry)
        if path.is_dir():
            paths += _find_texts(path)
        elif path.exists():
            bounds.check_regular(path, pipes=False)  # they are read several times
            paths.append(path)
        else:
            paths += _expand_glob(entry)
    return list(dict.fromkeys(paths))


def _find_texts(folder: Path) -> list[Path]:
    """Return the text files below a folder, by path."""
    below = []
    for inner, _, names in os.walk(folder, onerror=_fail):  # a glob leaves out what it may not read
        below += [Path(inner, name) for name in names]
    below.sort()

    files = _choose_texts([file for file in below if _is_visible(file, folder)])
    if not files:
        endings = sorted({file.suffix for file in below if file.suffix})
        hint = f", only {first_few(endings)} files" if endings else ""
        raise FileNotFoundError(f"{folder}: no text file in the folder{hint}")
    return files


def _choose_texts(files: Iterable[Path]) -> list[Path]:
    """Return the files of a folder that are texts, by their endings."""
    files = list(files)
    _refuse_splits(files)
    folders_of_datasets = {file.parent for file in files if file.suffix == ".arrow"}

    texts = []
    for file in files:
        describes_arrow = file.name in _OF_DATASETS and file.parent in folders_of_datasets
        if text_bytes.drop_ending(file).suffix in _ENDINGS and not describes_arrow:
            texts.append(file)
    return texts


def _refuse_splits(files: Iterable[Path]) -> None:
    """Raise a ValueError for a folder of `datasets` with several splits: test data are in it."""
    for file in files:
        if file.name == _SPLITS:
            splits = sorted(path.name for path in file.parent.iterdir() if path.is_dir())
            first = file.parent / splits[0] if splits else file.parent
            raise ValueError(
                f"{file.parent} holds the splits {', '.join(splits)} of a data set: give the "
                f"folder of one, such as {first}"
            )


def _expand_glob(pattern: str | os.PathLike) -> list[Path]:
    """Return the files that a glob matches, by path."""
    entries = sorted(glob(str(pattern), recursive=True))
    matches = [Path(name) for name in entries]
    files = [path for path in matches if path.is_file()]
    if not files:
        way = "give .txt files, a folder of them, or a glob in quotes"
        way = hint_of_path(pattern) or way
        raise FileNotFoundError(f"{pattern}: no such file, folder or glob: {way}")
    return files


def _fail(error: OSError):
    raise error


def format_of(path: Path) -> str:
    """Return a file's format, of `FORMATS`, by its ending or its first lines that are not blank.

    Raise a ValueError for a table: its separators, quotes and labels are no text.
    """
    ending = text_bytes.drop_ending(path).suffix.lower()
    if ending in _OF_TABLES:
        return _OF_TABLES[ending]
    with failures_in_one_line(path), path.open("rb") as raw:
        first_bytes = raw.read(len(text_bytes.ARROW_FILE))
    if first_bytes.startswith(text_bytes.PARQUET):
        return "parquet"
    if first_bytes.startswith((text_bytes.ARROW_FILE, text_bytes.ARROW_STREAM)):
        return "arrow"
    if ending in _OF_JSON:
        return "jsonl"
    if ending in _TABLES:
        raise ValueError(
            f"{path}: expected texts, got a table ({ending}). Write its column of texts to a .txt "
            'file, or save it as JSON lines ({"text": …}). To read its lines as they are, give '
            "format='sentences' (--corpus-format sentences)"
        )
    with failures_in_one_line(path), text_bytes.open_text(path) as file:
        head = file.read(1 << 16)
        head = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    first = head.splitlines()[0] if head else b""
    if heading_level(first) == 1:
        return "wikitext"
    if first.startswith(b"{") and re.match(rb'\{\s*("|\})', first):
        return "jsonl"
    return "sentences"


def heading_level(line: bytes) -> int:
    """1 for ` = Title = `, 2 for ` = = Section = = `, …; 0 for a line that is no heading."""
    match = _HEADING.match(line)
    return match[1].count(b"=") if match else 0


def read_blocks(
    path: Path, form: str, text_column: str, offset: int = 0, line: int = 1
) -> Iterator[Block]:
    """Yield a file from an offset on, in blocks of about `blocks.BLOCK` bytes.

    The offset counts bytes of the decompressed text, or rows of a table. The end of a block depends
    only on its beginning, so reading can resume at any block. Lines end with LF or CR LF, or with
    CR as on old Macs if the first one does.

    Raises:
        ImportError: a package that reads the file is not installed.
        OSError: a compressed file is damaged or cut.
        ValueError: a file that is no UTF-8 text, or no table of the format; a table without a
            column of texts; a line or a row longer than `LONGEST_TEXT`.
    """
    if form in table_files.NAMES:
        contents = table_files.read_table(path, form, text_column, offset)
    else:
        contents = _read_lines(path, form, text_column, offset, line)
    while True:
        with failures_in_one_line(path):
            block = next(contents, None)
        if block is None:
            return
        yield block


def _read_lines(path: Path, form: str, text_column: str, offset: int, line: int) -> Iterator[Block]:
    """Yield the blocks of a file of lines."""
    with text_bytes.open_text(path) as file:
        ends = _line_end(file)
        file.seek(offset)
        carry = b""
        while True:
            missing = max(blocks.BLOCK - len(carry), 0)
            data = carry + file.read(missing).replace(ends, b"\n")
            cut = data.rfind(b"\n") + 1
            while cut == 0:  # within a line that is longer than a block
                more = file.read(blocks.BLOCK)
                if not more:
                    break
                if len(data) > LONGEST_TEXT:
                    raise ValueError(
                        f"{path}, line {line}: must be at most {LONGEST_TEXT >> 20} MiB long, to "
                        "limit the memory: break it up, with one sentence per line"
                    )
                data += more.replace(ends, b"\n")
                cut = data.rfind(b"\n") + 1
            if not data:
                return

            cut = cut or len(data)
            data, carry = data[:cut], data[cut:]
            lines = data.count(b"\n")
            offset += cut
            next_line = line + lines
            yield Block(data, str(path), form, text_column, line, offset, next_line)
            line = next_line


def _line_end(file) -> bytes:
    """CR where the first block with an end of line has no LF, else LF."""
    head = b""
    while b"\n" not in head and b"\r" not in head[:-1] and len(head) <= LONGEST_TEXT:
        more = file.read(blocks.BLOCK)
        if not more:
            break
        head += more
    has_only_cr = b"\n" not in head and b"\r" in head[:-1]
    return b"\r" if has_only_cr else b"\n"


def decode_line(line: bytes, where: str) -> str:
    """Return a line as text; raise a ValueError with its position if it is not UTF-8."""
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        byte = f"0x{line[error.start]:02x} at byte {error.start + 1}"
        raise ValueError(f"{where}: must be UTF-8, got {byte}: save it as UTF-8") from None


def describe(path: Path) -> dict:
    """Return a file's identity: its name, size in bytes and SHA-256, or a bucket's version."""
    if is_remote(path):
        return describe_remote(path)
    return {
        "name": path.name,
        "bytes": path.stat().st_size,
        "sha256": hash_file(path),
    }


def hash_file(path: Path) -> str:
    """Return a file's SHA-256 in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_visible(file: Path, folder: Path) -> bool:
    inner = file.relative_to(folder)
    is_hidden = any(name.startswith(".") for name in inner.parts)
    return not is_hidden and file.is_file()


def parse_json(line: str, text_column: str, where: str) -> str:
    """Return the text of a JSON line; raise a ValueError with its position if there is none."""
    values = js.parse(line, js.LINE, where, js.LINE.what, any_number=True)
    text = values.get(text_column)
    if not isinstance(text, str):
        got = f"the fields {', '.join(values)}" if text_column not in values else "no text in it"
        raise ValueError(f"{where}: must have a text in the field {text_column!r}, got {got}")
    return text
