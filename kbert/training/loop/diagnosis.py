"""Diagnosis of a step that is not finite: its first bad weight, layer output or gradient.

The engine does not apply such a step, so the weights are those at its start.
"""

import keras
import numpy as np

from kbert.data.training_batch import TrainingBatch
from kbert.io.wording import first_few
from kbert.training.gradient_checkpointing import flatten_sequences

EXAMPLES = 8  # examples whose layer outputs are held at a time


def find_first_bad(engine, batch: TrainingBatch, step: int, first_row: int = 0) -> str:
    """Name the first tensor, in the graph's order, that is not finite, and its examples' rows."""
    model = engine.model
    if bad := [weight.path for weight in model.weights if not _is_finite(weight.value)]:
        return f"first bad: the weight {first_few(bad, 1)}"
    outputs = [
        (layer.name, tensor)
        for layer in model.layers
        for tensor in keras.tree.flatten(layer.output)
        if "float" in tensor.dtype
    ]
    probe = keras.Model(model.inputs, [tensor for _, tensor in outputs])
    if (index := _first_bad_output(probe, batch)) < len(outputs):
        examples = [batch.select(slice(n, n + 1)) for n in range(len(batch))]
        is_bad = [_first_bad_output(probe, example) < len(outputs) for example in examples]
        bad = (first_row + np.flatnonzero(is_bad)).tolist()
        where = f"row{'s' * (len(bad) > 1)} {first_few(bad)}, " if bad else ""
        return f"{where}first bad: the output of {outputs[index][0]}"
    for name, weights in batch.weights.items():
        if not _is_finite(weights):
            return f"first bad: the batch's weights of {name}"
    if engine.backend.processes > 1:  # each may be here on another way: none can wait for another
        return "first bad: none before the gradients: weights and layer outputs are finite"
    gradients = engine.gradients(batch, step)
    if bad := [name for name, gradient in gradients.items() if not _is_finite(gradient)]:
        more = f" and {len(bad) - 1} more before it in the graph" * (len(bad) > 1)
        return f"first bad: the gradient of {bad[-1]}{more}"  # the nearest to the loss
    return (
        "first bad: none: weights, layer outputs and gradients are finite, the sum of the "
        "gradients' squares is not"
    )


def _first_bad_output(probe: keras.Model, batch: TrainingBatch) -> int:
    """Return the index of the first output that is not finite, or the number of outputs."""
    first = len(probe.outputs)
    for start in range(0, len(batch), EXAMPLES):
        inputs = flatten_sequences(batch.select(slice(start, start + EXAMPLES)).inputs)
        values = probe([inputs[tensor.name] for tensor in probe.inputs], training=False)
        bad = (index for index, value in enumerate(values) if not _is_finite(value))
        first = min(first, next(bad, first))
    return first


def _is_finite(tensor) -> bool:
    return bool(np.isfinite(keras.ops.convert_to_numpy(tensor)).all())
