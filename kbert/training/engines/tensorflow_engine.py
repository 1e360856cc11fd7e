"""TensorFlow: one `strategy.run` loop for one device, several, several hosts and TPU.

TPU is untested: shapes are static, and nothing of the host is in the step.
"""

import functools
import itertools
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from kbert.data.training_batch import TrainingBatch
from kbert.model.devices import device_names
from kbert.model.parts import tensorflow_kit
from kbert.training import loss as objectives
from kbert.training.engines import hosts
from kbert.training.engines.engine import Engine, shares
from kbert.training.stopping import NO_WISH, Wishes

_WORTH_COMPILING = 4_000_000  # parameters: tiny with its heads has 4.4 million
# no Python `if` or `for` depends on a tensor here: what would convert them takes its time
_function = functools.partial(tf.function, autograph=False)


class TensorFlowEngine(Engine):
    """See `Engine`. Hosts come from TF_CONFIG; each has the same number of devices."""

    shape_cost = 2.0  # measured, MiniLM-L6 on a CPU: benchmarks/LOG.md

    def __init__(self, devices: int | None = None):
        self.strategy = _strategy(devices)
        self.replicas = self.strategy.num_replicas_in_sync
        resolver = self.strategy.cluster_resolver
        if isinstance(self.strategy, tf.distribute.MultiWorkerMirroredStrategy):
            self.process = resolver.task_id
            self.processes = len(resolver.cluster_spec().as_dict()["worker"])
        self.local = self.replicas // self.processes

    def scope(self):
        return self.strategy.scope()

    def default_jit(self) -> bool:
        # on a CPU XLA gains nothing in float32 (benchmarks/RESULTS.md), and compiles anew for
        # each length
        return bool(tf.config.list_physical_devices("GPU"))

    def prepare(self, model, optimizer, *, jit: bool | None = None, **options) -> None:
        # On a CPU XLA compiles what it is faster at, the optimizer's part, and not the gradients,
        # whose every length it would compile anew. Small models are not worth it.
        self._jit_step = jit or (jit is None and model.count_params() > _WORTH_COMPILING)
        super().prepare(model, optimizer, jit=jit, **options)

    def _kit(self):
        # With `jit` XLA sees all of it. A model of any length would have each part compiled anew
        # for each, which takes longer than a run over few texts gains; packed rows have one.
        one_length = self.packing or self.model.inputs[0].shape[1] is not None
        cpu = device_names() == ["CPU"]
        return tensorflow_kit if cpu and not self.jit and one_length else None

    def _compile(self) -> None:
        # With one replica XLA compiles the whole update. With several it compiles the two halves
        # around the sum over replicas, which cannot be within.
        whole = self.jit and self.replicas == 1
        self._gradients_of = self._gradients
        if self.jit and not whole:
            self._gradients_of = _function(self._gradients, jit_compile=True)
        # A program for each kind of weight, compiled once: one for all of base's 206 weights takes
        # 40 s to compile. And two: one that read a moment for both would keep a copy of the old.
        by_xla = _function if self._jit_step and not whole else lambda function, **_: function
        self._move_moments = by_xla(self._assign_moments, jit_compile=True)
        self._move_weight = by_xla(self._assign_weight, jit_compile=True)
        self._moments_of = by_xla(super()._moved_moments, jit_compile=True)
        self._weight_of = by_xla(super()._moved_weight, jit_compile=True)
        self._update = self._on_replicas(self._replica_update, jit=whole)
        self._measure = self._on_replicas(self._replica_sums, jit=whole)
        self._forward = _for_any_length(self._logits, jit=self.jit)

    def _on_replicas(self, function, jit: bool):
        if self.replicas == 1:
            return _for_any_length(function, jit)

        @_function(reduce_retracing=True)
        def run(*arguments):
            results = self.strategy.run(function, args=arguments)  # the same on every replica
            return tf.nest.map_structure(self._first, results)

        return run

    def _first(self, values):
        return self.strategy.experimental_local_results(values)[0]

    def update(self, batch: TrainingBatch, step: int, wishes: Wishes = NO_WISH) -> dict:
        """See `Engine`."""
        local = range(self.process * self.local, (self.process + 1) * self.local)
        seeds = self._seeds(step, local)
        values = self._arrays(batch, self.local, wishes)
        if self.replicas == 1:
            return self._update(values[0], seeds[0])
        return self._update(self._spread(values), self._spread(list(seeds)))

    def _spread(self, values: list):
        """A value for each of this host's replicas."""
        start = self.process * self.local

        def value(context):
            place = context.replica_id_in_sync_group - start
            return tf.nest.map_structure(tf.convert_to_tensor, values[place])

        return self.strategy.experimental_distribute_values_from_function(value)

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
        if self.replicas > 1:
            new = self._moved(
                decision, tf.nest.map_structure(tf.convert_to_tensor, values), gradients
            )
            self._assign(itertools.chain(*states), itertools.chain(*new))
            return
        for decayed, weight, *moments, gradient in zip(
            self.decayed, *values, gradients, strict=True
        ):
            self._move_moments(decision, *moments, gradient)
            self._move_weight(decision, decayed, weight, *moments)

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
        """Assigns values to variables on this replica."""
        variables, values = [variable.value for variable in variables], list(values)
        if self.replicas > 1:
            tf.distribute.get_replica_context().merge_call(_assign_all, args=(variables, values))
            return
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value, read_value=False)

    def _gradients(self, batch, seeds):
        """Sums over the micro-batches of one replica."""
        # One after the other, never two at a time: accumulation is there to need the activations'
        # memory of one micro-batch alone. It gives the update of the whole batch, since weights of
        # labels are divided by its totals and not by a micro-batch's.
        if self.accumulation == 1:
            part = tf.nest.map_structure(lambda array: array[0], batch)
            return self._micro_gradients(part, seeds[0])

        def add_next(place, total):
            part = tf.nest.map_structure(lambda array: array[place], batch)
            found = self._micro_gradients(part, seeds[place])
            return place + 1, tf.nest.map_structure(tf.add, total, found)

        weights = [tf.zeros(weight.shape) for weight in self.weights]
        nothing = weights, tf.zeros((len(batch[1]) + 1, len(objectives.MEASURES)))
        count = self.accumulation
        return tf.while_loop(
            lambda place, _: place < count,
            add_next,
            (0, nothing),
            parallel_iterations=1,
            maximum_iterations=count,
        )[1]

    def _gradients_now(self, arrays, seeds) -> list[np.ndarray]:
        arrays = tf.nest.map_structure(tf.convert_to_tensor, arrays)  # for Keras 3.16
        return [gradient.numpy() for gradient in self._gradients(arrays, seeds)[0]]

    def _recomputed(self, function):
        return tf.recompute_grad(function)

    def _micro_gradients(self, part, seeds):
        weights = [tf.convert_to_tensor(variable.value) for variable in self.weights]
        scale = tf.convert_to_tensor(self.counts[1].value)
        with tf.GradientTape() as tape:
            tape.watch(weights)
            forward = functools.partial(self._outputs, weights, seeds, training=True)
            loss, sums = objectives.scaled_objective(forward, part, scale, self._loss_sums)
        gradients = tape.gradient(loss, weights, unconnected_gradients="zero")
        gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]  # slices too
        for gradient, weight in zip(gradients, weights, strict=True):
            # not tf.ensure_shape: an operation that XLA makes dynamic sizes of, which stand in the
            # way of its fusions; each would draw dropout's random numbers again
            gradient.set_shape(weight.shape)
        return gradients, sums

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
        sums = self._measure(values[0] if self.replicas == 1 else self._spread(values))
        return objectives.totals(objectives.second_measures(batch.labels), np.asarray(sums))

    def predict(self, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        """The model's outputs for some examples, logits, without dropout."""
        return [np.asarray(value) for value in self._forward(inputs).values()]

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


def _for_any_length(function, jit: bool):
    """The function, traced once for arrays of any sizes; XLA has to compile for each."""
    if jit:
        return _function(function, jit_compile=True)
    made: list[Callable] = []

    def call(*arguments):
        if not made:
            signature = tf.nest.map_structure(
                lambda array: tf.TensorSpec([None] * np.ndim(array), array.dtype), arguments
            )
            made.append(_function(function, input_signature=signature))
        return made[0](*arguments)

    return call


def _assign_all(strategy, variables, values) -> None:
    for variable, value in zip(variables, values, strict=True):
        strategy.extended.update(variable, lambda v, x: v.assign(x), args=(value,))


def _strategy(devices: int | None):
    config = hosts.tf_config()
    if config:
        workers = config["cluster"]["worker"]
        local = len(tf.config.list_physical_devices("GPU")) or 1
        if devices not in (None, local):
            raise ValueError(
                f"devices must be all {local} of each host where there are several (TF_CONFIG), "
                f"got {devices}: hide the others by CUDA_VISIBLE_DEVICES"
            )
        hosts.wait_for(workers, config["task"]["index"])
        return tf.distribute.MultiWorkerMirroredStrategy()
    if tf.config.list_logical_devices("TPU"):
        return _tpu_strategy()
    gpus = tf.config.list_logical_devices("GPU")
    found = gpus or tf.config.list_logical_devices("CPU")
    count = (len(gpus) or 1) if devices is None else devices
    if not 1 <= count <= len(found):
        raise ValueError(
            f"devices must be 1 … {len(found)}, as many as there are, got {count}; one CPU is made "
            "several by tf.config.set_logical_device_configuration"
        )
    if count == 1:
        return tf.distribute.get_strategy()
    names = [device.name.removeprefix("/device:") for device in found[:count]]
    return tf.distribute.MirroredStrategy(names)


def _tpu_strategy():  # untested
    try:
        return tf.distribute.TPUStrategy()
    except ValueError as error:  # it asks for a name, and does not say where to give it
        raise ValueError(
            f"the TPU cannot be used ({error}): set TPU_NAME, on the TPU's own host to local, or "
            "take KERAS_BACKEND=jax, which needs no name"
        ) from None
