"""Diagnosis of a step that is not finite: its first bad weight, layer output or gradient.

The engine does not apply such a step, so the weights are those at its start.
"""

import keras
import numpy as np

from kbert.data.training_batch import TrainingBatch
from kbert.io.wording import first_few
from kbert.model.stateless import flatten_sequences

EXAMPLES = 8  # examples whose layer outputs are held at a time


def find_first_bad(engine, batch: TrainingBatch, step: int, first_row: int = 0) -> str:
    """Name the first tensor, in the graph's order, that is not finite, and its examples' rows."""
    bad_weights = [weight.path for weight in engine.model.weights if not _is_finite(weight.value)]
    if bad_weights:
        return f"first bad: the weight {first_few(bad_weights, 1)}"

    bad_output = _find_bad_output(engine.model, batch, first_row)
    if bad_output is not None:
        return bad_output

    for name, weights in batch.weights.items():
        if not _is_finite(weights):
            return f"first bad: the batch's weights of {name}"

    if engine.backend.processes > 1:  # each may be here on another way: none can wait for another
        return "first bad: none before the gradients: weights and layer outputs are finite"
    return _find_bad_gradient(engine.gradients(batch, step))


def _find_bad_output(model: keras.Model, batch: TrainingBatch, first_row: int) -> str | None:
    """Name the first layer output that is not finite, and the rows of its examples."""
    layers: list[str] = []
    tensors = []
    for layer in model.layers:
        for tensor in keras.tree.flatten(layer.output):
            if "float" in tensor.dtype:
                layers.append(layer.name)
                tensors.append(tensor)

    probe = keras.Model(model.inputs, tensors)
    index = _first_bad_output(probe, batch)
    if index == len(tensors):
        return None

    bad_examples = []
    for n in range(len(batch)):
        example = batch.select(slice(n, n + 1))
        if _first_bad_output(probe, example) < len(tensors):
            bad_examples.append(first_row + n)
    where = ""
    if bad_examples:
        noun = "rows" if len(bad_examples) > 1 else "row"
        where = f"{noun} {first_few(bad_examples)}, "
    return f"{where}first bad: the output of {layers[index]}"


def _find_bad_gradient(gradients: dict) -> str:
    """Name the gradient nearest to the loss that is not finite."""
    bad = [name for name, gradient in gradients.items() if not _is_finite(gradient)]
    if not bad:
        return (
            "first bad: none: weights, layer outputs and gradients are finite, the sum of the "
            "gradients' squares is not"
        )
    more = f" and {len(bad) - 1} more before it in the graph" if len(bad) > 1 else ""
    return f"first bad: the gradient of {bad[-1]}{more}"


def _first_bad_output(probe: keras.Model, batch: TrainingBatch) -> int:
    """Return the index of the first output that is not finite, or the number of outputs."""
    first = len(probe.outputs)
    for start in range(0, len(batch), EXAMPLES):
        examples = batch.select(slice(start, start + EXAMPLES))
        inputs = flatten_sequences(examples.inputs)
        ordered = [inputs[tensor.name] for tensor in probe.inputs]
        values = probe(ordered, training=False)
        for index, value in enumerate(values):
            if not _is_finite(value):
                first = min(first, index)
                break
    return first


def _is_finite(tensor) -> bool:
    array = keras.ops.convert_to_numpy(tensor)
    return bool(np.isfinite(array).all())
