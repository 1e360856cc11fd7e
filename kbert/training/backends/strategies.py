"""Devices and hosts that TensorFlow trains on, and functions that run on each of their replicas.

On a TPU a call is one program of the chips, with the loop over steps and the exchange inside;
elsewhere the loop runs around the replicas, which cannot meet inside one.
"""

import functools
import os
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from kbert.training.backends import hosts

_NAME = "TPU_NAME"
# no Python `if` or `for` depends on a tensor here: what would convert them takes its time
function = functools.partial(tf.function, autograph=False)
_BASE = 1 << 16  # of int32 in two float32, which are exact to 2²⁴


def find_strategy(devices: int | None) -> tf.distribute.Strategy:
    """Return the strategy for several hosts, a TPU, several devices or one."""
    config = hosts.read_tf_config()
    if config:
        return _join_hosts(config, devices)
    # the variable first: to ask for devices is to start them, and a remote TPU has to come before
    if os.environ.get(_NAME) or tf.config.list_logical_devices("TPU"):
        return _find_tpu(devices)
    return _find_local(devices)


def _join_hosts(config: dict, devices: int | None) -> tf.distribute.Strategy:
    """Return the strategy for the hosts of TF_CONFIG, once all are there."""
    local = len(tf.config.list_physical_devices("GPU")) or 1
    if devices not in (None, local):
        raise ValueError(
            f"devices must be all {local} of each host where there are several (TF_CONFIG), "
            f"got {devices}: hide the others by CUDA_VISIBLE_DEVICES"
        )
    workers = config["cluster"]["worker"]
    hosts.wait_for(workers, config["task"]["index"])
    return tf.distribute.MultiWorkerMirroredStrategy()


def _find_tpu(devices: int | None) -> tf.distribute.Strategy:
    name = os.environ.get(_NAME) or "local"  # this host's own
    strategy = connect_tpu(name)
    chips = strategy.num_replicas_in_sync
    if devices not in (None, chips):
        raise ValueError(f"devices must be all {chips} of the TPU {name!r}, got {devices}")
    return strategy


def _find_local(devices: int | None) -> tf.distribute.Strategy:
    """Return the strategy for so many of this host's GPUs or CPUs; None: all GPUs, or one CPU."""
    gpus = tf.config.list_logical_devices("GPU")
    known = gpus or tf.config.list_logical_devices("CPU")
    count = (len(gpus) or 1) if devices is None else devices
    if not 1 <= count <= len(known):
        raise ValueError(
            f"devices must be 1 … {len(known)}, as many as there are, got {count}: to make "
            "several of one CPU, call tf.config.set_logical_device_configuration"
        )
    if count == 1:
        return tf.distribute.get_strategy()
    names = [device.name.removeprefix("/device:") for device in known[:count]]
    return _mirrored(tuple(names))


@functools.cache
def _mirrored(names: tuple[str, ...]) -> tf.distribute.Strategy:
    # One for all runs of a process: each new one numbers its exchanges from the same number on, and
    # TensorFlow holds those of another run, of other sizes, for the same ones, and fails.
    return tf.distribute.MirroredStrategy(names)


def connect_tpu(name: str) -> tf.distribute.Strategy:
    """Return the strategy for all chips of a TPU; a ValueError says why it cannot be used."""
    try:
        scheme, _, address = name.partition("://")
        if scheme == "grpc" and not hosts.is_reachable(address.split(",")[0]):
            raise OSError(f"nothing answers at {address}")  # TensorFlow would wait for minutes
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=name)
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        return tf.distribute.TPUStrategy(resolver)
    except (ValueError, RuntimeError, OSError, tf.errors.OpError) as error:
        lines = str(error).strip().splitlines()
        reason = lines[0] if lines else type(error).__name__
        reason = reason[:200]
        raise ValueError(
            f"the TPU {name!r} cannot be used ({reason}): {_NAME} must be local on a TPU's "
            "own host, where tensorflow-tpu is installed instead of tensorflow, or the name or "
            "grpc:// address of one. For other devices unset it, or take KERAS_BACKEND=jax"
        ) from None


