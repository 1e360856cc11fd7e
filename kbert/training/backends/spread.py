"""Replication of a function over all devices of this host: one or several steps per call.

On a TPU a call is one program of the chips, with the loop and the exchange inside; elsewhere a loop
over steps runs around the replicas, which cannot meet inside one.
"""

import functools
from collections.abc import Callable

import numpy as np
import tensorflow as tf

# no Python `if` or `for` depends on a tensor here: what would convert them takes its time
function = functools.partial(tf.function, autograph=False)
_BASE = 1 << 16  # of int32 in two float32, which are exact to 2²⁴


class Spread:
    """Replicas of this host; `first` is the number of its first one among all hosts'."""

    def __init__(self, strategy: tf.distribute.Strategy, first: int = 0):
        self._strategy, self._first = strategy, first
        self.on_tpu = isinstance(strategy, tf.distribute.TPUStrategy)
        # whether variables are each replica's own copies, by `strategy.run`
        self.distributed = strategy.num_replicas_in_sync > 1 or self.on_tpu

    def values(self, values: list):
        """Return an argument of which each of this host's replicas has its own."""
        if not self.distributed:
            return values[0]

        def value(context):
            place = context.replica_id_in_sync_group - self._first
            return tf.nest.map_structure(tf.convert_to_tensor, values[place])

        return self._strategy.experimental_distribute_values_from_function(value)

    def on_each(self, of_replica: Callable) -> Callable:
        """Return a function of distributed `values`, whose result is the same on each replica."""

        def run(*arguments):  # no lambda: a TPU's program has its name
            return self._run(of_replica, *arguments)

        # on TPU shapes stay as they are: one that is relaxed has no size that XLA would know
        return function(run, reduce_retracing=not self.on_tpu)

    def one_by_one(self, of_replica: Callable, most: int, columns: Callable) -> Callable:
        """Return the same of several steps: see `one_by_one`."""
        if self.on_tpu:
            return self.on_each(one_by_one(of_replica, most, columns))
        return function(one_by_one(of_replica, most, columns, self._run), reduce_retracing=True)

    def all_of(self, of_replica: Callable) -> Callable:
        """Return a function of `values` whose results are lists, one of each replica."""

        @function
        def run(*arguments):
            return self._strategy.run(of_replica, args=arguments)

        local = self._strategy.experimental_local_results
        return lambda *arguments: tf.nest.map_structure(local, run(*arguments))

    def _run(self, of_replica: Callable, *arguments):
        results = self._strategy.run(of_replica, args=arguments)
        local = self._strategy.experimental_local_results
        return tf.nest.map_structure(lambda result: local(result)[0], results)


def one_by_one(
    of_replica: Callable, most: int, columns: Callable, on_each: Callable | None = None
) -> Callable:
    """Return a function that runs several steps, one after the other, on stacked arguments.

    Its result is float32 (most, columns): one row per step, 0 where there is none.

    Args:
        of_replica: one step of a replica: scalars by name, the same on every replica.
        most: how many are stacked.
        columns: gives the names, of the stacked arguments.
        on_each: calls a function of a replica on each; None: this is one.
    """

    def nth(place, *stacked):
        return of_replica(*tf.nest.map_structure(lambda array: array[place], stacked))

    def run(count, *stacked):
        places, names = tf.range(most)[:, None], columns(*stacked)

        def add_next(place, rows):
            found = on_each(nth, place, *stacked) if on_each else nth(place, *stacked)
            row = tf.stack([tf.cast(found[name], "float32") for name in names])
            return place + 1, tf.where(places == place, row, rows)

        first = 0, tf.zeros((most, len(names)))
        return tf.while_loop(lambda n, _: n < count, add_next, first, parallel_iterations=1)[1]

    return run


def stacked(parts: list):
    """NumPy arrays of several steps, in the structure of one."""
    return tf.nest.map_structure(lambda *arrays: np.stack(arrays), *parts)


def of_all(arrays: list, place, replicas: int) -> list:
    """Return arrays (B, …) of each replica, float32 or int32, as (replicas, B, …) on all.

    `place` is the number of this replica. The arrays have the same shapes on each.
    """
    # A sum of what is 0 but in one place: the one exchange that every strategy has within a
    # program. TensorFlow's own all_gather on TPU is no other.
    own = tf.equal(tf.range(replicas), place)
    placed = []
    for array in arrays:
        if array.dtype == tf.int32:  # not every exchange takes whole numbers
            array = tf.cast(tf.stack([array // _BASE, array % _BASE], axis=-1), tf.float32)
        here = tf.reshape(own, [-1] + [1] * array.shape.rank)
        placed.append(tf.where(here, array[None], 0.0))
    sums = tf.distribute.get_replica_context().all_reduce("SUM", placed)
    for n, array in enumerate(arrays):
        if array.dtype == tf.int32:
            halves = tf.cast(sums[n], tf.int32)
            sums[n] = halves[..., 0] * _BASE + halves[..., 1]
    return sums
