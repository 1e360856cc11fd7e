"""Weights between a checkpoint's tensors and a built model: all is checked, then filled in."""

import hashlib
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from functools import partial

import numpy as np

from kbert.checkpoints import weight_names
from kbert.checkpoints.checkpoint import Tensor
from kbert.checkpoints.weight_names import Entry
from kbert.graph.spec import GraphSpec
from kbert.model import deferred

# NumPy's and torch's names, and safetensors'; F8_E4M3 and others that need a scale are none
_FLOATING = re.compile(r"b?float(16|32|64)|B?F(16|32|64)")
_ALIGNMENT = 64  # bytes
_COLUMNS = 32  # that are transposed at a time, of so many lines: 2 to 5 times faster than all


@dataclass(frozen=True)
class TransferReport:
    """The result of a transfer of weights; names are those of the checkpoint's format.

    Attributes:
        assigned: tensors of the checkpoint that were assigned to the model.
        initialized: newly initialized parameters: the checkpoint lacks them, or marks them as saved
            before any training.
        ignored: tensors of the checkpoint for which the model has no weight.
        not_finite: tensors with NaN or infinity.
        initialized_layers: the kbert layers of `initialized`.
        first_values: a digest of the initial weights of each of those layers.
    """

    assigned: tuple[str, ...]
    initialized: tuple[str, ...]
    ignored: tuple[str, ...]
    not_finite: tuple[str, ...]
    initialized_layers: tuple[str, ...] = ()
    first_values: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        names = [attribute.name for attribute in fields(self) if attribute.repr]
        counts = [f"{name}: {len(getattr(self, name))}" for name in names]
        return f"TransferReport({', '.join(counts)})"


def problems(
    entries: Sequence[Entry],
    tensors: Mapping[str, Tensor],
    *,
    allow_missing: Collection[str] = (),
    ignore: Collection[str] = (),
) -> list[str]:
    """Return why a checkpoint does not fit: missing, unexpected and mismatched tensors."""
    expected = {entry.name for entry in entries}
    missing = []
    shapes = []
    dtypes = []
    for entry in entries:
        tensor = tensors.get(entry.name)
        if tensor is None:
            if entry.name not in allow_missing:
                missing.append(f"missing: {entry.name}")
            continue
        shape = tuple(tensor.shape)
        if shape != entry.shape:
            shapes.append(f"shape of {entry.name}: expected {entry.shape}, found {shape}")
        if not _FLOATING.fullmatch(str(tensor.dtype)):
            dtypes.append(f"dtype of {entry.name}: expected floating point, found {tensor.dtype}")

    unexpected = [
        f"unexpected: {name}" for name in tensors if name not in expected and name not in ignore
    ]
    return [*missing, *unexpected, *shapes, *dtypes]


def fill(model, entries: Sequence[Entry], tensors: Mapping[str, Tensor]) -> list[str]:
    """Fill a model that was built within `deferred.defer_values`; return what is not finite."""
    present = [entry for entry in entries if entry.name in tensors]
    not_finite: list[str] = []
    # After the model is built: the threads and Keras's Python would wait for each other. Most of
    # the time goes into new memory.
    with ThreadPoolExecutor(3) as threads:
        arrays = {}
        for entry in present:
            tensor = tensors[entry.name]
            arrays[entry.name] = threads.submit(read_array, tensor, entry, not_finite)

        def take(name: str, shape: tuple[int, ...]) -> np.ndarray:
            return arrays.pop(name).result().reshape(shape)  # and its memory is let go

        values: dict[str, Callable[[], np.ndarray]] = {}
        for entry in present:
            variable = variable_of(model, entry)
            values[variable.path] = partial(take, entry.name, variable.shape)

        try:
            deferred.fill(model, values)
        finally:
            threads.shutdown(cancel_futures=True)
    return not_finite


def read_array(tensor: Tensor, entry: Entry, not_finite: list[str]) -> np.ndarray:
    """Return the numbers, float32, rows first, at an address that every backend can keep."""
    array = tensor.read()
    if entry.outputs_first:
        array = array.T
    copy = _empty(array.shape)
    with np.errstate(over="ignore"):  # a float64 beyond float32 becomes infinite: said by name
        _copy(array, copy)
    if not is_finite(copy):
        not_finite.append(entry.name)
    return copy


