"""Shared parts of the engines: how a batch is split, and how the model is computed."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from kbert.data.training_batch import TrainingBatch
from kbert.graph import names
from kbert.model.parts import packed_rows
from kbert.model.parts.cut_model import CutModel
from kbert.model.parts.dropout_seeds import seed_states, seeds_of
from kbert.model.parts.scopes import LOSS, scope
from kbert.model.parts.stateless import stateless
from kbert.ops.devices import device_names
from kbert.training import loss as objectives
from kbert.training import optimizers, precision
from kbert.training.engines.checkpointing import SegmentedModel
from kbert.training.engines.gradient_cache import GradientCache
from kbert.training.engines.optimizer_step import OptimizerStep
from kbert.training.optimizers import Optimizer
from kbert.training.setting_rules import checked
from kbert.training.stopping import NO_WISH, Wishes
from kbert.training.trained_weights import TrainedWeights, all_of
from kbert.training.vector_loss import VECTORS


class Engine(GradientCache, OptimizerStep):
    """An engine of one device; the engines of the backends derive from it.

    Attributes:
        replicas: devices that share a batch, over all hosts.
        local: parts of a process's examples that are computed separately.
        process, processes: the number of this process, and how many there are.
        shape_cost: one-time cost of a batch of a new shape, in steps, if XLA does not compile the
            whole step; 0: unknown.
        steps_per_execution: maximum number of steps in one call of the device.
        output_names: names of the outputs of `predict`, in order.
    """

    replicas = 1
    local = 1
    process = 0
    processes = 1
    shape_cost = 0.0
    steps_per_execution = 1

    def prepare(
        self,
        model,
        optimizer: Optimizer,
        trained: TrainedWeights | None = None,
        *,
        clip_norm: float | None = 1.0,
        accumulation_steps: int = 1,
        jit: bool | None = None,
        gradient_checkpointing: bool = False,
        packing: bool = False,
        label_smoothing: float = 0.0,
        lessons: Mapping[str, objectives.Lesson] = MappingProxyType({}),
        steps_per_execution: int | None = None,
        seed: int = 0,
    ) -> None:
        """Make the optimizer's variables; within `scope`, or after it.

        Args:
            model: a functional model, built within `scope`.
            optimizer: the optimizer's settings.
            trained: the trained weights of the model, made within `scope`; None: all.
            clip_norm: maximum global norm of a step's gradients; None: no clipping.
            accumulation_steps: micro-batches per step.
            jit: whether XLA compiles the step; None: chosen for the device.
            gradient_checkpointing: whether the backward pass recomputes each encoder block instead
                of keeping its activations: less memory, more time, the same numbers.
            packing: whether batches are `kbert.data.packed_batch.PackedBatch`es.
            label_smoothing: see `kbert.training.loss.measured`.
            lessons: auxiliary losses, by the labels that belong to no output, see
                `kbert.training.loss.objective`.
            steps_per_execution: maximum number of steps in one call of the device; None: chosen for
                the device.
            seed: seed of the dropout.

        Raises:
            ValueError: a value out of its range; a model or devices without support for packing.
        """
        values = {
            "clip_norm": clip_norm,
            "accumulation_steps": accumulation_steps,
            "jit": jit,
            "seed": seed,
        }
        values |= {"gradient_checkpointing": gradient_checkpointing, "packing": packing}
        values |= {"label_smoothing": label_smoothing, "steps_per_execution": steps_per_execution}
        checked(values, ("clip_norm", "jit", "steps_per_execution"))
        if packing or names.PACKED_TEXTS in model.input_names:
            packed_rows.check(model, self.replicas)
        self.model = model
        self.settings = optimizer
        self.clip_norm = clip_norm
        self.accumulation_steps = accumulation_steps
        self.jit = self.default_jit() if jit is None else jit
        self.seed = seed
        self.steps_per_execution = steps_per_execution or self.default_steps_per_execution()
        self.gradient_checkpointing, self.packing = gradient_checkpointing, packing
        self.label_smoothing, self.lessons = label_smoothing, lessons
        taught = names.TEACHER  # hidden states, which training alone has a use for
        self.output_names = [name for name in model.output_names if not name.startswith(taught)]
        self.trained = trained or all_of(model)
        self.cut = self._cut_model()
        self.segments = SegmentedModel(model) if gradient_checkpointing else None
        self.scaled = precision.needs_scale(model)
        self.weights, self.rates = self.trained.variables, self.trained.rates
        self.seed_states = seed_states(model)
        self.decayed = [optimizers.is_decayed(weight.path) for weight in self.weights]
        with self.scope():
            self._make_variables()
        self._compile()

    def _compile(self) -> None:
        """Make the functions of the step, with the settings of `prepare`."""
        raise NotImplementedError

    def scope(self):
        """Return the context in which a model is built."""
        raise NotImplementedError

    def default_jit(self) -> bool:
        """Return whether XLA is the better choice on this device."""
        return True

    def default_steps_per_execution(self) -> int:
        """Return how many steps one call of this device does."""
        return 1

    def ahead(self) -> int:
        """Return how many calls may be in flight before the metrics of the first of them are read.

        An accelerator is then never idle; at most `kbert.training.stopping.MOST_AHEAD`.
        """
        return int(device_names() != ["CPU"])

    def rows(self, batch_size: int) -> slice:
        """Return this process's rows of a batch.

        Raises:
            ValueError: a batch that replicas and micro-batches do not divide.
        """
        parts = self.replicas * self.accumulation_steps
        if batch_size % parts:
            of = f"{self.replicas} replicas × {self.accumulation_steps} micro-batches"
            near = max(batch_size // parts, 1) * parts
            raise ValueError(
                f"batch_size must be a multiple of {parts} ({of}), got {batch_size}: take {near}"
            )
        share = batch_size // self.processes
        return slice(self.process * share, (self.process + 1) * share)

    def update(self, batch: TrainingBatch, step: int, wishes: Wishes = NO_WISH) -> dict:
        """Run one step.

        Args:
            batch: this process's rows.
            step: the step's number, which decides the dropout.
            wishes: this process's stop flags.

        Returns:
            Scalars of the device: `objectives.figures`, "gradient_norm", "learning_rate", "finite"
            (whether it was applied), and the sums of all processes' stop flags, "callback" and
            "signal": above 0 if any process has set one. They are the same in each process.
        """
        raise NotImplementedError

    def updates(
        self, batches: Sequence[TrainingBatch], step: int, wishes: Wishes = NO_WISH
    ) -> Callable[[], list[dict[str, float]]]:
        """Run several steps, in one call of the device if the engine can.

        Args:
            batches: this process's rows of each step; of the same shapes, at most
                `steps_per_execution`.
            step: the number of the first step, which decides its dropout.
            wishes: this process's stop flags.

        Returns:
            A function that waits for their metrics: one dictionary per step, as from `update`.
        """
        sent = [self.update(batch, step + n, wishes) for n, batch in enumerate(batches)]
        return lambda: [{name: float(value) for name, value in one.items()} for one in sent]

    def of_any(self, wishes: Wishes) -> Wishes:
        """Combine the stop flags of all processes (a collective: every process must call it)."""
        return wishes

    def barrier(self) -> None:
        """Wait until every process is here."""
        self.of_any(NO_WISH)

    def leave(self) -> None:
        """Say that this process ends with an error of its own, unknown to the others."""

    def lost_another(self, error: Exception) -> bool:
        """Return whether an error of a step means that another process is gone."""
        return False

    def gradients(self, batch: TrainingBatch, step: int) -> dict[str, np.ndarray]:
        """Return a step's gradients by their weights' paths: not clipped, times the loss scale.

        Args:
            batch: the examples; for one process, or for one device if embeddings are trained.
            step: the step whose dropout is used.
        """
        found = self._gradients_now(batch, step)
        return {weight.path: one for weight, one in zip(self.weights, found, strict=True)}

    def _gradients_now(self, batch: TrainingBatch, step: int) -> list[np.ndarray]:
        """Return the gradients of this process's examples."""
        raise NotImplementedError

    # What an update is, in tensors of one replica.

    def _seeds(self, step: int, replicas: range) -> np.ndarray:
        """Return the dropout seeds of a step; see `seeds_of`."""
        # Functions of (seed, step), not states that each draw moves on: a run that goes on draws
        # what it would have drawn, and each replica and micro-batch has masks of its own.
        return seeds_of(self.seed, step, replicas, self.accumulation_steps, len(self.seed_states))

    def _no_seeds(self) -> np.ndarray:
        """For what draws nothing."""
        return self._seeds(0, range(1))[0][0]

    def _arrays(self, batch: TrainingBatch, replicas: int, wishes: Wishes = NO_WISH) -> list[tuple]:
        """Split a batch of this process's examples by replica: (micro-batches, B, …)."""
        # Sums, not means, from here on: a label's weight is divided by the totals of the whole
        # update already (`TrainingBatch`), so replicas, micro-batches and hosts just add up, and
        # every way to split a batch gives the same update. A mean of means would not, where the
        # parts have not as many labels each.
        parts = shares(batch, replicas, self.accumulation_steps)
        # Each example bears its process's wishes to stop: they are summed with the losses, in the
        # one exchange that every update has anyway, and each host reads the same total.
        row = np.array([0, *wishes], "float32")  # the first column adds up to the loss
        borne = {"wishes": np.tile(row, (len(batch) // replicas, 1))}

        def split(group):
            return {
                name: array.reshape(self.accumulation_steps, -1, *array.shape[1:])
                for name, array in group.items()
            }

        return [
            tuple(split(group) for group in (part.inputs, part.labels, part.weights, borne))
            for part in parts
        ]

    def _frozen_values(self) -> list:
        """Return the values of the model's frozen variables; no gradient is computed for them."""
        return [variable.value for variable in self.trained.frozen]

    def _outputs(self, weights, seeds, inputs, training: bool, frozen=None):
        """Return the model's outputs by name, from values of its weights and seeds.

        With a loss of embeddings these are the only output, as in `VectorLoss.vectors`. `frozen`
        has the frozen weights' values where they would otherwise be constants of a program.
        """
        values = self._values(weights, seeds, frozen)
        if self.cut and training:
            outputs = self.cut.outputs(values, self._texts(inputs))
        elif self.segments and training:
            outputs = self.segments.outputs(values, self._in_order(inputs), self._checkpoint)
        else:
            outputs = stateless(self.model, values, self._in_order(inputs), training)
        return self._named(outputs, inputs, training)

    def _values(self, weights, seeds, frozen=None) -> dict:
        """Return the values of the model's variables and of dropout's seeds, by variable id."""
        frozen = self._frozen_values() if frozen is None else frozen
        variables = [*self.weights, *self.trained.frozen, *self.seed_states]
        given = [*weights, *frozen, *(seeds[n] for n in range(len(self.seed_states)))]
        return dict(zip(map(id, variables), given, strict=True))

    def _texts(self, inputs: Mapping) -> Mapping:
        return self.vectors.texts(inputs) if self.vectors else inputs

    def _in_order(self, inputs: Mapping) -> list:
        """Return the model's inputs in its order."""
        texts = self._texts(inputs)
        return [texts[name] for name in self.model.input_names]

    def _named(self, outputs: list, inputs: Mapping, training: bool) -> dict:
        """Return the model's outputs by name; with a loss of embeddings, the embeddings."""
        if self.vectors:
            return {VECTORS: self.vectors.vectors(outputs[0], inputs)}
        named = dict(zip(self.model.output_names, outputs, strict=True))
        return named if training else {name: named[name] for name in self.output_names}

    def _cut_model(self) -> CutModel | None:
        """Return the model in parts, for packed rows."""
        return CutModel(self.model, None, self.packing) if self.packing else None

    def _loss_sums(self, logits, labels, weights):
        """`objectives.measured`, or the sums of the loss of embeddings."""
        with scope(LOSS):
            if self.vectors:
                return self._vector_sums(logits, labels, weights)
            return objectives.measured(logits, labels, weights, smoothing=self.label_smoothing)

    def _checkpoint(self, function: Callable) -> Callable:
        """Return a function of float tensors whose backward pass computes it again."""
        raise NotImplementedError


def shares(batch: TrainingBatch, replicas: int, micro_batches: int = 1) -> list[TrainingBatch]:
    """Return a batch in equal parts, one for each replica.

    Raises:
        ValueError: examples that replicas and micro-batches do not divide.
    """
    size, rest = divmod(len(batch), replicas)
    if rest or size % micro_batches:
        parts = replicas * micro_batches
        raise ValueError(f"a batch must be a multiple of {parts} examples here, got {len(batch)}")
    if replicas == 1:
        return [batch]
    return [batch.rows(slice(n * size, (n + 1) * size)) for n in range(replicas)]
