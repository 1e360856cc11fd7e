"""Replication of a function over all devices of this host: one or several steps per call.

A replica's function becomes a tf.function, compiled by XLA or not. On a TPU it is one program of
the chips, with the loop and the exchange inside; elsewhere a loop over steps runs around the
replicas, which cannot meet inside one.
"""

import functools
from collections.abc import Callable

import numpy as np
import tensorflow as tf

# no Python `if` or `for` depends on a tensor here: what would convert them takes its time
function = functools.partial(tf.function, autograph=False)
_BASE = 1 << 16  # of int32 in two float32, which are exact to 2²⁴


class Spread:
    """Replicas of this host.

    Args:
        strategy: of all hosts.
        first: the number of this host's first replica.

    Attributes:
        on_tpu: whether they are a TPU's chips.
        distributed: whether variables are each replica's own copies, by `strategy.run`.
    """

    def __init__(self, strategy: tf.distribute.Strategy, first: int = 0):
        self._strategy, self._first = strategy, first
        self.on_tpu = isinstance(strategy, tf.distribute.TPUStrategy)
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
        """Return a function of `values`, where they are distributed.

        Its result is the same on each.
        """

        # on TPU shapes stay as they are: one that is relaxed has no size that XLA would know
        @functools.partial(function, reduce_retracing=not self.on_tpu)
        def run(*arguments):
            return self._run(of_replica, *arguments)

        return run

    def one_by_one(self, of_replica: Callable, most: int, columns: Callable) -> Callable:
        """Return the same of several steps: see `one_by_one`."""
        if self.on_tpu:
            return self.on_each(one_by_one(of_replica, most, columns))

        @functools.partial(function, reduce_retracing=True)
        def run(count, *stacked):
            one = functools.partial(self._run, _nth(of_replica))
            return _rows(lambda place: one(place, *stacked), count, most, columns(*stacked))

        return run

    def all_of(self, of_replica: Callable) -> Callable:
        """Return a function of `values` whose results are lists, one of each replica."""

        @function
        def run(*arguments):
            return self._strategy.run(of_replica, args=arguments)

        return lambda *arguments: tf.nest.map_structure(
            self._strategy.experimental_local_results, run(*arguments)
        )

    def _run(self, of_replica: Callable, *arguments):
        results = self._strategy.run(of_replica, args=arguments)
        local = self._strategy.experimental_local_results
        return tf.nest.map_structure(lambda result: local(result)[0], results)


def one_by_one(of_replica: Callable, most: int, columns: Callable) -> Callable:
    """Return a function that runs several steps, one after the other, on stacked arguments.

    Its result is float32 (most, columns): one row per step, 0 where there is none.

    Args:
        of_replica: one step of a replica: scalars by name, the same on every replica.
        most: how many are stacked.
        columns: gives the names, of the stacked arguments.
    """
    nth = _nth(of_replica)
    return lambda count, *stacked: _rows(
        lambda place: nth(place, *stacked), count, most, columns(*stacked)
    )


def _nth(of_replica: Callable) -> Callable:
    return lambda place, *stacked: of_replica(
        *tf.nest.map_structure(lambda array: array[place], stacked)
    )


def stacked(parts: list):
    """NumPy arrays of several steps, in the structure of one."""
    return tf.nest.map_structure(lambda *arrays: np.stack(arrays), *parts)


def _rows(nth: Callable, count, most: int, names: list[str]):
    """Stack the results of `count` calls by name, as rows of one array."""
    places = tf.range(most)[:, None]

    def add_next(place, rows):
        found = dict(nth(place))
        row = tf.stack([tf.cast(found.pop(name), "float32") for name in names])
        assert not found, f"figures without a column: {', '.join(found)}"
        return place + 1, tf.where(places == place, row, rows)

    first = 0, tf.zeros((most, len(names)))
    return tf.while_loop(lambda n, _: n < count, add_next, first, parallel_iterations=1)[1]


def of_all(arrays: list, place, replicas: int) -> list:
    """Each replica's arrays (B, …), float32 or int32, as (replicas, B, …) of all, on each of them.

    Args:
        arrays: this replica's; of the same shapes on each.
        place: which replica this is.
        replicas: how many there are.
    """
    # A sum of what is 0 but in one place: the one exchange that every strategy has within a
    # program. TensorFlow's own all_gather on TPU is no other.
    own = tf.equal(tf.range(replicas), place)
    placed = [_only_where(own, _as_floats(array)) for array in arrays]
    context = tf.distribute.get_replica_context()
    sums = context.all_reduce(tf.distribute.ReduceOp.SUM, placed)
    return [_as_before(one, array.dtype) for one, array in zip(sums, arrays, strict=True)]


def _only_where(own, array):
    """(replicas, B, …): the array in one place, 0 in the others."""
    here = tf.reshape(own, [-1] + [1] * array.shape.rank)
    return tf.where(here, array[None], 0.0)


def _as_floats(array):
    """Float32, two for an int32, which is exact then: not every exchange takes whole numbers."""
    if array.dtype != tf.int32:
        return array
    return tf.cast(tf.stack([array // _BASE, array % _BASE], axis=-1), tf.float32)


def _as_before(floats, dtype):
    """Return the arrays that `_as_floats` was given."""
    if dtype != tf.int32:
        return floats
    whole = tf.cast(floats, tf.int32)
    return whole[..., 0] * _BASE + whole[..., 1]