def _empty(shape: tuple[int, ...]) -> np.ndarray:
    """Return an array of float32, not filled, at an address that every backend takes uncopied."""
    size = math.prod(shape) * 4
    memory = np.empty(size + _ALIGNMENT, "u1")
    start = -memory.ctypes.data % _ALIGNMENT
    octets = memory[start : start + size]
    return octets.view("float32").reshape(shape)


def _copy(array: np.ndarray, to: np.ndarray) -> None:
    """Fill an array of float32, and leave Python's lock to others meanwhile."""
    if array.ndim == 2 and not array.flags.c_contiguous:
        array = array.astype("float32", copy=False)
        whole = to.shape[1] // _COLUMNS * _COLUMNS
        source = _blocks(array[:, :whole])
        target = _blocks(to[:, :whole])
        np.positive(source, out=target, order="C")
        array = array[:, whole:]
        to = to[:, whole:]
    np.copyto(to, array, casting="unsafe")


def _blocks(array: np.ndarray) -> np.ndarray:
    """[rows, columns] as [blocks, rows, columns of a block]; as whole numbers, NumPy is faster."""
    height, columns = array.shape
    blocks = array.view("i4").reshape(height, columns // _COLUMNS, _COLUMNS)
    return blocks.transpose(1, 0, 2)


def check_whole(model, spec: GraphSpec) -> None:
    """Raise a ValueError unless a model's weights are exactly those of a spec's graph."""
    from kbert.model.layers.quantized import refuse_quantized  # imports Keras

    refuse_quantized(model.layers)
    entries = weight_names.entries_of(spec, "kbert")
    expected = {entry.name: entry.shape for entry in entries}
    shapes = {}
    for layer in model.layers:
        for weight in layer.weights:
            name = weight.path.rpartition(f"{layer.name}/")[2]
            shapes[f"{layer.name}/{name}"] = tuple(weight.shape)

    lines = [f"{name} has no place" for name in shapes if name not in expected]
    lines += [f"{name} is not in the model" for name in expected if name not in shapes]
    for name, shape in expected.items():
        if shapes.get(name, shape) != shape:
            lines.append(f"{name} is {shapes[name]}, not {shape}")
    if lines:
        shown = lines[:3]
        if len(lines) > 3:
            shown.append(f"and {len(lines) - 3} more")
        raise ValueError(
            f"the model must fit its configuration and head {spec.head}, got another: "
            f"{'; '.join(shown)}"
        )


def arrays_of(model, entries: Sequence[Entry]) -> dict[str, np.ndarray]:
    """Return the model's parameters by the names of a format, in its shapes, float32."""
    import keras

    arrays = {}
    for entry in entries:
        variable = variable_of(model, entry)
        array = keras.ops.convert_to_numpy(variable)
        array = array.astype("float32", copy=False)
        if entry.outputs_first:
            array = array.reshape(entry.shape[::-1])
            array = np.ascontiguousarray(array.T)
        arrays[entry.name] = array.reshape(entry.shape)
    return arrays


def variable_of(model, parameter):
    """Return the Keras variable of an `Entry`, or of another with a layer and a variable."""
    ending = f"/{parameter.variable}"
    weights = model.get_layer(parameter.layer).weights
    (variable,) = [weight for weight in weights if weight.path.endswith(ending)]
    return variable


def is_finite(array: np.ndarray) -> bool:
    """Return whether no number is NaN or infinite."""
    if not np.issubdtype(array.dtype, np.floating):  # bfloat16 is none to NumPy
        array = array.astype("float32")
    with np.errstate(all="ignore"):  # a product of finite numbers may overflow: looked at again
        if array.flags.c_contiguous and np.isfinite(np.vdot(array, array)):  # the fastest pass
            return True
        return bool(np.isfinite(array).all())


def weights_digest(bert, without: Collection[str] = ()) -> str:
    """Return a hash of all weights and labels, 16 hexadecimal digits, on every backend the same.

    `without` names layers that are left out.
    """
    digest = hashlib.blake2b(digest_size=8)
    labels = "\n".join(bert.labels or ())
    digest.update(labels.encode())
    for layer in bert.model.layers:
        if layer.name in without:
            continue
        for array in layer.get_weights():
            digest.update(f"{layer.name} {array.shape} {array.dtype}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
