"""JAX: one compiled step over all devices and hosts.

Each device computes the gradients of its part of every micro-batch, by `shard_map`, with dropout
seeds of its own. They are summed once, and the rest is the program of one device.
"""

import atexit
import contextlib
import functools
import gzip
import itertools
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.extend.backend
import keras
import numpy as np

from kbert import ops as kops
from kbert.training.backends import hosts
from kbert.training.backends.backend import (
    Arrays,
    Backend,
    Program,
    add,
    compute_norm,
    join,
    join_small,
)
from kbert.training.step.step import TrainingStep

_OPERATION = re.compile(r'([\w.-]+) = .*op_name="([^"]*)"')  # of a program's text
_JOINED = 2**23  # elements of gradients that are sent at a time: more than XLA joins by itself


class JaxBackend(Backend):
    """See `Backend`. Hosts come from the variables that `keras.distribution.initialize` reads."""

    def __init__(self, devices: int | None = None):
        if not jax.distributed.is_initialized():
            hosts.start_jax()
        self.process = jax.process_index()
        self.processes = jax.process_count()
        used = _choose_devices(devices, self.processes)
        self.replicas = len(used)

        self.distribution = None
        self.mesh: Any = None  # of the devices, if there are several
        if self.replicas > 1:
            names = [f"{device.platform}:{device.id}" for device in used]
            self.distribution = keras.distribution.DataParallel(
                devices=names, auto_shard_dataset=False
            )
            # equal to Keras's own, which JAX compares by its devices and names
            axes = [self.distribution.batch_dim_name]
            self.mesh = jax.sharding.Mesh(np.array(used), axes)

    def scope(self):
        if self.distribution is None:
            return contextlib.nullcontext()
        return self.distribution.scope()

    def sum_over_processes(self, numbers: np.ndarray) -> np.ndarray:
        from jax.experimental import multihost_utils

        return np.sum(multihost_utils.process_allgather(numbers), axis=0)

    def leave(self) -> None:
        # at the usual end JAX waits for the others for minutes, and they for it
        if self.processes > 1:
            atexit.register(os._exit, 2)  # before JAX's own
            atexit.register(sys.stdout.flush)

    def is_process_failure(self, error: Exception) -> bool:
        # XLA has one type of error for all that happens at run time
        return (
            self.processes > 1
            and isinstance(error, jax.errors.JaxRuntimeError)
            and "RESOURCE_EXHAUSTED" not in str(error)
        )

    def to_numpy(self, values: list) -> list[np.ndarray]:
        for value in values:
            value.copy_to_host_async()  # all under way before the first is waited for
        return [np.asarray(value) for value in values]

    def compile(self, step: TrainingStep, state, jit: bool | None, steps: int) -> "_Program":
        return _Program(self, step, state, jit is not False)

    @contextlib.contextmanager
    def profile(self, folder: Path) -> Iterator[None]:
        jax.profiler.start_trace(folder, create_perfetto_trace=True)
        yield
        jax.profiler.stop_trace()
        (file,) = folder.rglob("perfetto_trace.json.gz")
        _name_operations(file)

    # Within a step.

    def differentiate(self, function: Callable, arguments: list) -> tuple:
        differentiate = jax.value_and_grad(function, has_aux=True)
        (_, sums), gradients = differentiate(arguments)
        return gradients, sums

    def checkpoint(self, function: Callable) -> Callable:
        return jax.checkpoint(function)

    def sum_over_micro_batches(
        self, function: Callable, make_zeros: Callable, batch, seeds, count=None
    ):
        def run_one(index):
            micro_batch, micro_seeds = jax.tree.map(lambda array: array[index], (batch, seeds))
            return function(micro_batch, micro_seeds)

        if len(seeds) == 1:
            return run_one(0)
        if count is not None:  # a loop whose length is not known when it is compiled

            def add_one(index, total):
                return add(total, run_one(index))

            return jax.lax.fori_loop(0, count, add_one, make_zeros())

        def add_next(total, micro_batch):
            return add(total, function(*micro_batch)), None

        total, _ = jax.lax.scan(add_next, make_zeros(), (batch, seeds))
        return total

    def map_micro_batches(self, function: Callable, inputs, seeds):
        return jax.lax.map(lambda pair: function(*pair), (inputs, seeds))

    def sum_over_devices(self, of_device: Callable) -> Callable:
        on_gpu = "gpu" in kops.device_kind()
        if self.mesh is None or self.mesh.size == 1:

            def compute(weights, scale, frozen, batch, seeds):
                gradients, sums = of_device(weights, scale, frozen, batch, seeds[0])
                if on_gpu:
                    gradients = join_small(gradients, jax.lax.optimization_barrier)
                return gradients, sums

            return compute

        (axis,) = self.mesh.axis_names
        add_up = functools.partial(jax.lax.psum, axis_name=axis)

        def sum_shards(weights, scale, frozen, shard, seeds):
            device_seeds = seeds[self.device_index()]
            gradients, sums = of_device(weights, scale, frozen, shard, device_seeds)
            if on_gpu:
                return _sum_in_buckets(gradients, add_up), add_up(sums)
            return add_up((gradients, sums))

        whole = jax.sharding.PartitionSpec()
        split = jax.sharding.PartitionSpec(None, axis)
        return _map_shards(
            sum_shards,
            mesh=self.mesh,
            in_specs=(whole, whole, whole, split, whole),
            out_specs=whole,
        )

    def all_gather(self, arrays: list) -> list:
        axis = self.mesh.axis_names[0]
        return jax.lax.all_gather(arrays, axis)

    def device_index(self):
        return jax.lax.axis_index(self.mesh.axis_names[0])

    def global_norm(self, gradients: list):
        return compute_norm(gradients)


