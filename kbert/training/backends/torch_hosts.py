"""torch.distributed for several processes, one per device: they meet, and sum tensors.

torchrun starts them, or whoever gives each the variables that torchrun would. On a CPU they talk by
gloo, on GPUs by nccl, which is untested.
"""

import contextlib
import functools
import os
import sys
from collections.abc import Iterator
from datetime import timedelta

import torch
import torch.distributed as dist

from kbert.training.backends import hosts
from kbert.training.backends.hosts import number_in
from kbert.training.stopping import ProcessFailed

_COUNT, _NUMBER, _GPU = "WORLD_SIZE", "RANK", "LOCAL_RANK"
_HOST, _PORT = "MASTER_ADDR", "MASTER_PORT"
_START_THEM = ": start the processes by torchrun, or give each"
_SUM_TIMEOUT = timedelta(minutes=30)  # the others wait in a sum while one writes a state
BUCKET_BYTES = 25 << 20  # not a wait for each weight, nor a copy of all of them at once


def start(timeout_s: float = hosts.HOST_TIMEOUT_S) -> tuple[int, int]:
    """Meet the other processes, once, and take a GPU; return this one's number, and the count."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    if not os.environ.get(_COUNT):
        return 0, 1
    rule = "a whole number of at least 1, as many as there are processes"
    count = number_in(_COUNT, range(1, sys.maxsize), rule, f"{_START_THEM} the same")
    if count == 1 and not os.environ.get(_NUMBER):
        return 0, 1
    rule = f"0 … {count - 1}, since {_COUNT} is {count}"
    mine = number_in(_NUMBER, range(count), rule, f"{_START_THEM} its own")
    if count > 1:
        _meet(mine, count, timeout_s)
    return mine, count


def sum_tensors(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Sum over all processes, bit-identical in each, into new tensors."""
    sums: list[torch.Tensor] = []
    for bucket in _buckets(tensors):
        flat = torch.cat([tensor.reshape(-1) for tensor in bucket])
        with _explain_errors():
            dist.all_reduce(flat, group=make_group())  # SUM
        sizes = [tensor.numel() for tensor in bucket]
        pieces = flat.split(sizes)
        for piece, tensor in zip(pieces, bucket, strict=True):
            sums.append(piece.view(tensor.shape))
    return sums


def gather_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """Gather a tensor of all processes, (processes, …), bit-identical in each; no gradients."""
    tensor = tensor.detach().contiguous()
    count = dist.get_world_size()
    gathered = [torch.empty_like(tensor) for _ in range(count)]
    with _explain_errors("gathering"):
        dist.all_gather(gathered, tensor, group=make_group())
    return torch.stack(gathered)


def take_from_first(tensors: list[torch.Tensor]) -> None:
    """Set contiguous tensors to what process 0 has; a ProcessFailed where one is gone."""
    with _explain_errors():
        for tensor in tensors:
            dist.broadcast(tensor, 0, group=make_group())


def _buckets(tensors: list[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
    """Yield the same in order, together while they are of one dtype and not too many bytes."""
    bucket: list[torch.Tensor] = []
    for tensor in tensors:
        size = sum(other.nbytes for other in bucket) + tensor.nbytes
        if bucket and (size > BUCKET_BYTES or tensor.dtype != bucket[0].dtype):
            yield bucket
            bucket = []
        bucket.append(tensor)
    if bucket:
        yield bucket


@contextlib.contextmanager
def _explain_errors(what: str = "sum") -> Iterator[None]:
    """Turn a RuntimeError of torch.distributed into a ProcessFailed."""
    try:
        yield
    except RuntimeError as error:
        raise ProcessFailed(f"the {what} over processes failed: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    line = str(error).partition("\n")[0]
    _, _, reason = line.partition("] ")  # without the place in gloo's code
    reason = reason or line
    return reason.rstrip(".")


@functools.cache
def make_group():
    """Make the group of all processes for sums, once.

    It is one of its own: at the start each waits less long for the others than in a sum.
    """
    return dist.new_group(timeout=_SUM_TIMEOUT)


def _meet(mine: int, count: int, timeout_s: float) -> None:
    """Join the other processes; a TimeoutError where one of them is absent."""
    if not dist.is_available():
        raise ValueError(
            f"{_COUNT} must be 1 with this torch, built without torch.distributed, got {count}"
        )
    address = _read_address()
    # whether Keras computes on a CUDA GPU
    device = os.environ.get("KERAS_TORCH_DEVICE", "cuda")
    on_gpu = torch.cuda.is_available() and "cuda" in device
    if on_gpu:
        torch.cuda.set_device(_choose_gpu())  # Keras's device is "cuda": the one set here
    if mine == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":  # torchrun's store
        with hosts.listen(address, _PORT):
            pass  # the port is free: torch's own message would be many lines

    try:
        timeout = timedelta(seconds=timeout_s)
        dist.init_process_group("nccl" if on_gpu else "gloo", timeout=timeout)
        make_group()
    except RuntimeError as error:
        raise TimeoutError(
            f"not all of the {count} processes met at {address} within {timeout_s:.0f} s "
            f"({_reason(error)}): start each with the same {_HOST} and {_PORT} and its own "
            f"{_NUMBER}, or lower {_COUNT}"
        ) from None


def _read_address() -> str:
    """Return host:port of process 0, from the environment."""
    host = os.environ.get(_HOST, "").strip()
    if not host:
        raise ValueError(
            f"{_HOST} must name the host of process 0, 127.0.0.1 if all are on one, got "
            f"{os.environ.get(_HOST)!r}{_START_THEM} the same"
        )
    rule = "a free port of process 0's host, 1 … 65535"
    port = number_in(_PORT, range(1, 1 << 16), rule, f"{_START_THEM} the same")
    return f"{host}:{port}"


def _choose_gpu() -> int:
    """Return the number of this process's GPU."""
    gpus = torch.cuda.device_count()
    if gpus <= 1 and not os.environ.get(_GPU):
        return 0
    rule = f"0 … {gpus - 1}, one of the GPUs that this process sees"
    instead = f": start at most one process a GPU, by torchrun --nproc-per-node={gpus}"
    return number_in(_GPU, range(gpus), rule, instead)
