"""TensorFlow: one `strategy.run` loop for one device, several, several hosts and TPU.

On a TPU one program is a whole call: several steps in a loop, with the exchange between the chips.
Its shapes are static, and nothing in it asks the host. No TPU has run it yet.
"""

import contextlib
import gzip
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from kbert import ops as kops
from kbert.io import extras
from kbert.ops import keras_internals
from kbert.ops.tensorflow import forward_only, hide_from_xla
from kbert.training.backends import strategies
from kbert.training.backends.backend import Arrays, Backend, Program, add, compute_norm, join_small
from kbert.training.backends.strategies import LocalReplicas, all_gather, function
from kbert.training.backends.tensorflow_adamw import AdamWStep, is_adamw
from kbert.training.step.state import Counts, Values
from kbert.training.step.step import TrainingStep

WORTH_COMPILING = 4_000_000  # parameters: tiny with its heads has 4.4 million
_STEPS_ON_TPU = 8  # in one call; not measured: a call takes the host some milliseconds


class TensorFlowBackend(Backend):
    """See `Backend`. Hosts come from TF_CONFIG; all chips of a TPU are one process's."""

    shape_cost = 0.1  # measured, MiniLM-L6 on a CPU: benchmarks/LOG.md

    def __init__(self, devices: int | None = None):
        self.strategy = strategies.find_strategy(devices)
        self.replicas = self.strategy.num_replicas_in_sync
        resolver = self.strategy.cluster_resolver
        if isinstance(self.strategy, tf.distribute.MultiWorkerMirroredStrategy):
            self.process = resolver.task_id
            cluster = resolver.cluster_spec().as_dict()
            self.processes = len(cluster["worker"])
        self.local = self.replicas // self.processes
        self.local_replicas = LocalReplicas(self.strategy, self.process * self.local)
        on_tpu = self.local_replicas.on_tpu
        # on a CPU XLA gains nothing in float32 (benchmarks/records.jsonl), and compiles anew for
        # each length
        self.default_jit = on_tpu or bool(tf.config.list_physical_devices("GPU"))
        self.default_steps_per_execution = _STEPS_ON_TPU if on_tpu else 1

    def scope(self):
        return self.strategy.scope()

    def sum_over_processes(self, numbers: np.ndarray) -> np.ndarray:
        per_replica = self.strategy.run(lambda: tf.constant(numbers))
        total = self.strategy.reduce("SUM", per_replica, axis=None)
        return total.numpy()

    def is_process_failure(self, error: Exception) -> bool:
        kinds = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError)
        return self.processes > 1 and isinstance(error, kinds)

    def to_numpy(self, values: list) -> list[np.ndarray]:
        return [np.asarray(tf.convert_to_tensor(value)) for value in values]

    def compile(self, step: TrainingStep, state, jit: bool | None, steps: int) -> "_Program":
        if self.local_replicas.on_tpu and jit is False:
            raise ValueError("jit must be True or left out on a TPU: XLA compiles all, got False")
        # On a CPU XLA compiles what it is faster at, the weights' updates, and not the gradients,
        # whose every length it would compile anew. Small models are not worth it.
        jit_updates = jit
        if jit is None:
            jit_updates = step.model.count_params() > WORTH_COMPILING
            jit = self.default_jit

        # With one replica XLA compiles the whole step, and on a TPU too, the exchange within. With
        # several of other devices it compiles the two halves around the sum over replicas; vectors
        # of replicas meet before their gradients are taken, and are not compiled.
        whole = self.local_replicas.on_tpu or (jit and self.replicas == 1)
        self._jit_gradients = jit and not whole and step.embedding_loss is None

        # TensorFlow has an operation for Adam. Of other rules XLA compiles a program for each kind
        # of weight: one for all of base's 206 takes 40 s. Keras's optimizers have a rule of its own
        # for each weight, and stay within the step's.
        self.uses_adam_operation = (
            all(is_adamw(rule) for rule in step.rules)
            and all(weight.dtype == "float32" for weight in step.trained.variables)
            and not jit
            and not self.local_replicas.distributed
        )
        self.assign_update: Callable = _assign_update
        if jit_updates and not whole and isinstance(step.optimizer.name, str):
            self.assign_update = function(_assign_update, jit_compile=True)
        return _Program(self, step, state, whole, jit, steps)

    @contextlib.contextmanager
    def profile(self, folder: Path) -> Iterator[None]:
        tf.profiler.experimental.start(str(folder))
        yield
        tf.profiler.experimental.stop()

        extras.require("TensorFlow's trace for Perfetto", "profile", "xprof")
        from xprof.convert.raw_to_tool_data import xspace_to_tool_data

        (file,) = folder.rglob("*.xplane.pb")
        trace, _ = xspace_to_tool_data([str(file)], "trace_viewer", {})
        file.with_name("perfetto_trace.json.gz").write_bytes(gzip.compress(trace.encode()))

    # Within a step.

    def differentiate(self, function: Callable, arguments: list) -> tuple:
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            value, sums = function(arguments)
        zero = tf.UnconnectedGradients.ZERO
        gradients = tape.gradient(value, arguments, unconnected_gradients=zero)
        gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]  # slices too
        for gradient, argument in zip(gradients, arguments, strict=True):
            # not tf.ensure_shape: an operation that XLA makes dynamic sizes of, which stand in the
            # way of its fusions; each would draw dropout's random numbers again
            gradient.set_shape(argument.shape)
        return gradients, sums

    def trace(self, function: Callable) -> Callable:
        return tf.function(function, autograph=False)

    def checkpoint(self, function: Callable) -> Callable:
        def call(*tensors):
            def gradient(*of_outputs):
                again = [_wait_for(of_outputs[0], tensors[0])]
                with tf.control_dependencies(of_outputs):
                    again += [tf.identity(tensor) for tensor in tensors[1:]]
                with tf.GradientTape() as tape:
                    tape.watch(again)
                    outputs = function(*again)
                return tape.gradient(outputs, again, output_gradients=of_outputs)

            return keras_internals.call_with_gradient(function, tensors, gradient)

        return call

    def sum_over_micro_batches(
        self, function: Callable, make_zeros: Callable, batch, seeds, count=None
    ):
        seeds = tf.convert_to_tensor(seeds)
        capacity = seeds.shape[0]
        count = capacity if count is None else count

        def run_one(index):
            micro_batch = tf.nest.map_structure(lambda array: array[index], batch)
            return function(micro_batch, seeds[index])

        def is_left(index, total):
            return index < count

        def add_next(index, total):
            return index + 1, add(total, run_one(index))

        if capacity == 1:
            return run_one(0)
        # One after the other, never two at a time: accumulation is there to need the memory of one.
        _, total = tf.while_loop(
            is_left,
            add_next,
            (0, make_zeros()),
            parallel_iterations=1,
            maximum_iterations=capacity,
        )
        return total

    def map_micro_batches(self, function: Callable, inputs, seeds):
        return tf.map_fn(
            lambda pair: function(*pair),
            (inputs, seeds),
            parallel_iterations=1,
            fn_output_signature=tf.float32,
        )

    def sum_over_devices(self, of_device: Callable) -> Callable:
        if self._jit_gradients:
            of_device = function(of_device, jit_compile=True)

        def sum_gradients(*arguments):
            # read here: a variable that a tape sees is watched
            tensors = tf.nest.map_structure(tf.convert_to_tensor, arguments)
            results = of_device(*tensors)
            if self.replicas > 1:
                return tf.distribute.get_replica_context().all_reduce("SUM", results)
            if kops.device_kind() != "gpu":
                return results
            gradients, sums = results
            gradients = join_small(gradients, lambda vector: hide_from_xla([vector])[0])
            return gradients, sums

        return sum_gradients

    def all_gather(self, arrays: list) -> list:
        return all_gather(arrays, self.device_index(), self.replicas)

    def device_index(self):
        return tf.distribute.get_replica_context().replica_id_in_sync_group

    def global_norm(self, gradients: list):
        if kops.device_kind() == "gpu":
            return compute_norm([tf.convert_to_tensor(gradient) for gradient in gradients])
        # outside of the step's function: XLA would write every square down before it adds them up
        halves = [tf.nn.l2_loss(gradient) for gradient in gradients]
        return tf.sqrt(2.0 * tf.add_n(halves))

    def apply(self, step, decision, values: Values, gradients, counts: Counts) -> Values:
        """Assign the new values to the variables that `values` has."""
        if self.local_replicas.distributed:
            tensors = tf.nest.map_structure(tf.convert_to_tensor, values)
            new = super().apply(step, decision, tensors, gradients, counts)
            context = tf.distribute.get_replica_context()
            old_values = tf.nest.flatten(values)
            new_values = tf.nest.flatten(new)
            context.merge_call(_assign_all, args=(old_values, new_values))
            return values

        if self.uses_adam_operation:
            self._assign_by_adamw(step, decision, values, gradients)
        else:
            for of_weight in step.each_weight(decision, values, gradients):
                self.assign_update(step, *of_weight)
        for variable, count in zip(values.counts, counts, strict=True):
            variable.assign(count, read_value=False)
        return values

    def _assign_by_adamw(self, step, decision, values: Values, gradients) -> None:
        adamw = AdamWStep(step.optimizer, decision)
        weights = zip(
            step.trained.rates, step.decayed, values.weights, values.slots, gradients, strict=True
        )
        for of_weight in weights:
            adamw.assign(*of_weight)


