"""Training batches, each of which depends on nothing but its step."""

import abc
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class TrainingBatch:
    """Some or all examples of a training step.

    Attributes:
        inputs: int32 arrays by the name of the model's input, (B, …). Of examples with C sequences
            each (B, C, S), and `SEQUENCE_MASK`, (B, C): 0 where an example has fewer.
        labels: int32 or float32 arrays by the name of the model's output, see
            `kbert.training.losses.loss`.
        weights: float32, by output, in the labels' shape: the weight of each label's loss. They are
            already divided by the totals of the whole step, over all hosts, so the loss is the
            plain sum of weight × loss, however the batch is split.
    """

    inputs: dict[str, np.ndarray]
    labels: dict[str, np.ndarray]
    weights: dict[str, np.ndarray]

    def __len__(self) -> int:
        return len(next(iter(self.inputs.values())))

    def select(self, part: slice) -> "TrainingBatch":
        """Return some of the examples, with unchanged weights."""
        return TrainingBatch(
            _slice_arrays(self.inputs, part),
            _slice_arrays(self.labels, part),
            _slice_arrays(self.weights, part),
        )


def _slice_arrays(arrays: dict[str, np.ndarray], part: slice) -> dict[str, np.ndarray]:
    return {name: array[part] for name, array in arrays.items()}


class Batches(abc.ABC):
    """A source of training batches.

    Attributes:
        batch_size: examples in a training step, over all hosts.
        fingerprint: everything that the batches depend on, as JSON: data, vocabulary, settings,
            seed.
        fractions: of a run with a time budget, the share at which each step began.
    """

    batch_size: int
    fingerprint: dict
    fractions: Sequence[float] = ()

    @abc.abstractmethod
    def batch(self, step: int, part: slice = slice(None)) -> TrainingBatch:
        """Return the examples `part` of a step's batch, from 0: equal on every host, every time."""

    def count_examples(self, steps: int) -> int:
        """Return the number of examples in so many steps, the first ones."""
        return steps * self.batch_size

    def count_steps(self, whole_steps: float) -> int:
        """Return how many steps of a run compute as much as so many of the whole batch size."""
        return int(whole_steps)

    def make_largest(self, part: slice = slice(None)) -> TrainingBatch:
        """Return the examples `part` of a batch of the largest size."""
        return self.batch(0, part)
