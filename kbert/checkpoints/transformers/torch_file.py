"""torch's pickle of tensors, pytorch_model.bin: by torch's loader, which runs no code of it."""

import mmap
import warnings
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from kbert.checkpoints.checkpoint import Tensor
from kbert.checkpoints.zip_archive import CheckSums
from kbert.io import bounds, extras
from kbert.io.wording import first_few

# Where training code keeps the weights: Lightning, PyTorch's tutorials, timm, DeepSpeed, fairseq.
_STATE_KEYS = ("state_dict", "model_state_dict", "model", "module", "net")
_ALLOCATES = b"\nbytearray\n"  # the loader calls it with any number: no tensor is made of it


def tensors_of(file: Path) -> list[Tensor]:
    """Return every tensor of the file, unread; check sums are compared with the first numbers."""
    extras.require(str(file), "torch", "torch", instead="or save it as model.safetensors")
    import torch

    state, sums = _load(torch, file)
    if not isinstance(state, dict):
        raise ValueError(f"{file} must hold tensors by name, got a {type(state).__name__}")

    # a training checkpoint's key comes before the names
    models = [key for key in _STATE_KEYS if _is_state(torch, state.get(key))]
    if len(models) > 1:
        raise ValueError(f"{file} must hold one model, got several: {', '.join(models)}")
    if models:
        key = models[0]
        model_state = state[key]
        state = {f"{key}.{name}": value for name, value in model_state.items()}

    bounds.check_count(file, len(state))
    _refuse_others(torch, file, state)
    tensors = []
    for name, value in state.items():
        dtype = str(value.dtype).removeprefix("torch.")
        read = partial(_read, file, sums, value)
        shape = tuple(value.shape)
        tensors.append(Tensor(name, shape, dtype, read))
    return tensors


def _load(torch, file: Path) -> tuple[Any, CheckSums]:
    """Load a file, its tensors mapped if it is a zip; return it and the check sums in it."""
    try:
        is_zip = zipfile.is_zipfile(file)
        sums = CheckSums(file, _check_zip(file) if is_zip else [])
        with warnings.catch_warnings(action="ignore"):  # about the pickle's protocol
            if not is_zip:
                return _load_old(torch, file), sums
            state = torch.load(file, map_location="cpu", weights_only=True, mmap=True)
            return state, sums
    except Exception as error:  # whatever a damaged file makes of an unpickler
        why = _why(error)
        raise ValueError(f"{file} must be a whole file of torch.save, got: {why}") from None


def _refuse_others(torch, file: Path, state: dict) -> None:
    """Raise a ValueError for all that is not a plain tensor with a name."""
    refused = []
    for name, value in state.items():
        if not _is_plain(torch, name, value):
            refused.append(f"{name!r} ({type(value).__name__})")
    if refused:
        few = first_few(refused)
        raise ValueError(f"{file} must hold plain tensors by name alone, got {few}")


def _is_state(torch, value) -> bool:
    """Return whether a value of a training checkpoint is the weights of a model by name."""
    if not isinstance(value, dict) or not value:
        return False
    return all(isinstance(tensor, torch.Tensor) for tensor in value.values())


def _load_old(torch, file: Path):
    """Load a file of before torch 1.6, which is no zip: pickles, then numbers up to its end."""
    with open(file, "rb") as raw, mmap.mmap(raw.fileno(), 0, access=mmap.ACCESS_READ) as pickled:
        _check_pickle(pickled)
        state = torch.load(raw, map_location="cpu", weights_only=True)
        surplus = len(pickled) - raw.tell()
        if surplus:
            raise _FileProblem(f"{surplus:,} bytes more than it says")
    return state


def _read(file: Path, sums: CheckSums, value) -> np.ndarray:
    damaged = sums.find_damaged()
    if damaged:
        raise ValueError(
            f"{file} must be a whole file of torch.save, got a wrong check sum of {damaged}"
        )
    return value.detach().float().numpy()


class _FileProblem(ValueError):
    """Error that says what the file is."""


def _check_zip(file: Path) -> list[zipfile.ZipInfo]:
    """Return the members of torch.save's zip that have check sums; they lie in it as they are."""
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise _FileProblem("a compressed archive, which torch.save does not write")
        size = sum(member.file_size for member in members)
        if size > file.stat().st_size:
            raise _FileProblem("members that lie over each other")

        pickles = [member for member in members if member.filename.endswith("/data.pkl")]
        (pickled,) = pickles
        if pickled.file_size > bounds.HEADER:
            raise _FileProblem(f"a data.pkl of {pickled.file_size:,} bytes")
        # torch.serialization.set_crc32_options(False) leaves them out
        has_sums = any(member.CRC for member in members)
        if not has_sums:
            del pickled.CRC  # zipfile then compares none
        _check_pickle(archive.read(pickled))
    return members if has_sums else []


def _check_pickle(pickled: bytes | mmap.mmap) -> None:
    if pickled.find(_ALLOCATES) >= 0:
        raise _FileProblem("bytearray, which is no tensor (kbert unpickles nothing else)")


def _why(error: Exception) -> str:
    """Return the message of torch's loader, without its advice to load the file unsafely."""
    text = " ".join(str(error).split())
    if isinstance(error, _FileProblem):
        return text
    for mark in ("Unsupported global:", "Trying to load unsupported GLOBAL"):
        if mark in text:
            after_mark = text.split(mark, 1)[1]
            names = after_mark.replace("GLOBAL", "")
            name = names.split()[0]
            return f"{name}, which is no tensor (kbert unpickles nothing else)"
    return "another file, or a part of one"


def _is_plain(torch, name, value) -> bool:
    if not isinstance(name, str) or not isinstance(value, torch.Tensor):
        return False
    if value.layout != torch.strided or value.is_quantized:
        return False
    if value.device.type != "cpu":
        return False
    # Fewer numbers in the file than in the tensor: strides of 0 make gigabytes of one.
    size = value.numel() * value.element_size()
    return size <= value.untyped_storage().nbytes()
