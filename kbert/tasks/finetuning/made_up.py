"""Made-up outputs of a model, with which a user's loss and metrics are tried before a run."""

from collections.abc import Callable, Mapping

import numpy as np

from kbert.data.training_batch import TrainingBatch
from kbert.graph.names import SEQUENCE_MASK, TOKEN_IDS
from kbert.graph.spec import GraphSpec


def make_up_predictions(spec: GraphSpec) -> Callable:
    """Return a function that stands for a model: random outputs of its shapes, for inputs."""
    rng = np.random.default_rng(0)

    def predict(inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        count, length = inputs[TOKEN_IDS].shape
        shapes = {
            "tokens": (count, length, spec.num_labels),
            "qa": (count, length),
            "choice": (count, 1),
            "encoder": (count, spec.config.hidden_size),  # an embedding
        }
        shape = shapes.get(spec.head, (count, spec.num_labels))
        outputs = ["embedding"] if spec.head == "encoder" else spec.outputs
        return [rng.standard_normal(shape).astype(np.float32) for _ in outputs]

    return predict


def make_up_logits(spec: GraphSpec, batch: TrainingBatch) -> dict[str, np.ndarray]:
    """Return random logits for the labels of a batch, by output."""
    rng = np.random.default_rng(0)
    outputs = {}
    for name, labels in batch.labels.items():
        if SEQUENCE_MASK in batch.inputs:
            shape = batch.inputs[SEQUENCE_MASK].shape
        elif spec.head == "qa":
            shape = batch.inputs[TOKEN_IDS].shape
        elif spec.head == "tokens":
            shape = (*labels.shape, spec.num_labels)
        else:
            shape = (len(labels), spec.num_labels)
        outputs[name] = rng.standard_normal(shape).astype(np.float32)
    return outputs


def repeat_examples(batch: TrainingBatch, classes: int) -> TrainingBatch:
    """Return a batch whose number of examples is that of no other axis.

    A loss that compares examples with classes fails on it. It would compute a wrong number of a
    batch with as many examples as classes.
    """
    taken = {1, classes}
    arrays = [*batch.inputs.values(), *batch.labels.values()]
    for array in arrays:
        taken.update(array.shape[1:])
    count = 2
    while count in taken:
        count += 1
    indices = np.arange(count)

    def repeat(group: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        repeated = {name: array[indices % len(array)] for name, array in group.items()}
        return repeated

    inputs = repeat(batch.inputs)
    labels = repeat(batch.labels)
    weights = repeat(batch.weights)
    return TrainingBatch(inputs, labels, weights)
