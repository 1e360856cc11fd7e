"""Weights between a checkpoint's tensors and a built model: all is checked, then assigned."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kbert.checkpoints.checkpoint import Tensor
from kbert.checkpoints.tables import Entry


@dataclass(frozen=True)
class Report:
    """What a transfer did; names are those of the checkpoint's format.

    Attributes:
        assigned: the checkpoint's tensors that went into the model.
        initialized: parameters that the checkpoint lacks, left at their first weights.
        ignored: tensors of the checkpoint that the model has no place for.
        not_finite: tensors that hold NaN or infinity.
        initialized_layers: the kbert layers that `initialized` belongs to.
    """

    assigned: tuple[str, ...]
    initialized: tuple[str, ...]
    ignored: tuple[str, ...]
    not_finite: tuple[str, ...]
    initialized_layers: tuple[str, ...] = ()


def assign(
    model,
    entries: Sequence[Entry],
    tensors: Mapping[str, Tensor],
    *,
    allow_missing: Collection[str] = (),
    ignore: Collection[str] = (),
) -> Report:
    """Fills a model that kbert built from a checkpoint.

    Args:
        model: the model.
        entries: the model's parameters as the checkpoint's format has them.
        tensors: the checkpoint's, by their names there.
        allow_missing: names that the checkpoint may lack.
        ignore: names of the checkpoint that the model need not have.

    Raises:
        ValueError: before anything is assigned, one that lists every missing, unexpected and
            mis-shaped tensor.
    """
    expected = {entry.name for entry in entries}
    missing = [entry for entry in entries if entry.name not in tensors]
    unexpected = [name for name in tensors if name not in expected]
    problems = [f"missing: {entry.name}" for entry in missing if entry.name not in allow_missing]
    problems += [f"unexpected: {name}" for name in unexpected if name not in ignore]
    present = [entry for entry in entries if entry.name in tensors]
    problems += [
        f"shape of {entry.name}: expected {entry.shape}, found {tensors[entry.name].shape}"
        for entry in present
        if tensors[entry.name].shape != entry.shape
    ]
    if problems:
        count = f"{len(problems)} problem{'s' if len(problems) > 1 else ''}"
        raise ValueError(f"the checkpoint does not fit the model, {count}: " + "; ".join(problems))
    layers = {layer.name: layer for layer in model.layers}
    not_finite = []
    for entry in present:
        array = tensors[entry.name].read()
        if not is_finite(array):
            not_finite.append(entry.name)
        variable = variable_of(layers, entry)
        variable.assign((array.T if entry.outputs_first else array).reshape(variable.shape))
    return Report(
        tuple(entry.name for entry in present),
        tuple(entry.name for entry in missing),
        tuple(unexpected),
        tuple(not_finite),
        tuple(dict.fromkeys(entry.layer for entry in missing)),
    )


def arrays_of(model, entries: Sequence[Entry]) -> dict[str, np.ndarray]:
    """The model's parameters by the names of a format, in its shapes, float32."""
    import keras

    layers = {layer.name: layer for layer in model.layers}
    arrays = {}
    for entry in entries:
        array = keras.ops.convert_to_numpy(variable_of(layers, entry)).astype("float32", copy=False)
        shape = entry.shape[::-1] if entry.outputs_first else entry.shape
        array = array.reshape(shape)
        arrays[entry.name] = np.ascontiguousarray(array.T) if entry.outputs_first else array
    return arrays


def variable_of(layers: Mapping, entry: Entry):
    """The Keras variable of a parameter."""
    (variable,) = (
        weight
        for weight in layers[entry.layer].weights
        if weight.path.endswith(f"/{entry.variable}")
    )
    return variable


def is_finite(array: np.ndarray) -> bool:
    """Whether no number is NaN or infinite."""
    if not np.issubdtype(array.dtype, np.floating):  # bfloat16 is none to NumPy
        array = array.astype("float32")
    with np.errstate(all="ignore"):  # a sum of finite numbers may overflow: looked at again
        return bool(np.isfinite(array.sum(dtype="float64")) or np.isfinite(array).all())
