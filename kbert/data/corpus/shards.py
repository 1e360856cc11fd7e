"""Shards opened for reading: any slice of tokens, and the bounds of sentences and documents."""

import contextlib
import copy
import os
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path

import numpy as np

from kbert.data.corpus.text_files import hash_file
from kbert.data.counter_rng import fork, key_of
from kbert.data.npy_files import read_npy
from kbert.data.tokenization.tokenizer import Tokenizer
from kbert.io import json_schema as js
from kbert.io import printable
from kbert.io.bucket_folder import BucketFolder
from kbert.io.remote_files import is_remote

VERSION = 1
INDEX, VOCABULARY = "index.json", "vocabulary"
TOKENS = "tokens-{:05d}.npy"
SENTENCES, DOCUMENTS = "sentences.npy", "documents.npy"


def _is_file_name(name) -> bool:
    if not isinstance(name, str) or not name.isprintable():
        return False
    if name in ("", ".."):
        return False
    return Path(name).name == name


_NAME = js.Kind("the name of a file", _is_file_name)
_COUNT = js.whole(0, 2**62)
_FILE = js.fields({"name": _NAME, "sha256": js.TEXT}, {"tokens": _COUNT})
_VOCABULARY = js.fields(
    {
        "size": js.whole(1),
        "sha256": js.TEXT,
        "lowercase": js.FLAG,
    }
)
_INDEX = js.fields(
    {
        "dtype": js.one_of("uint16", "uint32"),
        "sentences": _COUNT,
        "documents": _COUNT,
        "files": js.list_of(_FILE),
        "vocabulary": _VOCABULARY,
        "corpus": js.LIST,
        "settings": js.OBJECT,
    }
)
_SPLIT = 0x5B117  # the key of `Shards.split`: a constant, so that every run splits alike


class Shards:
    """A prepared corpus: documents of sentences of token ids, memory-mapped.

    Attributes:
        folder: the folder of the files.
        index: the values of index.json.
        offsets: int64 (all sentences + 1,): the first token of each sentence among all tokens.
        starts, ends: int64 (documents,): the first sentence of each document, and the first one
            after it.
        share: JSON that says which documents these are, if `split` made the object; else None.
    """

    def __init__(self, folder: Path, index: dict, arrays: dict[str, np.ndarray]):
        self.folder = folder
        # which removes the folder, its local copy, once nothing refers to it
        self.bucket: BucketFolder | None = None
        self.index = index
        self.share: str | None = None
        self.offsets = arrays[SENTENCES]
        documents = arrays[DOCUMENTS]
        self.starts = documents[:-1]
        self.ends = documents[1:]

        self._tokens: list[np.ndarray] = []
        self._sizes: list[tuple[Path, int | None]] = []
        for entry in index["files"]:
            if "tokens" in entry:
                path = folder / entry["name"]
                self._tokens.append(arrays[entry["name"]])
                self._sizes.append((path, _file_size(path)))
        lengths = [len(tokens) for tokens in self._tokens]
        self._bounds = np.cumsum([0, *lengths])

    @cached_property
    def tokenizer(self) -> Tokenizer:
        return Tokenizer.load(self.folder / VOCABULARY)

    @property
    def vocab_size(self) -> int:
        return self.index["vocabulary"]["size"]

    @property
    def documents(self) -> int:
        """Number of documents."""
        return len(self.starts)

    @cached_property
    def document_tokens(self) -> np.ndarray:
        """Number of tokens in each document, int64 (documents,)."""
        return self.offsets[self.ends] - self.offsets[self.starts]

    @property
    def fingerprint(self) -> dict:
        """Identity of the content, as JSON: equal if the tokens are equal."""
        identity = {
            "corpus": self.index["corpus"],
            "vocabulary": self.index["vocabulary"],
            "settings": self.index["settings"],
        }
        files = self.index["files"]
        hashes = {entry["name"]: entry["sha256"] for entry in files}
        return identity | {"files": hashes, "share": self.share}

    def take(self, indices: np.ndarray) -> np.ndarray:
        """Return the tokens at some indices among all tokens, int32.

        Raise an OSError if a file has gone, or was cut, since the shards were opened.
        """
        tokens = np.empty(len(indices), np.int32)
        shard = np.searchsorted(self._bounds, indices, "right") - 1
        for number in np.unique(shard):
            self._check_size(number)
            here = shard == number
            offsets = indices[here] - self._bounds[number]
            tokens[here] = self._tokens[number][offsets]
        return tokens

    def _check_size(self, number: int) -> None:
        """Raise an OSError if a shard's file was cut: to read what has gone is a SIGBUS."""
        path, size = self._sizes[number]
        now = _file_size(path)
        if now != size:
            state = "has gone" if now is None else f"has {now} bytes, not {size}"
            raise OSError(5, f"{state} since the shards were opened", str(path))

    def sentence(self, number: int) -> np.ndarray:
        """Return the token ids of a sentence, int32."""
        start = self.offsets[number]
        end = self.offsets[number + 1]
        return self.take(np.arange(start, end))

    def split(self, dev_ratio: float) -> tuple["Shards", "Shards"]:
        """Split the documents into a training part and a dev part, the same in every run.

        `dev_ratio` is the dev part's share of the documents, in (0, 1); at least one document. A
        part without a document raises a ValueError.
        """
        if not 0 < dev_ratio < 1:
            raise ValueError(f"dev_ratio must be a share of the documents, 0 … 1, got {dev_ratio}")
        count = max(1, round(dev_ratio * self.documents))
        if count >= self.documents:
            raise ValueError(
                f"dev_ratio={dev_ratio} must leave documents to train with, got "
                f"{self.documents} in all: lower it, or prepare more text"
            )

        scores = fork(key_of(_SPLIT), np.asarray(self.starts))
        order = np.argsort(scores, kind="stable")
        train_documents = np.sort(order[count:])
        dev_documents = np.sort(order[:count])
        train = self._select(train_documents, f"all but {dev_ratio}")
        dev = self._select(dev_documents, f"{dev_ratio}")
        return train, dev

    def _select(self, documents: np.ndarray, share: str) -> "Shards":
        part = copy.copy(self)
        vars(part).pop("document_tokens", None)
        part.starts = self.starts[documents]
        part.ends = self.ends[documents]
        part.share = share if self.share is None else f"{share} of {self.share}"
        return part

    def __repr__(self) -> str:
        return (
            f"Shards({self.documents:,} documents, {int(self.document_tokens.sum()):,} tokens, "
            f"{str(self.folder)!r})"
        )