def _wait_for(gradient, tensor):
    """Return a tensor once a gradient is there.

    Else TensorFlow would take the results of the first computation, in place of a second one.
    """
    number = tf.reshape(gradient, [-1])[0]
    zero = tf.where(number == number, 0.0, float("nan"))
    return tensor + tf.cast(zero, tensor.dtype)


def _assign_all(strategy, variables: list, values: list) -> None:
    """Assign each replica's values to its copies of the variables."""
    for variable, value in zip(variables, values, strict=True):
        strategy.extended.update(variable, lambda v, x: v.assign(x), args=(value,))


def _assign_update(step, decision, rule, decayed: bool, weight, slots, gradient) -> None:
    value = weight.read_value()
    values = {name: slot.read_value() for name, slot in slots.items()}
    new, new_slots = step.update_weight(decision, rule, decayed, value, values, gradient)
    weight.assign(new, read_value=False)
    for name, slot in slots.items():
        slot.assign(new_slots[name], read_value=False)


_computing = threading.RLock()


def _call_alone(compiled: Callable, *arguments):
    """Call a compiled function while no other thread's run calls one.

    TensorFlow fails where two threads trace the gradient of one function, and kbert's operations
    are functions that all runs share. Beside another one, a function can have other last bits too.
    What waits loses little: each takes all cores.
    """
    with _computing:
        return compiled(*arguments)


