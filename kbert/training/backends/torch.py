"""torch: one device a process, and as many processes as there are devices.

Keras does not distribute on torch. Each process has the whole model and its rows of a batch, and
the processes sum gradients and losses by torch.distributed (`torch_hosts`). Nothing is compiled.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import keras
import numpy as np
import torch
from torch import profiler
from torch.optim.adamw import adamw

from kbert.ops.devices import device_names
from kbert.training.backends import torch_hosts
from kbert.training.backends.backend import Arrays, Backend, Program, add
from kbert.training.optimization.optimizers import AVERAGE, average_factor
from kbert.training.step.state import Counts, Values
from kbert.training.step.step import Decision, TrainingStep
from kbert.training.stopping import ProcessFailed


class TorchBackend(Backend):
    """See `Backend`. Processes come from torchrun's variables."""

    default_jit = False

    def __init__(self, devices: int | None = None):
        if devices not in (None, 1):
            raise ValueError(
                f"devices must be 1 with torch, where each device has a process, got {devices}: "
                "leave it out, and start as many processes by torchrun --nproc-per-node"
            )
        self.process, self.processes = torch_hosts.start()
        if device_names() == ["CPU"]:
            self.shape_cost = 0.1  # measured, as TensorFlow's
        self.replicas = self.processes

    def sum_over_processes(self, numbers: np.ndarray) -> np.ndarray:
        tensor = keras.ops.convert_to_tensor(numbers)
        (total,) = self.sum_tensors([tensor])
        return total.cpu().numpy()

    def is_process_failure(self, error: Exception) -> bool:
        return isinstance(error, ProcessFailed)

    def to_numpy(self, values: list) -> list[np.ndarray]:
        arrays = []
        for value in values:
            if value.dtype == torch.bfloat16:
                # NumPy has no bfloat16 of its own: Keras gives it another's
                arrays.append(keras.ops.convert_to_numpy(value))
            else:
                arrays.append(value.detach().cpu().numpy())
        return arrays

    def compile(self, step: TrainingStep, state, jit: bool | None, steps: int) -> "_Program":
        if jit:
            raise ValueError("jit is for TensorFlow and JAX: leave it out with torch")
        variables = keras.tree.flatten(state.variables)
        for variable in (*variables, *state.frozen):
            # A weight made of a transposed array keeps its strides, which torch's AdamW ignores.
            variable.value.data = variable.value.data.contiguous()
        if self.processes > 1:
            # of one seed they are equal already, unless a host's library draws or rounds otherwise
            weights = [*state.variables.weights, *state.frozen]
            torch_hosts.take_from_first([weight.value.data for weight in weights])
        return _Program(self, step, state)

    @contextlib.contextmanager
    def profile(self, folder: Path) -> Iterator[None]:
        call = keras.Layer.__call__

        @functools.wraps(call)
        def call_by_name(layer, *arguments, **options):
            with profiler.record_function(layer.name):
                return call(layer, *arguments, **options)

        write_trace = profiler.tensorboard_trace_handler(str(folder), use_gzip=True)
        keras.Layer.__call__ = call_by_name
        try:
            with profiler.profile(on_trace_ready=write_trace):
                yield
        finally:
            keras.Layer.__call__ = call

    # Within a step.

    def differentiate(self, function: Callable, arguments: list) -> tuple:
        arguments = [_require_gradient(argument) for argument in arguments]
        value, sums = function(arguments)
        gradients = torch.autograd.grad(value, arguments, materialize_grads=True)
        return list(gradients), sums.detach()

    def checkpoint(self, function: Callable) -> Callable:
        from torch.utils.checkpoint import checkpoint

        return lambda *tensors: checkpoint(function, *tensors, use_reentrant=False)

    def sum_over_micro_batches(
        self, function: Callable, make_zeros: Callable, batch, seeds, count=None
    ):
        total = None
        used = seeds if count is None else seeds[: int(count)]
        for index, micro_seeds in enumerate(used):
            micro_batch = keras.tree.map_structure(lambda array: array[index], batch)  # noqa: B023
            with _seed_torch(micro_seeds):
                result = function(micro_batch, micro_seeds)
            total = result if total is None else add(total, result)
        return total

    def map_micro_batches(self, function: Callable, inputs, seeds):
        results = []
        for index, micro_seeds in enumerate(seeds):
            micro_batch = {name: array[index] for name, array in inputs.items()}
            with _seed_torch(micro_seeds), torch.no_grad():
                results.append(function(micro_batch, micro_seeds))
        return torch.stack(results)

    def sum_over_devices(self, of_device: Callable) -> Callable:
        def sum_gradients(weights, scale, frozen, batch, seeds):
            gradients, sums = of_device(weights, scale, frozen, batch, seeds[self.process])
            *gradients, sums = self.sum_tensors([*gradients, sums])
            return gradients, sums

        return sum_gradients

    def all_gather(self, arrays: list) -> list:
        return [torch_hosts.gather_tensor(array) for array in arrays]

    def device_index(self) -> int:
        return self.process

    def global_norm(self, gradients: list):
        return torch.nn.utils.get_total_norm(gradients)

    @torch.no_grad()
    def apply(self, step, decision, values: Values, gradients, counts: Counts) -> Values:
        """Change the tensors of `values` in place, where torch's own AdamW does the same."""
        is_adamw = step.optimizer.name == "adamw"
        wide = all(weight.dtype == torch.float32 for weight in values.weights)
        compiling = torch.compiler.is_compiling()  # it fuses by itself, and refuses torch's AdamW
        if not is_adamw or not wide or compiling:
            return super().apply(step, decision, values, gradients, counts)

        groups: dict[tuple[bool, float], list[int]] = {}
        kinds = zip(step.decayed, step.trained.rates, strict=True)
        for index, kind in enumerate(kinds):
            groups.setdefault(kind, []).append(index)

        for (decayed, share), indices in groups.items():
            group_decision = decision.scale_rate(share)
            _adamw(step, group_decision, decayed, values, gradients, indices)
        if step.optimizer.ema is not None:
            _average(step.optimizer.ema, decision, values)
        return values._replace(counts=counts)

    def sum_tensors(self, tensors: list) -> list:
        return torch_hosts.sum_tensors(tensors) if self.processes > 1 else tensors


