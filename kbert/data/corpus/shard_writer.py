"""Writing of a folder of shards, so that an interruption keeps everything finished."""

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np

from kbert.data.corpus.shards import DOCUMENTS, INDEX, SENTENCES, VERSION, VOCABULARY, tokens_name
from kbert.data.npy_files import read_npy
from kbert.data.tokenization.tokenizer import Tokenizer
from kbert.io import json_schema as js
from kbert.io.atomic_write import atomic_file, write_atomically
from kbert.io.folders import atomic_folder
from kbert.io.json_differences import differing

_BEGUN = "begun.json"

_COUNT = js.whole(0, 2**62)
_PART = js.fields(
    {name: _COUNT for name in ("tokens", "sentences", "documents", "file")}
    | {
        "sha256": js.TEXT,
        "next": js.fields({name: _COUNT for name in ("file", "offset", "line")}),
        "fresh": js.FLAG,
    }
)


class ShardWriter:
    """A writer of shards that knows what is written and where to resume.

    Args:
        folder: an existing folder.
        identity: what the shards are made from, as JSON.
        tokenizer: the vocabulary, saved with the shards.

    Attributes:
        done: whether everything is written already.
        place: where to resume: file, offset, line.
        tokens: tokens of the shard that is not written yet.

    Raises:
        ValueError: the folder holds finished or unfinished shards of something else.
    """

    def __init__(self, folder: Path, identity: dict, tokenizer: Tokenizer):
        self.folder, self.identity = folder, identity
        self.done = (folder / INDEX).exists()
        self._dtype = np.uint16 if tokenizer.vocab_size <= 1 << 16 else np.uint32
        for left_over in folder.glob(".*.part"):
            shutil.rmtree(left_over) if left_over.is_dir() else left_over.unlink()
        begun = folder / (INDEX if self.done else _BEGUN)
        if begun.exists():
            self._check(begun)
        else:
            with atomic_folder(folder / VOCABULARY) as part:
                tokenizer.save(part)
            write_atomically(begun, _json(identity))
        self._parts = [] if self.done else self._read_parts()
        last = self._parts[-1] if self._parts else {}
        self.place = last.get("next", {"file": 0, "offset": 0, "line": 1})
        self._fresh = last.get("fresh", True)  # the next sentence begins a document
        self._file = last.get("file", 0)
        self._sentences = sum(part["sentences"] for part in self._parts)
        self._empty()

    def add(self, tokens, file: int) -> None:
        """Add the next block's tokens, from that file."""
        if file != self._file:  # the end of a file is the end of a document
            self._file, self._fresh = file, True
        if len(tokens.lengths):
            begins = tokens.begins
            if self._fresh and not (len(begins) and begins[0] == 0):
                begins = np.concatenate([[0], begins])
            self._begins.append(self._sentences + begins)
            self._lengths.append(tokens.lengths)
            self._ids.append(tokens.ids.astype(self._dtype))
            self._sentences += len(tokens.lengths)
            self.tokens += len(tokens.ids)
            self._fresh = tokens.broken
        else:
            self._fresh |= tokens.broken

    def write_shard(self, place: dict) -> None:
        """Write what was added; the text goes on at that place: file, offset, line."""
        if not self.tokens:
            return
        number = len(self._parts)
        sentences, documents = self._part(number, SENTENCES), self._part(number, DOCUMENTS)
        digest = _save(self.folder / tokens_name(number), np.concatenate(self._ids))
        _save(sentences, np.concatenate(self._lengths))
        _save(documents, np.concatenate(self._begins).astype(np.int64))
        part = {
            "tokens": self.tokens,
            "sentences": sum(map(len, self._lengths)),
            "documents": sum(map(len, self._begins)),
            "sha256": digest,
            "file": self._file,
            "next": place,
            "fresh": bool(self._fresh),
        }
        write_atomically(
            self._part(number), _json(part)
        )  # the last: it says that the others are whole
        self._parts.append(part)
        self._empty()

    def finish(self) -> None:
        """Join the parts, and write the index.

        Raises:
            ValueError: there is no sentence.
        """
        if not self._parts:
            self.discard()
            names = ", ".join(file["name"] for file in self.identity["corpus"][:3])
            raise ValueError(f"the corpus must hold text, got no sentence in {names}")
        totals = {
            kind: sum(part[kind] for part in self._parts)
            for kind in ("tokens", "sentences", "documents")
        }
        lengths = (read_npy(self._part(n, SENTENCES)) for n in range(len(self._parts)))
        begins = (read_npy(self._part(n, DOCUMENTS)) for n in range(len(self._parts)))
        files = [
            {"name": tokens_name(number), "tokens": part["tokens"], "sha256": part["sha256"]}
            for number, part in enumerate(self._parts)
        ]
        path = self.folder / SENTENCES
        digest = _save_parts(path, totals["sentences"] + 1, _starts(lengths))
        files.append({"name": SENTENCES, "sha256": digest})
        ends = np.array([totals["sentences"]], np.int64)
        path = self.folder / DOCUMENTS
        digest = _save_parts(path, totals["documents"] + 1, (*begins, ends))
        files.append({"name": DOCUMENTS, "sha256": digest})
        index = {"kbert_shards": VERSION, "dtype": np.dtype(self._dtype).name}
        index |= totals | {"files": files} | self.identity
        write_atomically(self.folder / INDEX, _json(index))

    def discard(self) -> None:
        """Take away all that was begun: it is of a text that must change."""
        for path in (*self.folder.glob("tokens-*.npy"), self.folder / SENTENCES):
            path.unlink(missing_ok=True)
        shutil.rmtree(self.folder / VOCABULARY, ignore_errors=True)
        self.clean()  # last: it says what the others are of

    def clean(self) -> None:
        """Take away what only an interruption needs."""
        for path in (*self.folder.glob("part-*"), self.folder / _BEGUN):
            path.unlink(missing_ok=True)

    def _part(self, number: int, name: str = "") -> Path:
        return self.folder / (f"part-{number:05d}-{name}" if name else f"part-{number:05d}.json")

    def _read_parts(self) -> list[dict]:
        parts: list[dict] = []
        while (path := self._part(len(parts))).exists():
            parts.append(js.read(path, _PART))
        return parts

    def _empty(self) -> None:
        self.tokens = 0
        self._ids: list[np.ndarray] = []
        self._lengths: list[np.ndarray] = []
        self._begins: list[np.ndarray] = []

    def _check(self, path: Path) -> None:
        values = js.read_object(path)
        there = {key: values.get(key) for key in self.identity}
        if there != self.identity:
            state = "holds" if self.done else "holds the beginning of"
            raise ValueError(
                f"{self.folder} {state} shards of something else: "
                f"{_difference(there, self.identity)}. Delete it, or take another folder"
            )


