"""Writing of a folder of shards, so that an interruption keeps everything finished."""

import contextlib
import itertools
import json
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from kbert.data.corpus.shards import DOCUMENTS, INDEX, SENTENCES, TOKENS, VERSION, VOCABULARY
from kbert.data.corpus.text_files import hash_file
from kbert.data.corpus.tokenizing import Tokens
from kbert.data.npy_files import read_npy
from kbert.data.tokenization.tokenizer import Tokenizer
from kbert.io import json_schema as js
from kbert.io.atomic_write import atomic_file, clear_locked, refuse_links, write_atomically
from kbert.io.bucket_folder import BucketFolder
from kbert.io.folders import atomic_folder
from kbert.io.json_differences import iterate_differences

_BEGUN = "begun.json"
_OTHER_FOLDER = "choose another folder for the shards"
_PART = re.compile(r"part-\d{5,}(\.json|-sentences\.npy|-documents\.npy|-unique\.npy)")
_UNIQUE = "unique.npy"
_NAMES = "|".join(re.escape(name) for name in (_BEGUN, INDEX, SENTENCES, DOCUMENTS, VOCABULARY))
_FILES = re.compile(rf"tokens-\d{{5,}}\.npy|{_PART.pattern}|{_NAMES}")

_END = np.zeros(1, np.uint32)  # of a document, among the lengths of sentences
_COUNT = js.whole(0, 2**62)
_POSITION = js.fields(
    {"file": _COUNT, "offset": _COUNT, "line": _COUNT},
    {"tokens": _COUNT, "duplicates": _COUNT},
)
_SHARD = js.fields(
    {
        "tokens": _COUNT,
        "sentences": _COUNT,
        "documents": _COUNT,
        "file": _COUNT,
        "sha256": js.TEXT,
        # of each source; of a clone from before there were several, its only one's
        "next": js.either(js.list_of(_POSITION), _POSITION),
        "fresh": js.FLAG,
    }
)