class _Program(Program):
    def __init__(self, backend, step, state, whole: bool, jit: bool, steps: int):
        super().__init__(backend, step, state)
        self._steps = steps
        self._forward_pass = contextlib.nullcontext if jit else forward_only
        self.variables = state.values()

        replicas = backend.local_replicas
        several = self.replica_update, steps, lambda batch, _: step.metric_names(batch[1])
        if replicas.distributed:
            self.call = replicas.compile_steps(*several)
            self.update_function = replicas.compile_for_each(self.replica_update)
            self.sums = replicas.compile_for_each(self._replica_sums)
        else:
            steps_in_a_loop = strategies.loop_over_steps(*several)
            # Not optimized: one step and a loop of several would become graphs of other last bits.
            self.call = _for_any_length(steps_in_a_loop, jit=whole, as_traced=True)
            self.update_function = _for_any_length(self.replica_update, jit=whole, as_traced=True)
            self.sums = _for_any_length(self._replica_sums, jit=whole)

        if replicas.on_tpu:
            self._forward = replicas.collect_results(self._outputs)
        else:
            self._forward = _for_any_length(self._outputs, jit=jit)

    def update(self, shards: list[Arrays], seeds: np.ndarray) -> dict:
        arguments = self.split_by_replica(shards, seeds)
        per_replica = self.backend.local_replicas.per_replica(arguments)
        return _call_alone(self.update_function, *per_replica)

    def updates(self, steps: Sequence) -> Callable[[], list[dict[str, float]]]:
        if self._steps == 1:
            return super().updates(steps)

        of_steps = [self.split_by_replica(shards, seeds) for shards, seeds in steps]
        # one program, however many steps there are: it leaves what is filled up alone
        missing = self._steps - len(steps)
        filled = of_steps + of_steps[-1:] * missing

        stacked = []
        for steps_of_replica in zip(*filled, strict=True):
            stacked.append(strategies.stack_steps(list(steps_of_replica)))
        arguments = self.backend.local_replicas.per_replica(stacked)
        table = _call_alone(self.call, tf.constant(len(steps)), *arguments)

        shards, _ = steps[0]
        _, labels, *_ = shards[0]
        names = self.step.metric_names(labels)

        def read():
            values = table.numpy()  # waits for the device, once
            metrics = values[: len(steps)].tolist()
            return [dict(zip(names, numbers, strict=True)) for numbers in metrics]

        return read

    def to_tensors(self, arrays, axis: int = 0):
        # Keras's own function returns a variable as it is, of which TensorFlow records no gradient.
        return tf.nest.map_structure(tf.convert_to_tensor, arrays)

    def measure(self, shards: list[Arrays]) -> np.ndarray:
        per_replica = self.backend.local_replicas.per_replica(shards)
        sums = _call_alone(self.sums, per_replica)
        return np.asarray(sums)

    def predict(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        local_replicas = self.backend.local_replicas
        if not local_replicas.on_tpu:
            tensors = _call_alone(self._forward, inputs)
            return {name: np.asarray(value) for name, value in tensors.items()}

        count = len(next(iter(inputs.values())))
        chips = self.backend.replicas
        size = math.ceil(count / chips)  # of each chip; the last ones have some examples again
        shards = []
        for chip in range(chips):
            start = chip * size
            indices = np.arange(start, start + size) % count
            shard = {name: array[indices] for name, array in inputs.items()}
            shards.append(shard)

        outputs = {}
        outputs_of_chips = _call_alone(self._forward, local_replicas.per_replica(shards))
        for name, of_chips in outputs_of_chips.items():
            arrays = [np.asarray(array) for array in of_chips]
            outputs[name] = np.concatenate(arrays)[:count]
        return outputs

    def split_by_replica(self, shards: list[Arrays], seeds: np.ndarray) -> list[tuple]:
        """Return arrays and seeds of each of this host's replicas."""
        first = self.backend.process * self.backend.local
        local_seeds = seeds[first : first + self.backend.local]
        return list(zip(shards, local_seeds, strict=True))

    def replica_update(self, batch, seeds):
        """Run a step on one replica; return its metrics."""
        shape = (self.step.accumulation_steps, self.step.dropouts, 2)
        seeds.set_shape(shape)
        _, metrics = self.step.update(self.variables, self.frozen(), batch, seeds)
        return metrics

    def _replica_sums(self, batch):
        with self._forward_pass():
            sums = self.step.measure(*self._tensors(), batch)
        if self.backend.replicas == 1:
            return sums
        return tf.distribute.get_replica_context().all_reduce("SUM", sums)

    def _outputs(self, inputs):
        with self._forward_pass():
            return self.step.outputs(*self._tensors(), inputs)

    def _tensors(self) -> tuple[list, list]:
        variables = self.variables.result_weights()
        weights = [tf.convert_to_tensor(variable) for variable in variables]
        frozen = [tf.convert_to_tensor(weight) for weight in self.frozen()]
        return weights, frozen


class GraphAsTraced:
    """A `with` in which TensorFlow runs graphs as they were traced, without its graph optimizers.

    They work for one to four seconds at a step's graph, before the first step. A step is then 3 %
    faster with oneDNN, and as fast without it (benchmarks/LOG.md). They have one switch for the
    whole process: the last of several threads sets it back to what its user had set.
    """

    def __init__(self):
        self._lock = threading.Lock()
        self._threads = 0
        self._setting_of_user = False

    def __enter__(self):
        options = tf.config.optimizer
        with self._lock:
            if self._threads == 0:
                settings = options.get_experimental_options()
                self._setting_of_user = settings.get("disable_meta_optimizer", False)
                options.set_experimental_options({"disable_meta_optimizer": True})
            self._threads += 1

    def __exit__(self, *error):
        with self._lock:
            self._threads -= 1
            if self._threads == 0:
                setting = {"disable_meta_optimizer": self._setting_of_user}
                tf.config.optimizer.set_experimental_options(setting)


graph_as_traced = GraphAsTraced()


def _for_any_length(of_replica: Callable, jit: bool, as_traced: bool = False) -> Callable:
    """Return the function, traced once for arrays of any sizes; XLA has to compile for each.

    `as_traced`: whether its graph is left as it is, where XLA does not compile it.
    """
    if jit:
        return function(of_replica, jit_compile=True)

    traced: list[Callable] = []

    def describe(array):
        shape = [None] * np.ndim(array)
        return tf.TensorSpec(shape, array.dtype)

    def call(*arguments):
        if not traced:
            signature = tf.nest.map_structure(describe, arguments)
            traced.append(function(of_replica, input_signature=signature))
        with graph_as_traced if as_traced else contextlib.nullcontext():
            return traced[0](*arguments)

    return call
