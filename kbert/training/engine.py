"""Training and evaluation of a model on the devices and hosts that there are."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from kbert.data.counter_rng import fork, key_of
from kbert.data.training_batch import TrainingBatch
from kbert.graph import names
from kbert.heads import find_head
from kbert.ops.devices import device_names
from kbert.training.losses.loss import sum_metrics
from kbert.training.losses.table import LOSSES
from kbert.training.optimization import optimizers
from kbert.training.optimization.optimizers import Optimizer
from kbert.training.settings.setting_rules import RULES, check_settings
from kbert.training.step.state import TrainingState, find_seed_states
from kbert.training.step.step import FLAGS, USED, TrainingStep
from kbert.training.step.trained_weights import TrainedWeights
from kbert.training.stopping import NO_STOP, StopFlags


class Engine:
    """A training step of a model, compiled, and its state.

    Args:
        backend: devices and hosts, from `backends.start`.
        model: a functional model, made within `backend.scope()`.
        optimizer: the settings of the optimizer and the learning rate.
        trained: the weights that are trained, made within `backend.scope()`; None: all.
        jit: whether XLA compiles the step; None: as is best on the device.
        steps_per_execution: maximum number of steps per call of the device; None: as is best there.
        seed: seed of dropout.
        micro_batch_size: examples of a micro-batch over all devices, where a step may have fewer
            micro-batches than `accumulation_steps`; None: each step has all of them.
        options: of `TrainingStep`. Without `losses` each output has its head's.
    """

    def __init__(
        self,
        backend,
        model,
        optimizer: Optimizer,
        trained: TrainedWeights | None = None,
        *,
        jit: bool | None = None,
        steps_per_execution: int | None = None,
        seed: int = 0,
        micro_batch_size: int | None = None,
        **options,
    ):
        options_of_engine = {
            "jit": jit,
            "seed": seed,
            "steps_per_execution": steps_per_execution,
            "micro_batch_size": micro_batch_size,
        }
        _check_options(**options_of_engine, **options)
        if names.PACKED_FIRSTS in model.input_names and backend.replicas > 1:
            raise ValueError(
                f"packing must have one device, got {backend.replicas}: give devices=1, or "
                "leave packing out"
            )

        self.backend = backend
        self.model = model
        self.settings = optimizer
        self.seed = seed
        self._micro_batch_size = micro_batch_size
        self.budget_share = 0.0  # of the last step that was sent
        # maximum number of steps in one call of the device
        self.steps_per_execution = steps_per_execution or backend.default_steps_per_execution
        # calls that may be in flight unread: an accelerator is then never idle
        self.ahead = int(device_names() != ["CPU"])
        # of `predict`; hidden states for a teacher are of use in training alone
        self.output_names = [
            name for name in model.output_names if not name.startswith(names.TEACHER)
        ]

        if "losses" not in options:
            layer_names = [layer.name for layer in model.layers]
            head = find_head(layer_names, model.name)
            options["losses"] = dict.fromkeys(self.output_names, LOSSES[head.loss])
        trained = trained or TrainedWeights().add_new_weights(model)
        seeds = find_seed_states(model)
        with backend.scope():
            rules = optimizers.rules(optimizer, trained.variables)
            is_ramped = micro_batch_size is not None
            self.step = TrainingStep(
                backend, model, trained, seeds, optimizer, rules, ramped=is_ramped, **options
            )
            self.state = TrainingState(model, trained, rules, seeds, backend.to_numpy)
        self.program = backend.compile(self.step, self.state, jit, self.steps_per_execution)

    def slice_examples(self, batch_size: int) -> slice:
        """Return this process's part of a batch, which replicas and micro-batches must divide."""
        backend = self.backend
        micro_batches = self.step.accumulation_steps
        shards = backend.replicas * micro_batches
        if batch_size % shards:
            raise ValueError(
                f"batch_size must be a multiple of {shards} ({backend.replicas} replicas × "
                f"{micro_batches} micro-batches), got {batch_size}: take "
                f"{max(batch_size // shards, 1) * shards}"
            )
        size = batch_size // backend.processes
        return slice(backend.process * size, (backend.process + 1) * size)

    def update(self, batch: TrainingBatch, step: int, stop_flags: StopFlags = NO_STOP) -> dict:
        """Run one step of this process's examples; return the metrics of `TrainingStep.update`."""
        shards = self.split(batch, stop_flags)
        return self.program.update(shards, self.seeds(step))

    def updates(
        self,
        batches: Sequence[TrainingBatch],
        step: int,
        stop_flags: StopFlags = NO_STOP,
        budget_fractions: Sequence[float] | None = None,
    ) -> Callable[[], list[dict[str, float]]]:
        """Run up to `steps_per_execution` steps; return a function that waits for their metrics.

        `budget_fractions` has the share of the time budget at which each step begins.
        """
        fractions = budget_fractions or [0.0] * len(batches)
        arguments = []
        for number, (batch, share) in enumerate(zip(batches, fractions, strict=True), start=step):
            shards = self.split(batch, stop_flags, share)
            arguments.append((shards, self.seeds(number)))
        self.budget_share = fractions[-1]
        return self.program.updates(arguments)

    def gradients(self, batch: TrainingBatch, step: int) -> dict[str, np.ndarray]:
        """Return one process's gradients by their weights' paths, scaled and not clipped."""
        shards = self.split(batch)
        gradients = self.program.gradients(shards, self.seeds(step))
        paths = [weight.path for weight in self.state.variables.weights]
        return dict(zip(paths, gradients, strict=True))

    def evaluate(self, batch: TrainingBatch) -> dict[str, tuple[float, float]]:
        """Return `sum_metrics` of a batch, without dropout; takes this process's rows."""
        groups = batch.inputs, batch.labels, batch.weights
        shards = _split_arrays(groups, self.backend.local)
        sums = np.asarray(self.program.measure(shards))
        metrics = {}
        sums_of_metrics = sum_metrics(self.step.losses, batch.labels, sums)
        for name, (value, weight) in sums_of_metrics.items():
            metrics[name] = float(value), float(weight)
        return metrics

    def predict(self, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        """Return the model's outputs for some examples, logits, without dropout."""
        outputs = self.program.predict(inputs)
        used = [name for name in outputs if not name.startswith(names.TEACHER)]
        return [np.asarray(outputs[name]) for name in used]

    def barrier(self) -> None:
        """Wait until every process is here."""
        self.backend.any_process(NO_STOP)

    def seeds(self, step: int) -> np.ndarray:
        """Return the dropout seeds of a step: int32 (replicas, micro-batches, dropouts, 2)."""
        # Functions of (seed, step), not states that each draw moves on: a run that is resumed draws
        # what it would have drawn, and each device and micro-batch has masks of its own.
        replicas = self.backend.replicas
        shape = (self.step.accumulation_steps, self.step.dropouts, 2)
        step_key = key_of(self.seed, step)
        replica_keys = fork(step_key, np.arange(replicas))

        count = np.prod(shape)
        indices = np.arange(count, dtype=np.uint64)
        numbers = fork(replica_keys[:, None], indices)
        seeds = numbers >> np.uint64(33)
        seeds = seeds.astype(np.int32)
        return seeds.reshape((replicas, *shape))

    def split(
        self, batch: TrainingBatch, stop_flags: StopFlags = NO_STOP, budget_share: float = 0.0
    ) -> list[tuple]:
        """Split a batch of this process's examples by device: (micro-batches, B, …).

        Where a step has fewer micro-batches than the arrays have places, the others are 0.
        """
        # Each example has its process's stop flags: they are summed with the losses, in the one
        # exchange that every step has, and each host reads the same total.
        flags = np.zeros((len(batch), 3), "float32")
        flags[:, 1:] = stop_flags.callback, stop_flags.signal
        if self.backend.process == 0:
            flags[0, 0] = budget_share  # once, so that the sum has the same bits
        flags_by_name: dict[str, np.ndarray] = {FLAGS: flags}
        groups = batch.inputs, batch.labels, batch.weights, flags_by_name
        if self._micro_batch_size is None:
            return _split_arrays(groups, self.backend.local, self.step.accumulation_steps)

        micro_batches = len(batch) * self.backend.processes // self._micro_batch_size
        flags_by_name[USED] = np.ones(len(batch), "float32")
        shards = _split_arrays(groups, self.backend.local, micro_batches)
        missing = self.step.accumulation_steps - micro_batches
        return [tuple(_fill_up(group, missing) for group in shard) for shard in shards]


def _check_options(**options) -> None:
    """Raise a ValueError for an option that breaks the rule of a run's setting of its name."""
    settings = {name: value for name, value in options.items() if name in RULES}
    check_settings(settings, ("clip_norm", "jit", "steps_per_execution", "micro_batch_size"))


def _fill_up(group: dict, count: int) -> dict:
    """Return arrays (micro-batches, B, …) with so many more micro-batches, of zeros."""
    filled = {}
    for name, array in group.items():
        zeros = np.zeros((count, *array.shape[1:]), array.dtype)
        filled[name] = np.concatenate([array, zeros])
    return filled


def _split_arrays(groups: Sequence[dict], *sizes: int) -> list[tuple]:
    """Split arrays (B, …) into `sizes[0]` shards, each of the shape (*sizes[1:], b, …)."""
    first = next(iter(groups[0].values()))
    count = len(first)
    whole = math.prod(sizes)
    if count % whole:
        raise ValueError(f"a batch must be a multiple of {whole} examples here, got {count}")

    def reshape(group: dict) -> dict:
        reshaped = {}
        for name, array in group.items():
            shape_of_example = array.shape[1:]
            reshaped[name] = array.reshape(*sizes, -1, *shape_of_example)
        return reshaped

    reshaped = [reshape(group) for group in groups]
    shards = []
    for n in range(sizes[0]):
        shard = [{name: array[n] for name, array in group.items()} for group in reshaped]
        shards.append(tuple(shard))
    return shards