@printable.escape_errors()
def open_shards(folder: str | os.PathLike, *, check: bool = True) -> Shards:
    """Open a folder that `prepare` has written.

    Args:
        folder: the folder, also s3://… or gs://…, which is copied to this machine as long as the
            shards are open: any example may be any part of them.
        check: whether to compare the SHA-256 of every file with the index (about one second per
            gigabyte on two cores). The sizes are always checked.

    Returns:
        The opened `Shards`.

    Raises:
        FileNotFoundError: no such folder, or a file is missing.
        NotADirectoryError: `folder` is a file.
        ValueError: not finished, of another version, truncated, or different from the index.
    """
    bucket = None
    if is_remote(folder):
        bucket = BucketFolder(folder)
        if INDEX not in bucket.list_files():
            raise FileNotFoundError(f"{bucket.address} has no shards: there is no {INDEX}")
        bucket.fetch()
    folder = bucket.path if bucket else Path(folder)
    _check_folder(folder)
    index = _read_index(folder / INDEX)
    arrays = _open_arrays(folder, index)
    if check:
        _check_hashes(folder, index)
    shards = Shards(folder, index, arrays)
    shards.bucket = bucket
    return shards


def _check_folder(folder: Path) -> None:
    """Raise an error for what is no folder that `prepare` has finished."""
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder}: a file, not a folder of kbert prepare")
    if not folder.is_dir():
        raise FileNotFoundError(
            f"{folder}: no such folder. Shards are the folder that kbert prepare writes"
        )
    if (folder / INDEX).exists():
        return

    state = "no index.json"
    if (folder / "begun.json").exists():
        state = "kbert prepare was interrupted: run it again to finish"
    raise ValueError(f"{folder} must be a folder that kbert prepare has finished, got: {state}")


def _read_index(path: Path) -> dict:
    index = js.read(path, js.OBJECT)
    version = index.get("kbert_shards")
    if version != VERSION:
        got = js.short_repr(version)
        raise ValueError(f"{path} must be of kbert's shards {VERSION}, got {got}")
    js.check(index, _INDEX, str(path))

    names = [entry["name"] for entry in index["files"]]
    is_complete = SENTENCES in names and DOCUMENTS in names
    if len(set(names)) < len(names) or not is_complete:
        raise ValueError(
            f"{path} must name {SENTENCES}, {DOCUMENTS} and tokens, each once, got "
            f"{', '.join(names[:5])}"
        )
    return index


def _open_arrays(folder: Path, index: dict) -> dict[str, np.ndarray]:
    expected = {}
    for entry in index["files"]:
        name = entry["name"]
        expected[name] = entry.get("tokens"), index["dtype"]
    expected[SENTENCES] = (index["sentences"] + 1, "int64")
    expected[DOCUMENTS] = (index["documents"] + 1, "int64")

    arrays = {}
    for name, (length, dtype) in expected.items():
        path = folder / name
        if not path.exists():
            raise FileNotFoundError(f"{path} is missing: put it back, or run kbert prepare again")
        array = read_npy(path, mmap_mode="r")
        if array.shape != (length,) or array.dtype != dtype:
            raise ValueError(
                f"{path} must hold {length} numbers of {dtype}, as the index says, got "
                f"{array.shape} of {array.dtype}"
            )
        arrays[name] = array
    return arrays


def _check_hashes(folder: Path, index: dict) -> None:
    paths = [folder / entry["name"] for entry in index["files"]]
    with ThreadPoolExecutor() as threads:
        hashes = threads.map(hash_file, paths)
        for path, entry, sha256 in zip(paths, index["files"], hashes, strict=True):
            if sha256 != entry["sha256"]:
                raise ValueError(
                    f"{path} must be the file that the index names, got other content: prepare "
                    "again into an empty folder"
                )
    _check_vocabulary(folder / VOCABULARY, index["vocabulary"])


def _check_vocabulary(folder: Path, expected: dict) -> None:
    """Raise a ValueError for another vocabulary than the index says."""
    path = folder / "tokenizer.json"
    if hash_file(path) != expected["sha256"]:
        raise ValueError(
            f"{path} must be the vocabulary that the shards were made with, got another: put it "
            "back, or prepare again into an empty folder"
        )

    size, lowercase = expected["size"], expected["lowercase"]
    tokenizer = Tokenizer.load(folder)
    if tokenizer.vocab_size != size or tokenizer.lowercase != lowercase:
        raise ValueError(
            f"{folder} must be of {size} tokens, lowercase={lowercase}, as "
            f"the index says, got {tokenizer.vocab_size}, lowercase={tokenizer.lowercase}"
        )


def _file_size(path: Path) -> int | None:
    with contextlib.suppress(OSError):
        return path.stat().st_size
    return None