class LocalReplicas:
    """Replicas of this host; `first` is the number of its first one among all hosts'."""

    def __init__(self, strategy: tf.distribute.Strategy, first: int = 0):
        self._strategy = strategy
        self._first = first
        self.on_tpu = isinstance(strategy, tf.distribute.TPUStrategy)
        # whether variables are each replica's own copies, by `strategy.run`
        self.distributed = strategy.num_replicas_in_sync > 1 or self.on_tpu

    def per_replica(self, values: list):
        """Return an argument of which each of this host's replicas has its own."""
        if not self.distributed:
            return values[0]

        def value(context):
            replica = context.replica_id_in_sync_group - self._first
            return tf.nest.map_structure(tf.convert_to_tensor, values[replica])

        return self._strategy.experimental_distribute_values_from_function(value)

    def compile_for_each(self, of_replica: Callable) -> Callable:
        """Return a function of values `per_replica`, whose result is the same on each replica."""

        def run(*arguments):  # no lambda: a TPU's program has its name
            return self._run(of_replica, *arguments)

        # on TPU shapes stay as they are: one that is relaxed has no size that XLA would know
        return function(run, reduce_retracing=not self.on_tpu)

    def compile_steps(self, of_replica: Callable, most: int, columns: Callable) -> Callable:
        """Return the same of several steps: see `loop_over_steps`."""
        if self.on_tpu:
            return self.compile_for_each(loop_over_steps(of_replica, most, columns))
        together = loop_over_steps(of_replica, most, columns, self._run)
        return function(together, reduce_retracing=True)

    def collect_results(self, of_replica: Callable) -> Callable:
        """Return a function of values `per_replica`; each result is a list, one per replica."""

        @function
        def run(*arguments):
            return self._strategy.run(of_replica, args=arguments)

        local = self._strategy.experimental_local_results
        return lambda *arguments: tf.nest.map_structure(local, run(*arguments))

    def _run(self, of_replica: Callable, *arguments):
        results = self._strategy.run(of_replica, args=arguments)
        local = self._strategy.experimental_local_results
        return tf.nest.map_structure(lambda result: local(result)[0], results)


def loop_over_steps(
    of_replica: Callable, most: int, columns: Callable, on_each: Callable | None = None
) -> Callable:
    """Return a function that runs several steps, one after the other, on stacked arguments.

    Its result is float32 (most, columns): one row per step, 0 where there is none. `of_replica`
    returns scalars by name, the same on every replica; `columns` returns their names, from the
    stacked arguments. `on_each` calls a function of a replica on each; None: this is one.
    """

    def run_one(index, *stacked):
        arguments = tf.nest.map_structure(lambda array: array[index], stacked)
        return of_replica(*arguments)

    def run(count, *stacked):
        steps = tf.range(most)[:, None]
        names = columns(*stacked)

        def add_next(step, table):
            if on_each is None:
                metrics = run_one(step, *stacked)
            else:
                metrics = on_each(run_one, step, *stacked)
            values = [tf.cast(metrics[name], "float32") for name in names]
            row = tf.stack(values)
            return step + 1, tf.where(steps == step, row, table)

        def is_left(step, table):
            return step < count

        first = 0, tf.zeros((most, len(names)))
        _, table = tf.while_loop(is_left, add_next, first, parallel_iterations=1)
        return table

    return run


def stack_steps(steps: list):
    """NumPy arrays of several steps, in the structure of one."""
    return tf.nest.map_structure(lambda *arrays: np.stack(arrays), *steps)


def all_gather(arrays: list, replica, replicas: int) -> list:
    """Return arrays (B, …) of a replica, of equal shapes, as (replicas, B, …) of all."""
    # A sum of arrays that are 0 except for one replica: the one exchange that every strategy has
    # within a program. TensorFlow's own all_gather on TPU does the same.
    is_here = tf.equal(tf.range(replicas), replica)
    padded = []
    for array in arrays:
        if array.dtype == tf.int32:  # not every exchange takes whole numbers
            high = array // _BASE
            low = array % _BASE
            halves = tf.stack([high, low], axis=-1)
            array = tf.cast(halves, tf.float32)
        ones = [1] * array.shape.rank
        here = tf.reshape(is_here, [-1, *ones])
        padded.append(tf.where(here, array[None], 0.0))

    sums = tf.distribute.get_replica_context().all_reduce("SUM", padded)
    for n, array in enumerate(arrays):
        if array.dtype == tf.int32:
            halves = tf.cast(sums[n], tf.int32)
            sums[n] = halves[..., 0] * _BASE + halves[..., 1]
    return sums