class ShardWriter:
    """A writer of shards into an existing folder that knows what is written and where to resume.

    `identity` says what the shards are made from, as JSON. A folder that holds finished or
    unfinished shards of something else raises a ValueError. What is complete is sent to the
    `bucket`, if the folder is a copy of it.

    Attributes:
        done: whether everything is written already.
        resume: where to resume each source: file, offset, line, and its tokens and duplicates.
        tokens: number of tokens in the shard that is not written yet.
    """

    def __init__(
        self,
        folder: Path,
        identity: dict,
        tokenizer: Tokenizer,
        beginnings: Sequence[dict],
        bucket: BucketFolder | None = None,
    ):
        self.folder = folder
        self.identity = identity
        self._bucket = bucket
        self.done = (folder / INDEX).exists()
        fits_16_bits = tokenizer.vocab_size <= 1 << 16
        self._dtype = np.uint16 if fits_16_bits else np.uint32
        if not self.done:
            entries = os.listdir(folder)
            written = [name for name in entries if _FILES.fullmatch(name)]
            refuse_links(folder, written)
        clear_locked(folder)

        begun = folder / (INDEX if self.done else _BEGUN)
        if begun.exists():
            self._check(begun)
        else:
            _refuse_other_files(folder)
            vocabulary_files = _write_vocabulary(folder / VOCABULARY, tokenizer)
            contents = identity | {"written": vocabulary_files}
            write_atomically(begun, _json(contents))

        self._shards: list[dict] = []
        if not self.done:
            self._shards = self._read_shards()
        last = self._shards[-1] if self._shards else {}
        resume = last.get("next", list(beginnings))
        self.resume: list[dict] = resume if isinstance(resume, list) else [resume]
        self._file = last.get("file", 0)
        self._empty(last.get("fresh", True))

    @property
    def has_shards(self) -> bool:
        """Whether a shard is written, which can be resumed behind."""
        return bool(self._shards)

    def _read_shards(self) -> list[dict]:
        """Read what is said of the shards that are written."""
        shards: list[dict] = []
        path = self._temporary(0)
        while path.exists():
            shards.append(js.read(path, _SHARD))
            path = self._temporary(len(shards))
        return shards

    def add(self, tokens: Tokens, file: int) -> None:
        """Add the next block's tokens, from that file."""
        if file != self._file:
            self._file = file
            self._lengths.append(_END)
        self._lengths.append(tokens.lengths)
        self._ids.append(tokens.ids.astype(self._dtype))
        self.tokens += len(tokens.ids)

    def write_shard(self, resume: list[dict], unique: np.ndarray | None = None) -> None:
        """Write what was added; the next shard begins at these positions, one for each source.

        `unique` is what `read_unique` yields, to tell later duplicates of this shard's documents.
        """
        self.resume = resume
        if not self.tokens:
            return
        number = len(self._shards)
        lengths = np.concatenate(self._lengths)
        is_end = lengths == 0
        sentences = lengths[~is_end]
        sentences_before = np.cumsum(~is_end, dtype=np.int64)
        begins = np.unique(sentences_before[is_end])  # after each end
        begins = begins[begins < len(sentences)]
        offset = sum(shard["sentences"] for shard in self._shards)

        ids = np.concatenate(self._ids)
        digest = _save(self.folder / TOKENS.format(number), ids)
        _save(self._temporary(number, SENTENCES), sentences)
        _save(self._temporary(number, DOCUMENTS), offset + begins)
        if unique is not None:
            _save(self._temporary(number, _UNIQUE), unique)
        fresh = bool(is_end[-1])
        shard = {
            "tokens": self.tokens,
            "sentences": len(sentences),
            "documents": len(begins),
            "sha256": digest,
            "file": self._file,
            "next": resume,
            "fresh": fresh,
        }
        write_atomically(self._temporary(number), _json(shard))  # last: the others are whole
        self._shards.append(shard)
        self._empty(fresh)
        self._push()

    def finish(self) -> None:
        """Join the parts, and write the index; raise a ValueError if there is no sentence."""
        if not self._shards:
            self.discard()
            first_files = self.identity["corpus"][:3]
            names = ", ".join(file["name"] for file in first_files)
            raise ValueError(f"the corpus must hold text, got no sentence in {names}")

        totals = {}
        for kind in ("tokens", "sentences", "documents"):
            totals[kind] = sum(shard[kind] for shard in self._shards)
        num_sentences = totals["sentences"]
        num_documents = totals["documents"]
        files = self._list_token_files()

        sentences = _starts(self._read_arrays(SENTENCES))
        digest = _save_portions(self.folder / SENTENCES, num_sentences + 1, sentences)
        files.append({"name": SENTENCES, "sha256": digest})

        end = np.array([num_sentences], np.int64)
        documents = itertools.chain(self._read_arrays(DOCUMENTS), [end])
        digest = _save_portions(self.folder / DOCUMENTS, num_documents + 1, documents)
        files.append({"name": DOCUMENTS, "sha256": digest})

        dtype = np.dtype(self._dtype)
        index = {"kbert_shards": VERSION, "dtype": dtype.name}
        index |= totals | {"files": files} | self.identity
        names = self.identity["settings"].get("sources")
        if names:
            index["sources"] = self._count_by_source("tokens")
        if "drop_duplicates" in self.identity["settings"]:
            duplicates = self._count_by_source("duplicates")
            index["duplicates"] = duplicates if names else sum(duplicates.values())
        write_atomically(self.folder / INDEX, _json(index))

    def _count_by_source(self, kind: str) -> dict[str, int]:
        """Return the number of tokens or of duplicates of each source."""
        names = self.identity["settings"].get("sources", [""])
        counts = [position[kind] for position in self.resume]
        return dict(zip(names, counts, strict=True))

    def read_unique(self) -> Iterator[np.ndarray]:
        """Yield what `write_shard` was given as `unique`, shard by shard."""
        return self._read_arrays(_UNIQUE)

    def _list_token_files(self) -> list[dict]:
        """Return the index's entries of the files of tokens."""
        files = []
        for number, shard in enumerate(self._shards):
            entry = {
                "name": TOKENS.format(number),
                "tokens": shard["tokens"],
                "sha256": shard["sha256"],
            }
            files.append(entry)
        return files

    def _read_arrays(self, name: str) -> Iterator[np.ndarray]:
        """Yield an array of each shard."""
        for number in range(len(self._shards)):
            yield read_npy(self._temporary(number, name))

    def discard(self) -> None:
        """Remove what this preparation wrote, because its text must change."""
        for number in range(len(self._shards) + 1):  # the last may lack its part-….json
            file = self.folder / TOKENS.format(number)
            file.unlink(missing_ok=True)

        # a file that was there before, equal to the tokenizer's, is the user's
        vocabulary = self.folder / VOCABULARY
        written = self._read_begun().get("written", [])
        for path in sorted(vocabulary.glob("*")):
            if path.name in written:
                path.unlink()
        if written:
            with contextlib.suppress(OSError):  # the user's files are in it
                vocabulary.rmdir()
        self.clean()  # last: begun.json says what the others are made from

    def clean(self) -> None:
        """Remove the files that only resuming needs; without begun.json there are none."""
        if not self._is_of_this(self._read_begun()):
            return
        self._push()
        for name in os.listdir(self.folder):
            if _PART.fullmatch(name):
                (self.folder / name).unlink()
        (self.folder / _BEGUN).unlink()
        self._push()

    def _push(self) -> None:
        if self._bucket is not None:
            self._bucket.push()

    def _read_begun(self) -> dict:
        """Return what begun.json says; {}: there is none, or it is somebody's."""
        with contextlib.suppress(OSError, ValueError):
            return js.read(self.folder / _BEGUN, js.OBJECT)
        return {}

    def _is_of_this(self, values: dict) -> bool:
        return all(values.get(key) == value for key, value in self.identity.items())

    def _temporary(self, number: int, name: str = "") -> Path:
        part = f"part-{number:05d}"
        return self.folder / (f"{part}-{name}" if name else f"{part}.json")

    def _empty(self, fresh: bool) -> None:
        """Begin a shard; `fresh`: its first sentence begins a document."""
        self.tokens = 0
        self._ids: list[np.ndarray] = []
        self._lengths: list[np.ndarray] = []
        if fresh:
            self._lengths.append(_END)

    def _check(self, path: Path) -> None:
        values = js.read(path, js.OBJECT)
        if self._is_of_this(values):
            return

        there = {key: values.get(key) for key in self.identity}
        differences = iterate_differences(
            there, self.identity, label=lambda number, file: file["name"]
        )
        name, old, new = next(differences)
        difference = f"{name} is {old!r} there, {new!r} now"
        if isinstance(old, list) and isinstance(new, list) and len(old) != len(new):
            difference = f"{name} has {len(old)} entries there, {len(new)} now"
        state = "holds" if self.done else "holds the beginning of"
        raise ValueError(
            f"{self.folder} {state} shards of something else: {difference}. Delete it, or take "
            "another folder"
        )