def _difference(there: dict, now: dict) -> str:
    """Return the first place where the two differ, in words."""
    name, old, new = next(differing(there, now, label=lambda number, file: file["name"]))
    if isinstance(old, list) and isinstance(new, list) and len(old) != len(new):
        return f"{name} has {len(old)} entries there, {len(new)} now"
    return f"{name} is {old!r} there, {new!r} now"


def _starts(lengths):
    """Yield the starts of sentences, portion by portion, from portions of their lengths."""
    total = 0
    for portion in lengths:
        ends = np.cumsum(portion, dtype=np.int64)
        yield np.concatenate([[0], ends[:-1]]) + total
        total += int(ends[-1])
    yield np.array([total], np.int64)


def _save(path: Path, array: np.ndarray) -> str:
    return _save_parts(path, len(array), [array], array.dtype)


def _save_parts(path: Path, length: int, portions, dtype=np.int64) -> str:
    """Write an .npy file from portions of one array; return its SHA-256."""
    with atomic_file(path) as part:
        with open(part, "wb") as file:
            description = {"shape": (length,), "fortran_order": False}
            description["descr"] = np.lib.format.dtype_to_descr(np.dtype(dtype).newbyteorder("<"))
            np.lib.format.write_array_header_1_0(file, description)
            for portion in portions:
                file.write(np.ascontiguousarray(portion, dtype).data)
        with open(part, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


def _json(values: dict) -> bytes:
    return (json.dumps(values, indent=1, ensure_ascii=False) + "\n").encode()