def _name_operations(file: Path) -> None:
    """Give the operations of a trace their "op_name", of their layers; XLA's of a CPU has none."""
    op_names = {}
    for executable in jax.extend.backend.get_backend().live_executables():
        for module in executable.hlo_modules():
            for operation, op_name in _OPERATION.findall(module.to_string()):
                op_names[module.name, operation] = op_name

    trace = json.loads(gzip.decompress(file.read_bytes()))
    for event in trace["traceEvents"]:
        arguments = event.get("args", {})
        key = arguments.get("hlo_module"), arguments.get("hlo_op")
        arguments["op_name"] = op_names.get(key, "")
    text = json.dumps(trace)
    file.write_bytes(gzip.compress(text.encode()))


def _choose_devices(devices: int | None, processes: int) -> list:
    """Return the devices of all hosts that a batch is split over; a ValueError for others."""
    local = jax.local_devices()
    if devices is None:
        devices = len(local) if local[0].platform != "cpu" else 1
    if not 1 <= devices <= len(local):
        raise ValueError(
            f"devices must be 1 … {len(local)}, as many as there are, got {devices}: to make "
            "several of one CPU, set XLA_FLAGS=--xla_force_host_platform_device_count=2"
        )
    if processes == 1:
        return local[:devices]

    if devices != len(local):  # on each host the same number
        raise ValueError(
            f"devices must be all {len(local)} of each host where there are several, got "
            f"{devices}: hide the others from JAX"
        )
    return jax.devices()


def _sum_in_buckets(gradients: list, add_up: Callable) -> list:
    """Sum gradients over the devices, so many at a time.

    XLA would join them itself, and take them apart by a kernel each.
    """
    sizes = [gradient.size for gradient in gradients]
    buckets = np.cumsum([0, *sizes]) // _JOINED
    numbers = range(len(gradients))
    for _, group in itertools.groupby(numbers, lambda n: buckets[n]):
        gradients = join(gradients, list(group), add_up)
    return gradients


def _map_shards(function: Callable, **specs) -> Callable:
    """Return JAX's shard_map of a function, by the name that this version has for it."""
    # JAX's check of what is the same everywhere is left out: with it, the gradient of what all
    # have is summed at once, at each of its uses.
    if hasattr(jax, "shard_map"):  # from 0.6 on
        return jax.shard_map(function, **specs, check_vma=False)
    from jax.experimental.shard_map import shard_map

    return shard_map(function, **specs, check_rep=False)


class _Program(Program):
    def __init__(self, backend: JaxBackend, step: TrainingStep, state, jit: bool):
        super().__init__(backend, step, state)
        self.update_function = step.update
        self._measure = step.measure
        self._outputs = step.outputs
        if jit:
            self.update_function = jax.jit(step.update, donate_argnums=0)
            self._measure = jax.jit(step.measure)
            self._outputs = jax.jit(step.outputs)
        self._gradients = jax.jit(step.gradients)

    def gradients(self, shards: list[Arrays], seeds: np.ndarray) -> list[np.ndarray]:
        batch = self.to_tensors(shards[0], axis=1)
        values = self.state.values()
        gradients, _ = self._gradients(values, self.frozen(), batch, seeds)
        return [np.asarray(gradient) for gradient in gradients]

    def measure(self, shards: list[Arrays]) -> np.ndarray:
        weights = self.state.values().result_weights()
        batch = self.to_tensors(shards[0])
        sums = self._measure(weights, self.frozen(), batch)
        return np.asarray(sums)

    def predict(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        weights = self.state.values().result_weights()
        frozen = self.frozen()
        if self.backend.distribution:  # each process its own examples, on its own
            weights = [weight.addressable_data(0) for weight in weights]
            frozen = [weight.addressable_data(0) for weight in frozen]
        return self._outputs(weights, frozen, inputs)

    def to_tensors(self, arrays, axis: int = 0):
        distribution = self.backend.distribution
        if not distribution:
            return arrays
        axes = [None] * axis
        spec = jax.sharding.PartitionSpec(*axes, distribution.batch_dim_name)
        sharding = jax.sharding.NamedSharding(self.backend.mesh, spec)
        return jax.tree.map(lambda x: jax.make_array_from_process_local_data(sharding, x), arrays)