def _require_gradient(tensor):
    """Return a tensor that autograd records: the same, or another one of the same numbers."""
    return tensor if tensor.requires_grad else tensor.detach().requires_grad_()


def _adamw(step, decision: Decision, decayed: bool, values: Values, gradients, chosen) -> None:
    """Update the chosen weights in one pass, which reads its decision on the device."""
    settings = step.optimizer
    slots = [values.slots[n] for n in chosen]
    # one iteration each: torch counts them
    iterations = decision.iteration.expand(len(chosen))
    steps = iterations.clone().unbind()

    adamw(
        [values.weights[n] for n in chosen],
        [gradients[n].contiguous() for n in chosen],
        [slots_of_weight["first"] for slots_of_weight in slots],
        [slots_of_weight["second"] for slots_of_weight in slots],
        [],
        list(steps),
        fused=True,
        grad_scale=1 / decision.factor,
        found_inf=torch.logical_not(decision.applied).float(),
        amsgrad=False,
        beta1=settings.beta_1,
        beta2=settings.beta_2,
        lr=decision.rate,
        weight_decay=settings.weight_decay if decayed else 0.0,
        eps=settings.epsilon,
        maximize=False,
    )


def _average(ema: float, decision: Decision, values: Values) -> None:
    """Update the averages of the weights, as `AveragedRule`."""
    factor = average_factor(ema, decision.iteration) * decision.applied
    for weight, slots in zip(values.weights, values.slots, strict=True):
        slots[AVERAGE].lerp_(weight, factor)


class _Program(Program):
    @torch.no_grad()
    def measure(self, shards: list[Arrays]) -> np.ndarray:
        values = self.state.values()
        batch = self.to_tensors(shards[0])
        weights = values.result_weights()
        sums = self.step.measure(weights, self.frozen(), batch)
        (total,) = self.backend.sum_tensors([sums])
        return total.cpu().numpy()

    @torch.no_grad()
    def predict(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        weights = self.state.values().result_weights()
        tensors = self.to_tensors(inputs)
        outputs = self.step.outputs(weights, self.frozen(), tensors)
        arrays = {name: value.float().cpu().numpy() for name, value in outputs.items()}
        return arrays

    def frozen(self) -> list:
        # no part of autograd's graph, which would keep what their gradients are made of
        return [variable.value.detach() for variable in self.state.frozen]


@contextlib.contextmanager
def _seed_torch(seeds):
    """Seed torch's own generator, from which Keras's dropout draws if its layer has no seed."""
    # else those of every GPU that there is, of other processes too
    has_gpu = device_names() != ["CPU"]
    devices = [torch.cuda.current_device()] if has_gpu else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(int(seeds.sum(dtype="int64")))
        yield
