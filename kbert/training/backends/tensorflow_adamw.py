"""AdamW by TensorFlow's own operation for Adam: one pass over a weight, and nothing to compile.

XLA's programs, one for each kind of weight, take no less time in a step, and seconds of the first
(benchmarks/LOG.md). The numbers are those of `kbert.training.optimization.optimizers.AdamW`.
"""

import numpy as np
import tensorflow as tf

from kbert.training.optimization.optimizers import AdamW, Optimizer, correct_start
from kbert.training.step.step import Decision


def is_adamw(rule) -> bool:
    """Return whether a weight's rule is AdamW itself, and not LAMB or one with averages."""
    return type(rule) is AdamW


class AdamWStep:
    """The updates of a step's weights, which leave all as it is where the step is not applied.

    The operation computes, where `g` is the gradient times a factor:

        first  += (g − first) · (1 − beta_1)
        second += (g² − second) · (1 − beta_2)
        weight −= rate · first / (√second + epsilon)

    AdamW's direction is (first / c₁) / (√(second / c₂) + ε), where c₁ and c₂ correct the moments
    for their start at 0. It is √c₂ / c₁ · first / (√second + ε · √c₂).
    """

    def __init__(self, settings: Optimizer, decision: Decision):
        # Rounded, as the operation has them: its 1 − 0.999 is off by 1e-5, and so is c₂ then.
        beta_1 = np.float32(settings.beta_1)
        beta_2 = np.float32(settings.beta_2)
        c1 = correct_start(float(beta_1), decision.iteration)
        c2 = correct_start(float(beta_2), decision.iteration)
        root = tf.sqrt(c2)

        applied = decision.applied
        self._weight_decay = settings.weight_decay
        self._rate = tf.where(applied, decision.rate, 0.0)
        self._factor = tf.where(applied, decision.factor, 0.0)
        self._correction = root / c1
        self._options = {
            "beta1": tf.where(applied, beta_1, 1.0),
            "beta2": tf.where(applied, beta_2, 1.0),
            "epsilon": settings.epsilon * root,
            "beta1_power": tf.zeros(()),  # the rate is corrected already
            "beta2_power": tf.zeros(()),
        }
        self._rates: dict[float, tuple] = {}
        self._last: list = []  # the operation of the weight before

    def assign(self, share: float, is_decayed: bool, weight, slots: dict, gradient) -> None:
        """Assign new values to a weight and its moments, which are `tf.Variable`s.

        `share` is that of the learning rate.
        """
        corrected_rate, decay_factor = self._scale_rates(share)
        # One after the other: all scaled gradients at once would be as large as the model.
        with tf.control_dependencies(self._last):
            # 0 where the factor is 0, even if the gradient is NaN or infinite
            scaled = tf.math.multiply_no_nan(gradient, self._factor)
            if is_decayed and self._weight_decay:
                weight.assign(weight.read_value() * decay_factor, read_value=False)
            operation = tf.raw_ops.ResourceApplyAdam(
                var=weight.handle,
                m=slots["first"].handle,
                v=slots["second"].handle,
                grad=scaled,
                lr=corrected_rate,
                **self._options,
            )
        self._last = [operation]

    def _scale_rates(self, share: float) -> tuple:
        """Return a share of the rate, corrected, and what weight decay keeps of a weight."""
        if share not in self._rates:
            rate = self._rate * share
            self._rates[share] = rate * self._correction, 1 - rate * self._weight_decay
        return self._rates[share]
