"""The .keras file as bytes: a zip with JSON and an HDF5 file of variables, read in place.

Keras (3.15) does not document how they lie in it:

    config.json                                   the graph: see `kbert.graph.keras_config`
    model.weights.h5                              every variable, numbered within its layer:
        layers/dense_1/vars/0                     a layer's; the group's attribute "name" is the
        layers/dense_1/query_dense/vars/0         layer's name; that of a layer within it
        optimizer/vars/0                          no layer's

Keras's own readers run what the file says (`load_model`), or take a model to fill (`load_weights`).
A file that lies otherwise is refused: every weight that is missing or unexpected is named.
"""

import contextlib
import dataclasses
import functools
import io
import os
import shutil
import struct
import tempfile
import zipfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import IO

import numpy as np

from kbert.checkpoints import hdf5
from kbert.checkpoints.checkpoint import Tensor
from kbert.checkpoints.zip_archive import CheckSums
from kbert.io import bounds
from kbert.io import json_schema as js
from kbert.io.bounds import damage_in_one_line

_CONFIG = "config.json"
_WEIGHTS = "model.weights.h5"
_FORM = ".keras"
_WHOLE = "must be a whole .keras file, got"
_CHUNK = 2**22  # bytes


def package_of(path: Path) -> str:
    """Return the package that registered the class of a .keras file's model; "" where none did."""
    with contextlib.suppress(ValueError, OSError), KerasArchive(path) as archive:
        name = archive.json(_CONFIG, js.OBJECT).get("registered_name")
        if isinstance(name, str) and ">" in name:
            return name.partition(">")[0]
    return ""


class KerasArchive:
    """A .keras file to use in a `with`; every method raises a ValueError for a damaged file."""

    def __init__(self, path: Path):
        self.path = path
        with ExitStack() as stack:
            with damage_in_one_line(path, _FORM):
                self._zip = stack.enter_context(zipfile.ZipFile(path))
            for name in (_CONFIG, _WEIGHTS):
                if name not in self:
                    first_members = self._zip.namelist()[:5]
                    members = ", ".join(first_members) or "none"
                    raise ValueError(f"{path} must be a .keras file with {name}, got {members}")

            info = self._zip.getinfo(_WEIGHTS)
            is_stored = info.compress_type == zipfile.ZIP_STORED
            # compressed, it is compared while it is unpacked
            self._sums = CheckSums(path, [info] if is_stored else [])
            self._stack = stack.pop_all()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._stack.close()

    def __contains__(self, name: str) -> bool:
        return name in self._zip.NameToInfo

    def text(self, name: str) -> bytes:
        """Return the bytes of a small member."""
        size = self._zip.getinfo(name).file_size
        most = bounds.GRAPH if name.endswith("config.json") else js.LARGEST
        if size > most:
            raise ValueError(f"{self.path}: {name} must have at most {most:,} bytes, got {size:,}")
        with damage_in_one_line(self.path, _FORM):
            return self._zip.read(name)

    def json(self, name: str, kind: js.Kind):
        """Return the content of a member in JSON, which must be of a kind."""
        return js.parse(self.text(name), kind, f"{self.path}: {name}")

    def tensors(self) -> dict[str, Tensor]:
        """Return every variable by its path in the HDF5 file, unread."""
        tensors = hdf5.list_tensors(self.path, self._weights, _FORM)
        with_check = {}
        for path, tensor in tensors.items():
            read = partial(self._read, tensor)
            with_check[path] = dataclasses.replace(tensor, read=read)
        return with_check

    def find_key(self, path: str) -> tuple[str, str, str] | None:
        """Return a variable's layer, sublayer ("": none) and number; None: it is an optimizer's."""
        levels = path.split("/")  # layers/dense_1[/query_dense]/vars/0
        if levels[0] != "layers" or len(levels) < 4:
            return None
        layer_path = "/".join([*levels[:2], "vars"])
        variables_path = "/".join(levels[:-1])
        with damage_in_one_line(self.path, _FORM):
            layer = self._weights[layer_path].attrs["name"]
            sublayer = ""
            if levels[4:]:
                sublayer = self._weights[variables_path].attrs["name"]
        return str(layer), str(sublayer), levels[-1]

    def _read(self, tensor: Tensor) -> np.ndarray:
        if self._sums.find_damaged():
            raise ValueError(f"{self.path} {_WHOLE}: a wrong check sum of {_WEIGHTS}")
        return tensor.read()

    @functools.cached_property
    def _weights(self):
        """The HDF5 file, within the zip; compressed, it is unpacked into a temporary file."""
        import h5py

        info = self._zip.getinfo(_WEIGHTS)
        file: IO[bytes] | _Part
        if info.compress_type == zipfile.ZIP_STORED:
            raw = self._stack.enter_context(self.path.open("rb"))
            start = self._start(raw, info)
            file = _Part(raw, start, info.file_size)
        else:
            packed = info.compress_size
            bounds.check_unpacked(self.path, info.filename, packed, info.file_size)
            file = tempfile.TemporaryFile(prefix="kbert-")  # noqa: SIM115
            self._stack.callback(file.close)
            with damage_in_one_line(self.path, _FORM), self._zip.open(info) as member:
                shutil.copyfileobj(member, file, _CHUNK)

        with damage_in_one_line(self.path, _FORM):
            return self._stack.enter_context(h5py.File(file, "r"))

    def _start(self, raw, info: zipfile.ZipInfo) -> int:
        """Return where a member's bytes begin: after its header, name and extra field."""
        raw.seek(info.header_offset)
        header = raw.read(30)
        if len(header) < 30 or header[:4] != b"PK\3\4":
            raise ValueError(f"{self.path} {_WHOLE}: no header of {info.filename}")
        lengths = struct.unpack("<HH", header[26:])
        return info.header_offset + 30 + sum(lengths)


class _Part(io.RawIOBase):
    """A part of an open file as a file of its own, to be read."""

    def __init__(self, file, start: int, size: int):
        self._file = file
        self._start = start
        self._size = size
        self._position = 0

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        bases = {
            os.SEEK_SET: 0,
            os.SEEK_CUR: self._position,
            os.SEEK_END: self._size,
        }
        self._position = bases[whence] + offset
        return self._position

    def readinto(self, buffer) -> int:
        left = max(0, self._size - self._position)
        view = memoryview(buffer).cast("B")[:left]
        self._file.seek(self._start + self._position)
        count = self._file.readinto(view)
        self._position += count
        return count
