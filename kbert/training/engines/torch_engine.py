"""torch: one device a process, and as many processes as there are devices.

Keras does not distribute on torch; here each process has the whole model and its rows of a batch,
and the processes add up gradients and sums by torch.distributed (`torch_hosts`).
"""

import contextlib
import functools

import numpy as np
import torch
from torch.optim.adamw import adamw

from kbert.data.training_batch import TrainingBatch
from kbert.ops.devices import device_names
from kbert.training import loss as objectives
from kbert.training.engines import torch_hosts
from kbert.training.engines.engine import Engine
from kbert.training.engines.optimizer_step import Decision
from kbert.training.stopping import NO_WISH, ProcessLost, Wishes


class TorchEngine(Engine):
    """See `Engine`; nothing is compiled. Processes come from torchrun's variables."""

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

    def scope(self):
        return contextlib.nullcontext()

    def default_jit(self) -> bool:
        return False

    def _compile(self) -> None:
        if self.jit:
            raise ValueError("jit is for TensorFlow and JAX: leave it out with torch")
        for variable in [*self._updated(), *self.trained.frozen]:
            # A weight made of a transposed array keeps its strides, and torch's AdamW goes by
            # what stands side by side in memory.
            variable.value.data = variable.value.data.contiguous()
        if self.processes > 1:
            # of one seed they are equal already, unless a host's library draws or rounds otherwise
            held = [*self.weights, *self.trained.frozen]
            torch_hosts.take_from_first([weight.value.data for weight in held])

    def update(self, batch: TrainingBatch, step: int, wishes: Wishes = NO_WISH) -> dict:
        """See `Engine`."""
        variables = self._updated()
        values = [variable.value for variable in variables]
        (arrays,) = self._arrays(batch, 1, wishes)
        seeds = self._seeds(step, range(self.process, self.process + 1))[0]
        gradients, sums = self._gradients(self._split(values)[0], self._placed(arrays), seeds)
        with torch.no_grad():
            # The only exchange between processes, of gradients, loss and wishes at once. What
            # follows is computed in each of them from the same sums, to the same weights.
            *gradients, sums = self._summed([*gradients, sums])
            norm = torch.nn.utils.get_total_norm(gradients)
            names = objectives.second_measures(batch.labels)
            new, figures = self._step(names, values, gradients, sums, norm)
            for variable, before, value in zip(variables, values, new, strict=True):
                if value is not before:
                    variable.assign(value)
        return figures

    def _summed(self, tensors: list) -> list:
        """Sum over all processes."""
        return torch_hosts.summed(tensors) if self.processes > 1 else tensors

    def _place(self) -> int:
        return self.process

    def _gathered(self, arrays: list) -> list:
        return [torch_hosts.gathered(array) for array in arrays]

    def _moved(self, decision: Decision, states, gradients):
        """See `Engine`; where torch's own AdamW does the same, the states are changed in place."""
        wide = {weight.dtype for weight in self.weights} == {"float32"}
        if not (self.settings.name == "adamw" and self.settings.bias_correction and wide):
            return super()._moved(decision, states, gradients)
        kinds = list(zip(self.decayed, self.rates, strict=True))
        for decayed, share in dict.fromkeys(kinds):
            chosen = [n for n, kind in enumerate(kinds) if kind == (decayed, share)]
            groups = [[group[n] for n in chosen] for group in (*states, gradients)]
            decay = self.settings.weight_decay if decayed else 0.0
            self._move(groups, decision.at(share), decay)
        return list(states)

    def _move(self, groups, decision: Decision, weight_decay: float) -> None:
        """One pass over all of them, which reads its decision on the device."""
        weights, first, second, gradients = groups
        steps = decision.iteration.expand(len(weights)).clone().unbind()  # one each: it counts them
        adamw(
            weights,
            [gradient.contiguous() for gradient in gradients],
            first,
            second,
            [],
            list(steps),
            fused=True,
            grad_scale=1 / decision.factor,
            found_inf=torch.logical_not(decision.applied).float(),
            amsgrad=False,
            beta1=self.settings.beta_1,
            beta2=self.settings.beta_2,
            lr=decision.rate,
            weight_decay=weight_decay,
            eps=self.settings.epsilon,
            maximize=False,
        )

    def _gradients(self, weights, arrays, seeds):
        if self._caches(arrays[1]):
            again = functools.partial(self._gradients, weights, seeds=seeds)
            return self._cached_gradients(again, weights, arrays, seeds)
        total, sums = None, None
        for micro in range(self.accumulation_steps):
            part = tuple({k: v[micro] for k, v in group.items()} for group in arrays)
            with self._drawn_from(seeds[micro]):
                forward = functools.partial(self._outputs, weights, seeds[micro], training=True)
                scale = self.counts[1].value
                loss, found = objectives.scaled_objective(
                    forward, part, scale, self._loss_sums, self.lessons
                )
            new = torch.autograd.grad(loss, weights, allow_unused=True)
            new = [
                torch.zeros_like(weight) if gradient is None else gradient
                for gradient, weight in zip(new, weights, strict=True)
            ]
            total = new if total is None else [a + b for a, b in zip(total, new, strict=True)]
            sums = found.detach() if sums is None else sums + found.detach()
        return total, sums

    def _on_host(self, values: list) -> list[np.ndarray]:
        from keras import ops

        # NumPy has no bfloat16 of its own: Keras gives it another's
        return [
            ops.convert_to_numpy(value)
            if value.dtype == torch.bfloat16
            else value.detach().cpu().numpy()
            for value in values
        ]

    def _frozen_values(self) -> list:
        # no part of autograd's graph, which would keep what their gradients are made of
        return [variable.value.detach() for variable in self.trained.frozen]

    def _for_each(self, function, inputs, seeds):
        found = []
        for micro, own in enumerate(seeds):
            part = {name: array[micro] for name, array in inputs.items()}
            with self._drawn_from(own), torch.no_grad():
                found.append(function(part, own))
        return torch.stack(found)

    def _slopes(self, function, x):
        x = x.detach().requires_grad_()
        sums = function(x)
        return torch.autograd.grad(sums[0], x)[0], sums.detach()

    @contextlib.contextmanager
    def _drawn_from(self, seeds):
        """Keras's dropout draws from torch's own generator where its layer has no seed."""
        with torch.random.fork_rng(self._generators()):
            torch.manual_seed(int(seeds.sum(dtype="int64")))
            yield

    def _generators(self) -> list | None:
        # else those of every GPU that there is, of other processes too
        device = self.weights[0].value.device
        return [device] if device.type == "cuda" else None

    def _gradients_now(self, batch: TrainingBatch, step: int) -> list[np.ndarray]:
        (arrays,), seeds = self._arrays(batch, 1), self._seeds(step, range(1))[0]
        weights = [weight.value for weight in self.weights]
        found, _ = self._gradients(weights, self._placed(arrays), seeds)
        return [gradient.cpu().numpy() for gradient in found]

    def _checkpoint(self, function):
        from torch.utils.checkpoint import checkpoint

        return lambda *tensors: checkpoint(function, *tensors, use_reentrant=False)

    def _placed(self, arrays):
        from keras import ops

        return tuple(
            {name: ops.convert_to_tensor(array) for name, array in group.items()}
            for group in arrays
        )

    def _forward(self, inputs) -> dict:
        weights = [variable.value for variable in self.weights]
        return self._outputs(weights, self._no_seeds(), inputs, training=False)

    def evaluate(self, batch: TrainingBatch) -> dict[str, tuple[float, float]]:
        """`objectives.totals` of a batch, without dropout; takes this process's rows."""
        inputs, labels, weights = self._placed((batch.inputs, batch.labels, batch.weights))
        with torch.no_grad():
            sums = objectives.objective(self._forward(inputs), labels, weights)[1]
            (sums,) = self._summed([sums])
        return objectives.totals(objectives.second_measures(labels), sums.cpu().numpy())

    def predict(self, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        """Return the model's outputs for some examples, logits, without dropout."""
        (placed,) = self._placed((inputs,))
        with torch.no_grad():
            return [value.float().cpu().numpy() for value in self._forward(placed).values()]

    def of_any(self, wishes: Wishes) -> Wishes:
        """See `Engine`."""
        (numbers,) = self._placed(({"wishes": np.array(wishes, "float32")},))
        (total,) = self._summed([numbers["wishes"]])
        return Wishes(*(total > 0).tolist())

    def lost_another(self, error: Exception) -> bool:
        """See `Engine`."""
        return isinstance(error, ProcessLost)
