"""TensorFlow: one `strategy.run` loop for one device, several, several hosts and TPU.

On TPU one program is a whole call: several steps in a loop, with what goes between the chips.
Its shapes are static, and nothing in it asks the host. No TPU has run
it yet.
"""

import functools
import itertools
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from kbert.data.training_batch import TrainingBatch
from kbert.training import loss as objectives
from kbert.training.engines import (
    strategies,
    tensorflow_checkpointing,
)
from kbert.training.engines.engine import Engine, shares
from kbert.training.engines.spread import Spread, function, of_all, one_by_one, stacked
from kbert.training.stopping import NO_WISH, Wishes

_WORTH_COMPILING = 4_000_000  # parameters: tiny with its heads has 4.4 million
_UPDATES_ON_TPU = 8  # in one call; not measured: a call takes the host some milliseconds


class TensorFlowEngine(Engine):
    """See `Engine`. Hosts come from TF_CONFIG; each has the same number of devices.

    All chips of a TPU, on however many hosts, are one process's: it sends each its program.

    Attributes:
        strategy: of all hosts.
        spread: this host's replicas.
    """

    shape_cost = 0.1  # measured, MiniLM-L6 on a CPU: benchmarks/LOG.md

    def __init__(self, devices: int | None = None):
        self.strategy = strategies.of(devices)
        self.replicas = self.strategy.num_replicas_in_sync
        resolver = self.strategy.cluster_resolver
        if isinstance(self.strategy, tf.distribute.MultiWorkerMirroredStrategy):
            self.process = resolver.task_id
            self.processes = len(resolver.cluster_spec().as_dict()["worker"])
        self.local = self.replicas // self.processes
        self.spread = Spread(self.strategy, self.process * self.local)

    def scope(self):
        return self.strategy.scope()

    def default_jit(self) -> bool:
        # on a CPU XLA gains nothing in float32 (benchmarks/RESULTS.md), and compiles anew for
        # each length
        return self.spread.on_tpu or bool(tf.config.list_physical_devices("GPU"))

    def default_steps_per_execution(self) -> int:
        return _UPDATES_ON_TPU if self.spread.on_tpu else 1

    def prepare(
        self, model, optimizer, trained=None, *, jit: bool | None = None, **options
    ) -> None:
        # On a CPU XLA compiles what it is faster at, the optimizer's part, and not the gradients,
        # whose every length it would compile anew. Small models are not worth it.
        self._jit_step = jit or (jit is None and model.count_params() > _WORTH_COMPILING)
        if self.spread.on_tpu and jit is False:
            raise ValueError("jit must be True or left out on a TPU: XLA compiles all, got False")
        super().prepare(model, optimizer, trained, jit=jit, **options)

    def _compile(self) -> None:
        # With one replica XLA compiles the whole update, and on TPU too, the exchange within. With
        # several of other devices it compiles the two halves around the sum over replicas.
        whole = self.spread.on_tpu or (self.jit and self.replicas == 1)
        self._gradients_of, self._by_xla = self._gradients, None
        if self.jit and not whole:
            # Where vectors of replicas meet before their gradients are taken, up to the vectors.
            if self.vectors:
                self._by_xla = function(super()._outputs, jit_compile=True)
            else:
                self._gradients_of = function(self._gradients, jit_compile=True)
        # A program for each kind of weight, compiled once: one for all of base's 206 weights takes
        # 40 s to compile. And two: one that read a moment for both would keep a copy of the old.
        in_programs = self._jit_step and not whole
        by_xla = function if in_programs else lambda one, **_: one
        self._move_moments = by_xla(self._assign_moments, jit_compile=True)
        self._move_weight = by_xla(self._assign_weight, jit_compile=True)
        self._moments_of = by_xla(super()._moved_moments, jit_compile=True)
        self._weight_of = by_xla(super()._moved_weight, jit_compile=True)
        self._kinds = self._kinds_of_weights()
        several = self._replica_update, self.steps_per_execution, self._columns
        if self.spread.distributed:
            self._update = self.spread.on_each(self._replica_update)
            self._call = self.spread.one_by_one(*several)
            self._measure = self.spread.on_each(self._replica_sums)
        else:
            self._update = _for_any_length(self._replica_update, jit=whole)
            self._call = _for_any_length(one_by_one(*several), jit=whole)
            self._measure = _for_any_length(self._replica_sums, jit=whole)
        self._forward = _for_any_length(self._logits, jit=self.jit)
        if self.spread.on_tpu:
            self._forward = self.spread.all_of(self._logits)

    def _columns(self, batches, seeds) -> list[str]:
        local = self.strategy.experimental_local_results
        labels = {name: local(given)[0] for name, given in batches[1].items()}
        return self._figure_names(objectives.second_measures(labels, axes=3))

    def update(self, batch: TrainingBatch, step: int, wishes: Wishes = NO_WISH) -> dict:
        """See `Engine`."""
        return self._update(*self.spread.values(self._each(batch, step, wishes)))

    def updates(
        self, batches: Sequence[TrainingBatch], step: int, wishes: Wishes = NO_WISH
    ) -> Callable[[], list[dict[str, float]]]:
        """See `Engine`."""
        if self.steps_per_execution == 1:
            (figures,) = (self.update(batch, step, wishes) for batch in batches)
            return lambda: [{name: float(value) for name, value in figures.items()}]
        each = [self._each(batch, step + n, wishes) for n, batch in enumerate(batches)]
        # one program, however many there are: it leaves what is filled up alone
        filled = each + each[-1:] * (self.steps_per_execution - len(each))
        together = [stacked(list(parts)) for parts in zip(*filled, strict=True)]
        rows = self._call(tf.constant(len(batches)), *self.spread.values(together))
        names = self._figure_names(objectives.second_measures(batches[0].labels))

        def read():
            found = rows.numpy()[: len(batches)].tolist()  # waits for the device, once
            return [dict(zip(names, row, strict=True)) for row in found]

        return read

    def _each(self, batch: TrainingBatch, step: int, wishes: Wishes) -> list[tuple]:
        """Return a step's arrays and seeds for each of this host's replicas."""
        local = range(self.process * self.local, (self.process + 1) * self.local)
        arrays = self._arrays(batch, self.local, wishes)
        return list(zip(arrays, self._seeds(step, local), strict=True))

    def _replica_update(self, batch, seeds):
        seeds.set_shape(self._seeds(0, range(1)).shape[1:])
        gradients, sums = self._gradients_of(batch, seeds)
        context = tf.distribute.get_replica_context()
        # The only exchange between replicas and hosts, of gradients, loss and wishes at once. What
        # follows is computed on each of them from the same sums, to the same weights.
        if self.replicas > 1:
            gradients, sums = context.all_reduce(tf.distribute.ReduceOp.SUM, (gradients, sums))
        # Outside of the step: XLA would write every square down before it adds them up.
        norm = tf.sqrt(2.0 * tf.add_n([tf.nn.l2_loss(gradient) for gradient in gradients]))
        counts = [tf.convert_to_tensor(count.value) for count in self.counts]
        names = objectives.second_measures(batch[1], axes=2)
        decision, counts, figures = self._decide(names, counts, sums, norm)
        self._move(decision, gradients)
        self._assign(self.counts, counts)
        return figures

    def _move(self, decision, gradients) -> None:
        """Weights and moments, each in its own place unless replicas share it."""
        states = self.weights, self.first, self.second
        values = [[variable.value for variable in group] for group in states]
        if self.spread.distributed:
            new = self._moved(
                decision, tf.nest.map_structure(tf.convert_to_tensor, values), gradients
            )
            self._assign(itertools.chain(*states), itertools.chain(*new))
            return
        for (decayed, share), places in self._kinds.items():
            of_kind = [[group[n] for n in places] for group in (*values, gradients)]
            decision_of_kind = decision.at(share)
            for weight, *moments, gradient in zip(*of_kind, strict=True):
                self._move_moments(decision, *moments, gradient)
                self._move_weight(decision_of_kind, decayed, weight, *moments)

    def _kinds_of_weights(self) -> dict[tuple[bool, float], list[int]]:
        """Return the places of the weights by decay and share of the learning rate."""
        kinds: dict[tuple[bool, float], list[int]] = {}
        for place, kind in enumerate(zip(self.decayed, self.rates, strict=True)):
            kinds.setdefault(kind, []).append(place)
        return kinds

    def _moved_moments(self, decision, first, second, gradient) -> list:
        return self._moments_of(decision, first, second, gradient)

    def _moved_weight(self, decision, decayed: bool, weight, first, second):
        return self._weight_of(decision, decayed, weight, first, second)

    def _assign_moments(self, decision, first, second, gradient) -> None:
        old = first.read_value(), second.read_value()
        new = super()._moved_moments(decision, *old, gradient)
        first.assign(new[0], read_value=False)
        second.assign(new[1], read_value=False)

    def _assign_weight(self, decision, decayed: bool, weight, first, second) -> None:
        values = [one.read_value() for one in (weight, first, second)]
        new = super()._moved_weight(decision, decayed, *values)
        weight.assign(new, read_value=False)

    def _assign(self, variables, values) -> None:
        """Assign values to variables on this replica."""
        variables, values = [variable.value for variable in variables], list(values)
        if self.spread.distributed:
            tf.distribute.get_replica_context().merge_call(_assign_all, args=(variables, values))
            return
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value, read_value=False)

    def _outputs(self, weights, seeds, inputs, training: bool, frozen=None):
        if not (training and self._by_xla):
            return super()._outputs(weights, seeds, inputs, training, frozen)
        frozen = self._frozen_values() if frozen is None else frozen
        return self._by_xla(weights, seeds, inputs, True, frozen)

    def _place(self):
        return tf.distribute.get_replica_context().replica_id_in_sync_group

    def _gathered(self, arrays: list) -> list:
        return of_all(arrays, self._place(), self.replicas)

    def _gradients(self, batch, seeds):
        """Sum over the micro-batches of one replica."""
        if self._caches(batch[1]):
            weights = [tf.convert_to_tensor(variable.value) for variable in self.weights]
            again = functools.partial(self._gradients, seeds=seeds)
            return self._cached_gradients(again, weights, batch, seeds)
        # One after the other, never two at a time: accumulation is there to need the activations'
        # memory of one micro-batch alone. It gives the update of the whole batch, since weights of
        # labels are divided by its totals and not by a micro-batch's.
        if self.accumulation_steps == 1:
            part = tf.nest.map_structure(lambda array: array[0], batch)
            return self._micro_gradients(part, seeds[0])

        def add_next(place, total):
            part = tf.nest.map_structure(lambda array: array[place], batch)
            found = self._micro_gradients(part, seeds[place])
            return place + 1, tf.nest.map_structure(tf.add, total, found)

        weights = [tf.zeros(weight.shape) for weight in self.weights]
        nothing = weights, tf.zeros((len(batch[1]) + 1, len(objectives.MEASURES)))
        count = self.accumulation_steps
        return tf.while_loop(
            lambda place, _: place < count,
            add_next,
            (0, nothing),
            parallel_iterations=1,
            maximum_iterations=count,
        )[1]

    def _gradients_now(self, batch: TrainingBatch, step: int) -> list[np.ndarray]:
        each = zip(
            self._arrays(batch, self.local), self._seeds(step, range(self.local)), strict=True
        )
        found = []
        for arrays, seeds in each:
            arrays = tf.nest.map_structure(tf.convert_to_tensor, arrays)  # for Keras 3.16
            found.append([gradient.numpy() for gradient in self._gradients(arrays, seeds)[0]])
        return [sum(of_replicas) for of_replicas in zip(*found, strict=True)]

    def _for_each(self, function, inputs, seeds):
        return tf.map_fn(
            lambda pair: function(*pair),
            (inputs, seeds),
            parallel_iterations=1,
            fn_output_signature=tf.float32,
        )

    def _slopes(self, function, x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            sums = function(x)
            loss = sums[0]
        return tape.gradient(loss, x), sums

    def _micro_gradients(self, part, seeds):
        weights = [tf.convert_to_tensor(variable.value) for variable in self.weights]
        frozen = self._frozen_values()  # read here: a variable that the tape sees is watched
        scale = tf.convert_to_tensor(self.counts[1].value)

        def loss_of(forward: Callable) -> tuple:
            return objectives.scaled_objective(forward, part, scale, self._loss_sums, self.lessons)

        if self.segments and not self.cut:
            sums, gradients = self._checkpointed_gradients(weights, seeds, part, loss_of, frozen)
        else:
            with tf.GradientTape() as tape:
                tape.watch(weights)
                forward = functools.partial(
                    self._outputs, weights, seeds, training=True, frozen=frozen
                )
                loss, sums = loss_of(forward)
            gradients = tape.gradient(loss, weights)
        gradients = [
            tf.zeros(weight.shape, weight.dtype)
            if gradient is None
            else tf.convert_to_tensor(gradient)  # slices too
            for gradient, weight in zip(gradients, weights, strict=True)
        ]
        for gradient, weight in zip(gradients, weights, strict=True):
            # not tf.ensure_shape: an operation that XLA makes dynamic sizes of, which stand in the
            # way of its fusions; each would draw dropout's random numbers again
            gradient.set_shape(weight.shape)
        return gradients, sums

    def _checkpointed_gradients(self, weights, seeds, part, loss_of: Callable, frozen) -> tuple:
        def loss_of_outputs(outputs):
            return loss_of(lambda inputs: self._named(outputs, inputs, training=True))

        return tensorflow_checkpointing.sums_and_gradients(
            self.segments,
            self._in_order(part[0]),
            weights,
            lambda weights: self._values(weights, seeds, frozen),
            loss_of_outputs,
        )

    def _checkpoint(self, function: Callable) -> Callable:
        return function  # only where no gradient is asked for; see `_micro_gradients`

    def _on_host(self, values: list) -> list[np.ndarray]:
        return [np.asarray(tf.convert_to_tensor(value)) for value in values]

    def _frozen_values(self) -> list:
        return [tf.convert_to_tensor(variable.value) for variable in self.trained.frozen]

    def _logits(self, inputs):
        weights = [variable.value for variable in self.weights]
        return self._outputs(weights, self._no_seeds(), inputs, training=False)

    def _replica_sums(self, batch):
        inputs, labels, weights = batch
        sums = objectives.objective(self._logits(inputs), labels, weights)[1]
        context = tf.distribute.get_replica_context()
        return context.all_reduce("SUM", sums) if self.replicas > 1 else sums

    def evaluate(self, batch: TrainingBatch) -> dict[str, tuple[float, float]]:
        """`objectives.totals` of a batch, without dropout; takes this process's rows."""
        parts = shares(batch, self.local)
        values = [(part.inputs, part.labels, part.weights) for part in parts]
        sums = self._measure(self.spread.values(values))
        return objectives.totals(objectives.second_measures(batch.labels), np.asarray(sums))

    def predict(self, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        """Return the model's outputs for some examples, logits, without dropout."""
        if not self.spread.on_tpu:
            found = self._forward(inputs)
            return [np.asarray(value) for value in found.values()]
        count = len(next(iter(inputs.values())))
        size = -(-count // self.replicas)  # of each chip; the last ones have some examples again
        places = np.arange(size * self.replicas).reshape(self.replicas, size) % count
        parts = [{name: array[rows] for name, array in inputs.items()} for rows in places]
        found = self._forward(self.spread.values(parts)).values()
        return [np.concatenate(list(map(np.asarray, of_chips)))[:count] for of_chips in found]

    def lost_another(self, error: Exception) -> bool:
        """See `Engine`."""
        kinds = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError)
        return self.processes > 1 and isinstance(error, kinds)

    def of_any(self, wishes: Wishes) -> Wishes:
        """See `Engine`."""
        if self.processes == 1:
            return wishes
        numbers = tf.constant(wishes, "float32")
        total = self.strategy.reduce("SUM", self.strategy.run(lambda: numbers), axis=None)
        return Wishes(*(total.numpy() > 0).tolist())


def _for_any_length(of_replica: Callable, jit: bool) -> Callable:
    """Return the function, traced once for arrays of any sizes; XLA has to compile for each."""
    if jit:
        return function(of_replica, jit_compile=True)
    made: list[Callable] = []

    def call(*arguments):
        if not made:
            signature = tf.nest.map_structure(
                lambda array: tf.TensorSpec([None] * np.ndim(array), array.dtype), arguments
            )
            made.append(function(of_replica, input_signature=signature))
        return made[0](*arguments)

    return call


def _assign_all(strategy, variables, values) -> None:
    for variable, value in zip(variables, values, strict=True):
        strategy.extended.update(variable, lambda v, x: v.assign(x), args=(value,))
