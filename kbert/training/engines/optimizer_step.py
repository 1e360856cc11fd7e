"""The optimizer's step: summed gradients are clipped, checked and applied."""

import itertools
from collections.abc import Mapping
from typing import Any, NamedTuple

from keras import ops

from kbert.model.parts.scopes import OPTIMIZER, scope
from kbert.training import loss as objectives
from kbert.training import optimizers, precision
from kbert.training.engines.training_state import TrainingState
from kbert.training.optimizers import Optimizer
from kbert.training.stopping import Wishes


class Decision(NamedTuple):
    """A step's decision on its gradients: scalars of the device.

    Attributes:
        applied: whether anything changes.
        factor: factor of the gradients, for clipping and for removing the loss scale.
        rate: the learning rate.
        iteration: number of earlier steps.
    """

    applied: Any
    factor: Any
    rate: Any
    iteration: Any

    def at(self, share: float) -> "Decision":
        """Return the same at a share of the learning rate."""
        return self if share == 1 else self._replace(rate=self.rate * share)


class OptimizerStep(TrainingState):
    """A step from its gradients on, in tensors of one replica.

    Attributes:
        settings: the optimizer's.
        clip_norm: largest global norm of the gradients; None: any.
        decayed: of each weight whether the optimizer decays it.
        rates: what the learning rate of each weight is multiplied with.
    """

    settings: Optimizer
    clip_norm: float | None
    decayed: list[bool]
    rates: list[float]

    def _step(self, names, values, gradients, sums, norm=None):
        """Return new values of the variables and metrics, once gradients and sums are complete.

        Args:
            names: `objectives.second_measures` of the labels.
            values: of the variables, as `_updated` has them.
            gradients, sums: over all micro-batches, replicas and hosts.
            norm: of these gradients, where the engine has it already.
        """
        *states, counts = self._split(values)
        with scope(OPTIMIZER):
            norm = optimizers.global_norm(gradients) if norm is None else norm
            decision, counts, figures = self._decide(names, counts, sums, norm)
            moved = self._moved(decision, states, gradients)
        return [*itertools.chain(*moved), *counts], figures

    def _decide(self, names, counts, sums, norm):
        """Return a `Decision` on the gradients, the new counts and the metrics."""
        iteration, scale, good, bad = counts
        # The loss scale goes out first: the norm is to be that of the gradients themselves.
        norm = norm / scale if self.scaled else norm
        loss = ops.sum(sums[:, 0])
        # Where anything is not finite, no number changes but the loss scale. Where that ends the
        # run, the next update changes none either: it may have been sent before the figures of
        # this one were read, and the weights are to be those that the bad update began with.
        finite = ops.logical_and(ops.isfinite(norm), ops.isfinite(loss))
        ended = bad > (precision.MOST_SKIPPED if self.scaled else 0)
        applied = ops.logical_and(finite, ops.logical_not(ended))
        # Clipped after the sum: the norm of a part says nothing of the whole gradient's, and parts
        # that are clipped each would add up to another direction.
        factor = optimizers.clip_factor(norm, self.clip_norm)
        factor = factor / scale if self.scaled else factor
        rate = optimizers.learning_rate(self.settings, iteration)
        decision = Decision(applied, factor, rate, iteration)
        figures = objectives.figures(names, sums)
        figures |= {"gradient_norm": norm, "learning_rate": rate, "finite": applied}
        figures |= {name: sums[-1, place] for place, name in enumerate(Wishes._fields, start=1)}
        done = iteration + ops.cast(applied, "float32")
        bad = ops.where(applied, ops.zeros_like(bad), bad + 1)
        if self.scaled:
            figures["loss_scale"] = scale * 1.0  # torch assigns in place
            next_scale, next_good = precision.next_scale(scale, good, finite)
            scale, good = ops.where(ended, scale, next_scale), ops.where(ended, good, next_good)
        return decision, [done, scale, good, bad], figures

    def _figure_names(self, names: Mapping[str, str]) -> list[str]:
        """Return the names of `_decide`'s metrics, for `objectives.second_measures`."""
        of_outputs = [f"{name}_{kind}" for name in names for kind in ("loss", names[name])]
        found = ["loss", *of_outputs, "gradient_norm", "learning_rate", "finite", *Wishes._fields]
        return found + ["loss_scale"] * self.scaled

    def _moved(self, decision: Decision, states, gradients) -> list:
        """Return new values of the weights, of their first and of their second moments.

        Args:
            decision: of the step.
            states: values of the weights, of their first and of their second moments.
            gradients: of the weights.
        """
        found = []
        each = zip(self.decayed, self.rates, *states, gradients, strict=True)
        for decayed, share, weight, first, second, gradient in each:
            new = self._computed_first(self._moved_moments(decision, first, second, gradient))
            found.append([self._moved_weight(decision.at(share), decayed, weight, *new), *new])
        return list(zip(*found, strict=True))

    def _moved_moments(self, decision: Decision, first, second, gradient) -> list:
        """Return new moments of a weight."""
        new = optimizers.moments(self.settings, gradient * decision.factor, first, second)
        pairs = zip(new, (first, second), strict=True)
        return [ops.where(decision.applied, after, before) for after, before in pairs]

    def _moved_weight(self, decision: Decision, decayed: bool, weight, first, second):
        """Return a weight's new value, from its new moments."""
        applied, _, rate, iteration = decision
        moments = first, second
        new = optimizers.moved(self.settings, decayed, weight, moments, rate, iteration)
        return ops.where(applied, new, weight)

    def _computed_first(self, tensors: list) -> list:
        """Tensors that what follows reads, instead of computing them once more."""
        return tensors
