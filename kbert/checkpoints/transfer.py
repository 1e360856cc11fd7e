"""Weights from a checkpoint's tensors into a built model: all is checked, then assigned."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kbert.checkpoints.tables import Template


@dataclass(frozen=True)
class Tensor:
    """A tensor of a checkpoint, not read yet.

    Attributes:
        name: its name in the file.
        shape: its shape.
        dtype: its dtype, as the file calls it.
        read: gives the numbers.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    read: Callable[[], np.ndarray]


@dataclass(frozen=True)
class Report:
    """What a transfer did.

    Attributes:
        assigned: names of the checkpoint's tensors that went into the model.
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
    entries: Sequence[tuple[Template, tuple[int, ...]]],
    tensors: Mapping[str, Tensor],
    *,
    allow_missing: Collection[str] = (),
    ignore: Collection[str] = (),
) -> Report:
    """Fills a model that kbert built from a checkpoint in torch's orientation.

    Args:
        model: the model.
        entries: table entries with the shape that each must have in the checkpoint.
        tensors: the checkpoint's, by their name in the table.
        allow_missing: names in the table that the checkpoint may lack.
        ignore: names of the checkpoint that the model need not have.

    Raises:
        ValueError: before anything is assigned, one that lists every missing, unexpected and
            mis-shaped tensor.
    """
    expected = {entry.transformers: shape for entry, shape in entries}
    missing = [name for name in expected if name not in tensors]
    unexpected = [name for name in tensors if name not in expected]
    problems = [f"missing: {name}" for name in missing if name not in allow_missing]
    problems += [f"unexpected: {name}" for name in unexpected if name not in ignore]
    problems += [
        f"shape of {name}: expected {shape}, found {tensors[name].shape}"
        for name, shape in expected.items()
        if name in tensors and tensors[name].shape != shape
    ]
    if problems:
        count = f"{len(problems)} problem{'s' if len(problems) > 1 else ''}"
        raise ValueError(f"the checkpoint does not fit the model, {count}: " + "; ".join(problems))
    layers = {layer.name: layer for layer in model.layers}
    not_finite = []
    for entry, _ in entries:
        if entry.transformers in missing:
            continue
        array = tensors[entry.transformers].read()
        if not np.isfinite(array.astype("float32", copy=False)).all():
            not_finite.append(entry.transformers)
        variable = variable_of(layers, entry)
        variable.assign(oriented(array, entry).reshape(variable.shape))
    return Report(
        tuple(name for name in expected if name in tensors),
        tuple(missing),
        tuple(unexpected),
        tuple(not_finite),
        tuple({entry.layer: None for entry, _ in entries if entry.transformers in missing}),
    )


def variable_of(layers: Mapping, entry: Template):
    """The Keras variable of a table entry."""
    (variable,) = (
        weight
        for weight in layers[entry.layer].weights
        if weight.path.endswith(f"/{entry.variable}")
    )
    return variable


def oriented(array: np.ndarray, entry: Template) -> np.ndarray:
    """torch's (outputs, inputs) as Keras's (inputs, outputs), and back; tables stay."""
    return array.T if entry.variable.endswith("kernel") else array
