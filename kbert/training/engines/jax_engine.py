"""JAX: one compiled step over all devices and hosts.

Each device computes the gradients of its part of every micro-batch, by `shard_map`, with dropout
seeds of its own; they are summed once, and all else is the program of one device.
"""

import atexit
import contextlib
import functools
import os
import sys
import time
from typing import Any

import jax
import numpy as np

from kbert.data.training_batch import TrainingBatch
from kbert.training import loss
from kbert.training.engines.engine import Engine
from kbert.training.stopping import NO_WISH, Wishes

# Seconds: an update that is worth a wait, and what XLA's threads take to give its memory back.
_LONG, _MOMENT = 0.2, 0.002
_ADDRESSES = "KERAS_DISTRIBUTION_JOB_ADDRESSES"


class JaxEngine(Engine):
    """See `Engine`. Hosts come from the variables that `keras.distribution.initialize` reads."""

    def __init__(self, devices: int | None = None):
        import keras

        if os.environ.get(_ADDRESSES) and not jax.distributed.is_initialized():
            from kbert.training.engines import hosts

            hosts.start_jax()
        self.process, self.processes = jax.process_index(), jax.process_count()
        used = _devices(devices)
        self.replicas = len(used)
        self.platform = used[0].platform
        self.distribution = None
        self.mesh: Any = None
        if self.replicas > 1:
            names = [f"{device.platform}:{device.id}" for device in used]
            self.distribution = keras.distribution.DataParallel(
                devices=names, auto_shard_dataset=False
            )
            # equal to Keras's own, which JAX compares by its devices and names
            self.mesh = jax.sharding.Mesh(np.array(used), [self.distribution.batch_dim_name])

    def scope(self):
        return self.distribution.scope() if self.distribution else contextlib.nullcontext()

    def _compile(self) -> None:
        compiled = jax.jit if self.jit else lambda function, **_: function
        several = self.mesh is not None and self.mesh.size > 1
        self._summed_gradients = jax.jit(self._of_parts) if several else self._of_whole
        # On one CPU the gradients of a step are written to the memory of the previous step's. The
        # peak is 15 % lower than with gradients among XLA's temporary tensors.
        self._writes_over = bool(self.jit) and self.platform == "cpu" and self.replicas == 1
        self._update = compiled(
            self._whole_update, donate_argnums=(0, 4), keep_unused=self._writes_over
        )
        self._last_gradients: list = []
        self._begun = self._took = 0.0
        self._measure = compiled(self._measured)
        self._forward = compiled(self._logits)

    def update(self, batch: TrainingBatch, step: int, wishes: Wishes = NO_WISH) -> dict:
        """See `Engine`."""
        variables = self._updated()
        (arrays,) = self._arrays(batch, 1, wishes)
        self._await_last()
        values = [variable.value for variable in variables]
        seeds, frozen = self._seeds_of_mesh(step), self._frozen_values()
        if self._writes_over and not self._last_gradients:
            self._last_gradients = [jax.numpy.zeros_like(value) for value in self._weights()]
        new, logs, self._last_gradients = self._update(
            values, self._placed(arrays, 1), seeds, frozen, self._last_gradients
        )
        for variable, value in zip(variables, new, strict=True):
            variable.assign(value)
        return logs

    def _await_last(self) -> None:
        """Until a long step has given its memory back: the next takes that, not as much again.

        XLA does so a moment after the results are there, on a thread of its own.
        """
        if self._last_gradients and self._took > _LONG:
            jax.block_until_ready(self._last_gradients)
            time.sleep(_MOMENT)
        now = time.perf_counter()
        self._begun, self._took = now, now - self._begun

    def update_program(self, batch: TrainingBatch) -> tuple:
        """Return an uncompiled step and its arguments, for devices that are not there.

        Args:
            batch: of the shapes and types to compile for.

        Returns:
            A jitted function, and its arguments: variables, arrays (micro-batches, B, …), seeds
            (devices, micro-batches, …).
        """
        (arrays,) = self._arrays(batch, 1)
        update = jax.jit(self._whole_update, donate_argnums=0)
        return update, (self._updated(), arrays, self._seeds_of_mesh(0))

    def evaluation_program(self, batch: TrainingBatch) -> tuple:
        """Return the same of `evaluate`; its arguments: variables, arrays (B, …)."""
        arrays = batch.inputs, batch.labels, batch.weights
        return jax.jit(self._measured), (self.weights, arrays)

    def _placed(self, arrays, axis: int):
        """Place this process's arrays as parts of the whole batch's, split along an axis."""
        if not self.distribution:
            return arrays
        spec = jax.sharding.PartitionSpec(*[None] * axis, self.distribution.batch_dim_name)
        sharding = jax.sharding.NamedSharding(self.mesh, spec)
        return jax.tree.map(
            lambda array: jax.make_array_from_process_local_data(sharding, array), arrays
        )

    def _whole_update(self, values, batch, seeds, frozen=(), last_gradients=()):
        """Return new values of the variables, metrics, and gradients if others are given."""
        weights, _, _, (_, scale, *_) = self._split(values)
        gradients, sums = self._summed_gradients(weights, batch, seeds, scale, frozen)
        names = loss.second_measures(batch[1], axes=2)
        new, logs = self._step(names, values, gradients, sums)
        return new, logs, list(gradients) if last_gradients else []

    def _seeds_of_mesh(self, step: int) -> np.ndarray:
        """Return a step's seeds of each device, on every one."""
        return self._seeds(step, range(self._sharers()))

    def _of_whole(self, weights, batch, seeds, scale, frozen):
        return self._gradients(weights, batch, seeds[0], scale, frozen)

    def _of_parts(self, weights, batch, seeds, scale, frozen):
        """Sum `_gradients` over the devices, each of its part of the batch."""
        (axis,) = self.mesh.axis_names

        def of_part(weights, batch, seeds, scale, frozen):
            own = seeds[jax.lax.axis_index(axis)]
            return jax.lax.psum(self._gradients(weights, batch, own, scale, frozen), axis)

        whole, split = jax.sharding.PartitionSpec(), jax.sharding.PartitionSpec(None, axis)
        specs = whole, split, whole, whole, whole
        return _mapped(of_part, self.mesh, specs, whole)(weights, batch, seeds, scale, frozen)

    def _sharers(self) -> int:
        return 1 if self.mesh is None else self.mesh.size

    def _place(self):
        return jax.lax.axis_index(self.mesh.axis_names[0])

    def _gathered(self, arrays: list) -> list:
        return jax.lax.all_gather(arrays, self.mesh.axis_names[0])

    def _computed_first(self, tensors: list) -> list:
        # On a CPU XLA would read the old moments for the weight again, and copy them before it
        # writes the new ones in their place.
        return jax.lax.optimization_barrier(tensors) if self.platform == "cpu" else tensors

    def _gradients(self, weights, batch, seeds, scale, frozen):
        """Sum over the micro-batches, one after the other: memory of one."""
        if self._caches(batch[1]):
            again = functools.partial(
                self._gradients, weights, seeds=seeds, scale=scale, frozen=frozen
            )
            return self._cached_gradients(again, weights, batch, seeds, frozen)

        def of(part, seed):
            def loss_of(weights):
                forward = functools.partial(
                    self._outputs, weights, seed, training=True, frozen=frozen
                )
                return loss.scaled_objective(forward, part, scale, self._loss_sums, self.lessons)

            (_, sums), gradients = jax.value_and_grad(loss_of, has_aux=True)(weights)
            return gradients, sums

        def add_next(total, micro_batch):
            return jax.tree.map(jax.numpy.add, total, of(*micro_batch)), None

        first = jax.tree.map(lambda array: array[0], (batch, seeds))
        if self.accumulation_steps == 1:
            return of(*first)
        nothing = jax.tree.map(
            lambda like: jax.numpy.zeros(like.shape, like.dtype), jax.eval_shape(of, *first)
        )
        return jax.lax.scan(add_next, nothing, (batch, seeds))[0]

    def _gradients_now(self, batch: TrainingBatch, step: int) -> list[np.ndarray]:
        (arrays,), seeds = self._arrays(batch, 1), self._seeds_of_mesh(step)
        scale, frozen = self.counts[1].value, self._frozen_values()
        placed = self._placed(arrays, 1)
        found = self._summed_gradients(self._weights(), placed, seeds, scale, frozen)
        return [np.asarray(gradient) for gradient in found[0]]

    def _for_each(self, function, inputs, seeds):
        return jax.lax.map(lambda pair: function(*pair), (inputs, seeds))

    def _slopes(self, function, x):
        def first(x):
            sums = function(x)
            return sums[0], sums

        return jax.grad(first, has_aux=True)(x)

    def _checkpoint(self, function):
        return jax.checkpoint(function)

    def _weights(self) -> list:
        return [variable.value for variable in self.weights]

    def _logits(self, weights, inputs, frozen):
        outputs = self._outputs(weights, self._no_seeds(), inputs, training=False, frozen=frozen)
        return list(outputs.values())

    def _measured(self, weights, batch, frozen=()):
        inputs, labels, label_weights = batch
        outputs = self._outputs(weights, self._no_seeds(), inputs, training=False, frozen=frozen)
        return loss.objective(outputs, labels, label_weights)[1]

    def evaluate(self, batch: TrainingBatch) -> dict[str, tuple[float, float]]:
        """`objectives.totals` of a batch, without dropout; takes this process's rows."""
        arrays = self._placed((batch.inputs, batch.labels, batch.weights), 0)
        sums = self._measure(self._weights(), arrays, self._frozen_values())
        return loss.totals(loss.second_measures(batch.labels), np.asarray(sums))

    def predict(self, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        """Return the model's outputs for some examples, logits, without dropout."""
        weights, frozen = self._weights(), self._frozen_values()
        if self.distribution:  # each process its own examples, on its own
            weights = [weight.addressable_data(0) for weight in weights]
            frozen = [weight.addressable_data(0) for weight in frozen]
        return [np.asarray(value) for value in self._forward(weights, inputs, frozen)]

    def _on_host(self, values: list) -> list[np.ndarray]:
        for value in values:
            value.copy_to_host_async()  # all under way before the first is waited for
        return [np.asarray(value) for value in values]

    def _set(self, variable, array: np.ndarray) -> None:
        variable.assign(np.array(array))

    def leave(self) -> None:
        """See `Engine`: at the usual end JAX waits for the others for minutes, and they for it."""
        if self.processes > 1:
            atexit.register(os._exit, 2)  # before JAX's own
            atexit.register(sys.stdout.flush)

    def lost_another(self, error: Exception) -> bool:
        """See `Engine`; XLA has one type of error for all that happens at run time."""
        return (
            self.processes > 1
            and isinstance(error, jax.errors.JaxRuntimeError)
            and "RESOURCE_EXHAUSTED" not in str(error)
        )

    def of_any(self, wishes: Wishes) -> Wishes:
        """See `Engine`."""
        if self.processes == 1:
            return wishes
        from jax.experimental import multihost_utils

        found = multihost_utils.process_allgather(np.array(wishes, "float32"))
        return Wishes(*(np.sum(found, axis=0) > 0).tolist())


def _mapped(function, mesh, in_specs, out_specs):
    """Return a function of each device's part.

    JAX's check of what is the same everywhere is left out: with it, the gradient of what all have
    is summed at once, at each of its uses.
    """
    if hasattr(jax, "shard_map"):  # from 0.6 on
        options = {"in_specs": in_specs, "out_specs": out_specs, "check_vma": False}
        return jax.shard_map(function, mesh=mesh, **options)
    from jax.experimental.shard_map import shard_map

    return shard_map(function, mesh, in_specs, out_specs, check_rep=False)


def _devices(count: int | None) -> list:
    """Return the devices to use: on each host the same number."""
    local = jax.local_devices()
    if count is None:
        count = len(local) if local[0].platform != "cpu" else 1
    if not 1 <= count <= len(local):
        raise ValueError(
            f"devices must be 1 … {len(local)}, as many as there are, got {count}: to make "
            "several of one CPU, set XLA_FLAGS=--xla_force_host_platform_device_count=2"
        )
    if jax.process_count() == 1:
        return local[:count]
    if count != len(local):
        raise ValueError(
            f"devices must be all {len(local)} of each host where there are several, got {count}: "
            "hide the others from JAX"
        )
    return jax.devices()
