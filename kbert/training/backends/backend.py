"""What a training step needs of a backend; the three backends derive from it."""

import contextlib
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from kbert.training.step.state import Counts, TrainingState, Values
from kbert.training.step.step import Decision, TrainingStep
from kbert.training.stopping import StopFlags

LARGE, _ROWS = 2**17, 128  # elements of a gradient, rows of a matrix that keep a GPU busy
Arrays = tuple[dict[str, np.ndarray], ...]  # inputs, labels, weights of labels, and stop flags


class Program(ABC):
    """The compiled functions of a step, which change a state's variables."""

    backend: Any
    step: TrainingStep
    state: TrainingState
    update_function: Callable  # `TrainingStep.update`, as it is compiled

    def __init__(self, backend, step: TrainingStep, state: TrainingState):
        self.backend = backend
        self.step = step
        self.state = state
        self.update_function = step.update

    def frozen(self) -> list:
        """Return the values of the weights that are not trained."""
        return [variable.value for variable in self.state.frozen]

    def assign(self, new: Values) -> None:
        """Assign new values to the state's variables; those that changed in place are the same."""
        variables = keras.tree.flatten(self.state.variables)
        values = keras.tree.flatten(new)
        for variable, value in zip(variables, values, strict=True):
            if value is not variable.value:
                variable.assign(value)

    def update(self, shards: list[Arrays], seeds: np.ndarray) -> dict:
        """Run a step, and return its metrics.

        `shards` has arrays (micro-batches, B, …) for each of this process's devices, `seeds` those
        of all devices, int32 (devices, micro-batches, dropouts, 2).
        """
        (arrays,) = shards
        batch = self.to_tensors(arrays, axis=1)
        values = self.state.values()
        new, metrics = self.update_function(values, self.frozen(), batch, seeds)
        self.assign(new)
        return metrics

    def to_tensors(self, arrays, axis: int = 0):
        """Return a structure of arrays, split over devices along an axis, as tensors."""
        return keras.tree.map_structure(ops.convert_to_tensor, arrays)

    def updates(
        self, steps: Sequence[tuple[list[Arrays], np.ndarray]]
    ) -> Callable[[], list[dict[str, float]]]:
        """Run several steps; return a function that waits for their metrics."""
        sent = [self.update(shards, seeds) for shards, seeds in steps]

        def read_step(metrics: dict) -> dict[str, float]:
            numbers = {}
            for name, value in metrics.items():
                numbers[name] = float(ops.convert_to_numpy(value))
            return numbers

        def read() -> list[dict[str, float]]:
            return [read_step(metrics) for metrics in sent]

        return read

    def gradients(self, shards: list[Arrays], seeds: np.ndarray) -> list[np.ndarray]:
        """Return the scaled gradients of shards with the first devices' seeds, summed."""
        weights, _, counts = self.state.values()
        values = weights, counts.loss_scale, self.frozen()
        weights, scale, frozen = self.to_tensors(values)

        gradients_of_shards = []
        for arrays, shard_seeds in zip(shards, seeds, strict=False):
            batch = self.to_tensors(arrays)
            gradients, _ = self.step.gradients_of_device(weights, scale, frozen, batch, shard_seeds)
            gradients_of_shards.append(gradients)
        gradients_of_weights = zip(*gradients_of_shards, strict=True)
        return [ops.convert_to_numpy(sum(gradients)) for gradients in gradients_of_weights]

    @abstractmethod
    def measure(self, shards: list[Arrays]) -> np.ndarray:
        """Return `TrainingStep.measure` of all devices' and hosts' arrays (B, …) together."""

    @abstractmethod
    def predict(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the model's outputs by name, without dropout."""


class Backend(ABC):
    """Devices and hosts, and the operations of a step that backends write differently."""

    replicas: int = 1  # devices that share a batch, over all hosts
    local: int = 1  # shards of a process's examples
    process: int = 0  # the number of this process
    processes: int = 1  # how many there are
    # One-time cost of a batch of a new shape, in steps, where XLA does not compile all; 0: unknown.
    shape_cost: float = 0.0
    default_jit: bool = True  # whether XLA is the better choice on this device
    default_steps_per_execution: int = 1  # steps in one call of this device

    # Devices and hosts.

    def scope(self) -> contextlib.AbstractContextManager:
        """Return the context in which a model is built."""
        return contextlib.nullcontext()

    def any_process(self, stop_flags: StopFlags) -> StopFlags:
        """Combine the stop flags of all processes (a collective: every process must call it)."""
        if self.processes == 1:
            return stop_flags
        counts = self.sum_over_processes(np.array(stop_flags, "float32"))
        return StopFlags(*(counts > 0).tolist())

    @abstractmethod
    def sum_over_processes(self, numbers: np.ndarray) -> np.ndarray:
        """Return the sum of an array of each process, on all of them."""

    def leave(self) -> None:
        """Tell the other processes that this one ends with an error of its own."""
        return

    @abstractmethod
    def is_process_failure(self, error: Exception) -> bool:
        """Return whether an error of a step means that another process is gone."""

    @abstractmethod
    def to_numpy(self, values: list) -> list[np.ndarray]:
        """Return values of variables, copied only if the backend must."""

    @abstractmethod
    def compile(
        self, step: TrainingStep, state: TrainingState, jit: bool | None, steps: int
    ) -> Program:
        """Return the step's functions, for up to `steps` steps per call; jit=None: by device."""

    @abstractmethod
    def profile(self, folder: Path) -> contextlib.AbstractContextManager:
        """Return the context of the steps to profile; at its end their trace is in the folder."""

    # Within a step.

    @abstractmethod
    def differentiate(self, function: Callable, arguments: list) -> tuple[list, Any]:
        """Return the gradients of the first of a function's two results, and the second.

        The function is of a list of float tensors; its first result is a scalar. The gradient of a
        tensor that has no effect is 0.
        """

    def trace(self, function: Callable) -> Callable:
        """Return the same function; where a step is traced, all its calls have one trace."""
        return function

    @abstractmethod
    def checkpoint(self, function: Callable) -> Callable:
        """Return a function of float tensors whose backward pass computes it again."""

    @abstractmethod
    def sum_over_micro_batches(
        self, function: Callable, make_zeros: Callable, batch, seeds, count=None
    ):
        """Sum a function of each micro-batch and its seeds, one after the other.

        `count` is a scalar, int32: only so many are computed, the first ones; None: all.
        The function returns a list of gradients, and the losses' sums; `make_zeros` returns such a
        result, of zeros.
        """

    @abstractmethod
    def map_micro_batches(self, function: Callable, inputs, seeds):
        """Stack a function of each micro-batch and its seeds; nothing is kept for gradients."""

    @abstractmethod
    def sum_over_devices(self, function: Callable) -> Callable:
        """Return a function that sums this one over all devices; see `gradients_of_device`."""

    @abstractmethod
    def all_gather(self, arrays: list) -> list:
        """Return arrays (B, …) of each device as (devices, B, …) on all; without gradients."""

    @abstractmethod
    def device_index(self):
        """Return which device of `replicas` computes this."""

    def global_norm(self, gradients: list):
        """Return √Σ‖gradient‖² over all gradients, float32."""
        squares = [ops.sum(ops.square(gradient)) for gradient in gradients]
        return ops.sqrt(sum(squares))

    def apply(
        self, step: TrainingStep, decision: Decision, values: Values, gradients, counts: Counts
    ) -> Values:
        """Return new values of the weights, their slots and the counts."""
        weights, slots = [], []
        for arguments in step.each_weight(decision, values, gradients):
            weight, slots_of_weight = step.update_weight(*arguments)
            weights.append(weight)
            slots.append(slots_of_weight)
        return Values(weights, slots, counts)


def add(total, new):
    """Return the sum of two (gradients, sums)."""
    pairs = zip(total[0], new[0], strict=True)
    gradients = [a + b for a, b in pairs]
    return gradients, total[1] + new[1]


def join(arrays: list, numbers: Sequence[int], function: Callable) -> list:
    """Return the arrays, after a function of those with the numbers, side by side in one vector."""
    chosen = [arrays[number] for number in numbers]
    flat = [ops.reshape(array, (-1,)) for array in chosen]
    vector = function(ops.concatenate(flat))

    sizes = [math.prod(array.shape) for array in chosen]
    ends = list(itertools.accumulate(sizes))
    pieces = ops.split(vector, ends[:-1])
    joined = list(arrays)
    for number, piece in zip(numbers, pieces, strict=True):
        shape = arrays[number].shape
        joined[number] = ops.reshape(piece, shape)
    return joined


def join_small(gradients: list, hide: Callable) -> list:
    """Return the gradients, the small ones out of one vector that `hide` keeps whole for XLA.

    XLA then updates all small weights of a shape by one kernel, as they read the same vector.
    """
    sizes = [math.prod(gradient.shape) for gradient in gradients]
    small = [number for number, size in enumerate(sizes) if size < LARGE]
    return join(gradients, small, hide) if small else gradients


def compute_norm(gradients: list):
    """Return the global norm by few kernels on a GPU: the rows of a matrix first, then all of them.

    Without the square roots XLA would take the sums apart, into a kernel or two each.
    """

    def compute_norms(gradient):
        if math.prod(gradient.shape) < LARGE:
            return ops.reshape(gradient, (-1,))
        first = gradient.shape[0]
        last = gradient.shape[-1]
        shape = (first, -1) if first >= _ROWS else (-1, last)
        rows = ops.reshape(gradient, shape)
        squares = ops.sum(ops.square(rows), -1)
        return ops.sqrt(squares)

    norms = ops.concatenate([compute_norms(gradient) for gradient in gradients])
    return ops.sqrt(ops.sum(ops.square(norms)))