def _starts(lengths):
    """Yield the starts of sentences in portions, from portions of their lengths."""
    total = 0
    for portion in lengths:
        ends = np.cumsum(portion, dtype=np.int64)
        starts = np.concatenate([[0], ends[:-1]])
        yield starts + total
        total += int(ends[-1])
    yield np.array([total], np.int64)


def _refuse_other_files(folder: Path) -> None:
    """Raise a FileExistsError for a file that the shards would replace."""
    entries = os.listdir(folder)
    names = [name for name in entries if _FILES.fullmatch(name)]
    replaced = [name for name in names if name != VOCABULARY]
    if replaced:
        raise FileExistsError(
            f"{folder / min(replaced)} exists, and is not of shards: {_OTHER_FOLDER}"
        )


def _write_vocabulary(folder: Path, tokenizer: Tokenizer) -> list[str]:
    """Write the tokenizer's files that are not there yet, and return their names.

    Raise a FileExistsError for other files of these names.
    """
    with tempfile.TemporaryDirectory() as temporary:
        tokenizer.save(temporary)
        files = {}
        for new in sorted(Path(temporary).iterdir()):
            files[new.name] = new.read_bytes()

    new_names = []
    for name, data in files.items():
        old = folder / name
        if not old.exists():
            new_names.append(name)
        elif old.read_bytes() != data:
            raise FileExistsError(f"{old} is another vocabulary's: {_OTHER_FOLDER}")
    if new_names:
        with atomic_folder(folder) as part:
            for name in new_names:
                (part / name).write_bytes(files[name])
    return new_names


def _save(path: Path, array: np.ndarray) -> str:
    return _save_portions(path, len(array), [array], array.dtype)


def _save_portions(path: Path, length: int, portions, dtype=np.int64) -> str:
    """Write an .npy file from portions of one array; return its SHA-256."""
    with atomic_file(path) as part:
        with open(part, "wb") as file:
            little_endian = np.dtype(dtype).newbyteorder("<")
            description = {
                "shape": (length,),
                "fortran_order": False,
                "descr": np.lib.format.dtype_to_descr(little_endian),
            }
            np.lib.format.write_array_header_1_0(file, description)
            for portion in portions:
                file.write(np.ascontiguousarray(portion, dtype).data)
        return hash_file(part)


def _json(values: dict) -> bytes:
    text = json.dumps(values, indent=1, ensure_ascii=False)
    return f"{text}\n".encode()
