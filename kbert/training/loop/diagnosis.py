"""Diagnosis of a step that is not finite: its first bad weight, layer output or gradient.

The engine does not apply such a step, so the weights are those at its start.
"""

from dataclasses import dataclass

import keras
import numpy as np

from kbert.data.training_batch import TrainingBatch
from kbert.io.wording import first_few

ROWS = 8  # examples whose layer outputs are held at a time


@dataclass(frozen=True)
class Found:
    """The first tensor that is not finite.

    Attributes:
        tensor: which, in words.
        rows: examples of this process's part of the batch that have it; () where it is no matter
            of an example.
    """

    tensor: str
    rows: tuple[int, ...] = ()

    def text(self, first_row: int) -> str:
        """In words; `first_row` is the part's first row in the whole batch."""
        if not self.rows:
            return f"first bad: {self.tensor}"
        shown = first_few([first_row + row for row in self.rows])
        return f"row{'s' * (len(self.rows) > 1)} {shown}, first bad: {self.tensor}"


def first_bad(engine, batch: TrainingBatch, step: int) -> Found:
    """Look at the weights, then each layer's output in the graph's order, then the gradients."""
    model = engine.model
    if bad := bad_weights(model):
        return Found(f"the weight {first_few(bad, 1)}")
    outputs = _LayerOutputs(model)
    if layer := outputs.first_bad(batch):
        rows = tuple(row for row in range(len(batch)) if outputs.first_bad(_row(batch, row)))
        return Found(f"the output of {layer}", rows)
    if name := bad_label_weights(batch):
        return Found(name)
    if (
        engine.backend.processes > 1
    ):  # each may have come here on another way: none can wait for another
        return Found("none before the gradients: weights and layer outputs are finite")
    gradients = engine.gradients(batch, step)
    if bad := [name for name, gradient in gradients.items() if not _finite(gradient)]:
        more = f" and {len(bad) - 1} more before it in the graph" * (len(bad) > 1)
        return Found(f"the gradient of {bad[-1]}{more}")  # the nearest to the loss
    return Found(
        "none: weights, layer outputs and gradients are finite, the sum of the gradients' squares "
        "is not"
    )


def bad_weights(model) -> list[str]:
    """Paths of the weights that have NaN or infinity."""
    return [w.path for w in model.weights if not _finite(keras.ops.convert_to_numpy(w.value))]


class _LayerOutputs:
    """Output of each layer for a batch, in the graph's order; without dropout."""

    def __init__(self, model):
        outputs = [
            (layer.name, tensor)
            for layer in model.layers
            for tensor in keras.tree.flatten(layer.output)
            if "float" in tensor.dtype
        ]
        self.names = [name for name, _ in outputs]
        self.probe = keras.Model(model.inputs, [tensor for _, tensor in outputs])

    def first_bad(self, batch: TrainingBatch) -> str | None:
        """Return the first layer whose output is not finite."""
        first = len(self.names)
        for start in range(0, len(batch), ROWS):
            part = batch.rows(slice(start, start + ROWS))
            # those of records with several texts each are (B, C, S)
            given = [part.inputs[tensor.name] for tensor in self.probe.inputs]
            inputs = [a.reshape(-1, a.shape[-1]) if a.ndim > 2 else a for a in given]
            values = self.probe(inputs, training=False)
            bad = (place for place, value in enumerate(values) if not _finite(_numpy(value)))
            first = min(first, next(bad, first))
        return self.names[first] if first < len(self.names) else None


def bad_label_weights(batch: TrainingBatch) -> str | None:
    """Return the first output whose labels weigh a number that is not finite."""
    for name, weights in batch.weights.items():
        if not _finite(weights):
            return f"the batch's weights of {name}"
    return None


def _row(batch: TrainingBatch, row: int) -> TrainingBatch:
    return batch.rows(slice(row, row + 1))


def _numpy(tensor) -> np.ndarray:
    return keras.ops.convert_to_numpy(keras.ops.cast(tensor, "float32"))


def _finite(array: np.ndarray) -> bool:
    return bool(np.isfinite(array).all())
