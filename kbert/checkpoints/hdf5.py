"""HDF5 files: the tensors in a file or in one of its groups."""

import contextlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from kbert.checkpoints.checkpoint import Tensor
from kbert.io import bounds
from kbert.io.bounds import damage_in_one_line

_SIGNATURE = b"\x89HDF\r\n\x1a\n"
KBERT_PACKAGE = "kbert>"  # before the names of kbert's classes in a model_config


@contextlib.contextmanager
def open_file(file: Path) -> Iterator:
    """Open the file with h5py; raise a ValueError if it is damaged."""
    import h5py

    with damage_in_one_line(file, "HDF5"):
        handle = h5py.File(file, "r")
    with handle:
        _check_length(file)
        yield handle


def _check_length(file: Path) -> None:
    """Raise a ValueError for more bytes than the header says: HDF5 reads shifted numbers then.

    The header is the "superblock" of the HDF5 File Format Specification, section II.A.
    """
    with open(file, "rb") as opened:
        header = opened.read(48)
    is_old = header[8:9] < b"\2"  # version 0 or 1
    addresses = header[24:48] if is_old else header[12:36]
    base = addresses[:8]
    length = int.from_bytes(addresses[16:24], "little")
    if not header.startswith(_SIGNATURE) or any(base):  # a file with a user's block before it
        return

    size = file.stat().st_size
    if size > length:
        raise ValueError(
            f"{file} must be a whole HDF5 file of {length:,} bytes, as its header says, got "
            f"{size:,} bytes"
        )


@contextlib.contextmanager
def open_tensors(*files: Path) -> Iterator[dict[str, Tensor]]:
    """Open every dataset of some files by its path there, unread."""
    tensors: dict[str, Tensor] = {}
    with contextlib.ExitStack() as stack:
        for file in files:
            tensors |= list_tensors(file, stack.enter_context(open_file(file)))
        yield tensors


def recognize_model(path: Path) -> str | None:
    """Return the format of the model in a .h5; one of no other is taken for keras_bert's."""
    if path.suffix not in (".h5", ".hdf5") or not path.is_file():
        return None
    with contextlib.suppress(ValueError), open_file(path) as file:
        if f'"{KBERT_PACKAGE}TokenEmbedding"' in read_text(path, file, "model_config"):
            return "keras"
        if any("/word_embeddings/" in name for name in list_tensors(path, file)):
            return "transformers"
    return "keras_bert"


def read_text(file: Path, group, name: str) -> str:
    """Return an attribute of an open file or group as text; "" without it."""
    with damage_in_one_line(file, "HDF5"):
        text = group.attrs.get(name, "")
    if isinstance(text, bytes):
        return text.decode(errors="replace")
    return str(text)


def list_tensors(file: Path, group, form: str = "HDF5") -> dict[str, Tensor]:
    """Return every dataset of an open group by its path there, unread; follow no links elsewhere.

    Raise a ValueError for a damaged or too large file, or a dataset without its own numbers.
    """
    import h5py

    datasets = {}
    count = 0
    is_too_much = False

    def visit(path: str, item) -> bool | None:
        nonlocal count, is_too_much
        count += 1
        is_too_much = count > bounds.OBJECTS or path.count("/") > bounds.DEPTH
        if isinstance(item, h5py.Dataset):
            datasets[path] = item
        return is_too_much or None  # but for None it ends

    with damage_in_one_line(file, form):
        group.visititems(visit)
        lacking = _find_lacking(datasets)
        size = group.file.id.get_filesize()
        filled = [dataset for dataset in datasets.values() if dataset.shape is not None]
        sizes = [dataset.nbytes for dataset in filled]

    if is_too_much:
        raise ValueError(
            f"{file} must have at most {bounds.OBJECTS:,} groups and datasets, {bounds.DEPTH} "
            "within each other, got more"
        )
    bounds.check_count(file, len(datasets))
    if lacking:
        raise ValueError(f"{file} must hold its own numbers, got {lacking}")
    bounds.check_unpacked(file, "its datasets", size, sum(sizes))
    tensors = {}
    for path, dataset in datasets.items():
        tensors[path] = _make_tensor(file, path, dataset, form)
    return tensors


def _make_tensor(file: Path, path: str, dataset, form: str) -> Tensor:
    """Return a dataset's tensor; Keras stores bfloat16 as bytes, and an attribute says so."""
    with damage_in_one_line(file, form):
        dtype = str(dataset.dtype)
        stated = str(dataset.attrs.get("dtype", dataset.dtype))
    kind = dataset.dtype
    is_bfloat16 = stated == "bfloat16" and kind.kind == "V" and kind.itemsize == 2
    if stated != dtype and not is_bfloat16:
        raise ValueError(f"{file}: {path} must be of the dtype that it says, {stated}, got {dtype}")
    read = partial(_read, file, dataset, stated, form)
    return Tensor(path, dataset.shape, stated, read)


def _read(file: Path, dataset, dtype: str, form: str) -> np.ndarray:
    with damage_in_one_line(file, form):
        array = dataset[()]
    if dtype == "bfloat16":
        import ml_dtypes

        return array.view(ml_dtypes.bfloat16)
    return array


def _find_lacking(datasets: dict) -> str | None:
    """Return the first dataset with its numbers elsewhere or nowhere: HDF5 would return zeros."""
    for path, item in datasets.items():
        if item.shape is None:  # HDF5's null dataspace
            return f"{path} without any"
        if item.external or item.is_virtual:
            return f"{path} in another file"

        filters = item.id.get_create_plist().get_nfilters()
        is_plain = item.chunks is None and filters == 0
        size = item.id.get_storage_size()
        if item.nbytes and not size:
            return f"{path} without any"
        if is_plain and size != item.nbytes:
            return f"{path} with {size:,} bytes for {item.nbytes:,}"
    return None
