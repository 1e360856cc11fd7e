"""AdamW as BERT's, the paper's LAMB, and Keras's: the settings, the schedule, a weight's update.

Pure functions of tensors, in float32. `kbert.training.step` calls them. `OPTIMIZERS` has a class
per name, with `init` and `update`: an optimizer with another state is one more. Of Keras's
optimizers, such as Lion or Adafactor, the rule of a weight's update is used. The learning rate and
its schedule, weight decay, clipping, accumulation and the loss scale are those of the run's
settings, as for kbert's own optimizers.
"""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import keras
import numpy as np
from keras import ops

from kbert.ops import keras_internals
from kbert.training.optimization.schedules import compute_share
from kbert.training.settings.setting_rules import check_settings

_logger = logging.getLogger("kbert")
AVERAGE = "average"  # the slot of a weight's moving average, in runs with `ema`
_MOST_OF_FIRST = 0.1  # of an average, that a run may end with without a warning
_NOT_DECAYED = ("bias", "beta", "gamma")  # google-research/bert, optimization.py


@dataclass(frozen=True)
class Optimizer:
    """The settings of the optimizer and its learning rate schedule.

    "adamw" is that of Loshchilov and Hutter (arXiv 1711.05101; torch.optim.AdamW's numbers), "lamb"
    that of You et al. (arXiv 1904.00962, algorithm 2).
    """

    name: str | dict = "adamw"  # or a `keras.optimizers.Optimizer`, kept as its configuration
    learning_rate: float = 1e-4  # the peak learning rate
    total_steps: int = 1  # of the whole run
    warmup_steps: int = 0  # over which the learning rate grows from 0
    schedule: str | dict = "linear"  # or a Keras schedule, kept as its configuration
    min_learning_rate_ratio: float = 0.0  # share of the peak rate at which the schedule ends
    schedule_power: float = 1.0  # of "polynomial"
    schedule_timescale: int | None = None  # steps, of "inverse_sqrt"; None: warmup_steps
    weight_decay: float = 0.01  # of all weights except biases and LayerNorm's
    beta_1: float = 0.9  # decay rates of the moments; a Keras optimizer has its own
    beta_2: float = 0.999
    epsilon: float = 1e-6  # added to the second moment's square root; a Keras optimizer has its own
    ema: float | None = None  # share of a weight's average that a step keeps; None: no averages
    # Whether the schedule follows the share of a time budget, of which `total_steps` is the whole.
    follows_budget: bool = False
    # The object of a Keras `schedule`, which gives the whole rate; None: the schedule is a name.
    keras_schedule: keras.optimizers.schedules.LearningRateSchedule | None = field(
        init=False, repr=False, compare=False
    )

    def __post_init__(self):
        values = vars(self) | {"optimizer": self.name}
        del values["name"]
        read = check_settings(values, ("schedule_timescale", "ema"))
        object.__setattr__(self, "name", read["optimizer"])
        object.__setattr__(self, "schedule", read["schedule"])
        object.__setattr__(self, "keras_schedule", _build_schedule(read["schedule"]))
        if self.warmup_steps > self.total_steps:
            raise ValueError(
                f"warmup_steps must be 0 … total_steps, {self.total_steps:,}, got "
                f"{self.warmup_steps}"
            )


def _build_schedule(schedule: str | dict) -> keras.optimizers.schedules.LearningRateSchedule | None:
    return None if isinstance(schedule, str) else keras.saving.deserialize_keras_object(schedule)


def is_decayed(path: str) -> bool:
    """Return whether weight decay applies to a path's variable: not to biases and LayerNorm."""
    return path.rsplit("/", 1)[-1] not in _NOT_DECAYED


def learning_rate(settings: Optimizer, iteration, budget_share=0.0):
    """Return the next step's rate, float32.

    `iteration` is the number of earlier steps; `budget_share` is the share of the time budget that
    is used, for a schedule that follows it.
    """
    done = ops.cast(iteration, "float32")
    if settings.follows_budget:
        done = ops.cast(budget_share, "float32") * settings.total_steps
    if settings.keras_schedule is not None:
        return ops.cast(settings.keras_schedule(ops.cast(done, "int")), "float32")
    return settings.learning_rate * compute_share(settings, done)


def rules(settings: Optimizer, weights: Sequence) -> list:
    """Return the rule of each weight, with the methods of `AdamW`."""
    if isinstance(settings.name, str):
        rules: list = [OPTIMIZERS[settings.name](settings)] * len(weights)
    else:
        rules = [KerasRule(settings, weight) for weight in weights]
    if settings.ema is None:
        return rules
    return [AveragedRule(rule, settings.ema) for rule in rules]


class AdamW:
    """The rule of AdamW for one weight."""

    keras_class: type = keras.optimizers.AdamW  # which callbacks see in the model

    def __init__(self, settings: Optimizer):
        self._settings = settings

    def init(self, weight) -> dict:
        """Return the first values of the optimizer's slots for a weight, by their names."""
        # np.zeros asks the system for pages that are written once, by the variable
        return {name: np.zeros(weight.shape, "float32") for name in ("first", "second")}

    def update(self, weight, slots: dict, gradient, rate, iteration, decayed: bool) -> tuple:
        """Return a weight's new value and slots, float32; the gradient is clipped already."""
        direction, slots = self._direction(slots, gradient, iteration)
        decay = self._settings.weight_decay if decayed else 0.0
        new = weight * (1 - rate * decay) - rate * direction
        return new, slots

    def _direction(self, slots: dict, gradient, iteration) -> tuple:
        """Return Adam's direction (Kingma and Ba, arXiv 1412.6980, algorithm 1) and new moments."""
        beta_1 = self._settings.beta_1
        beta_2 = self._settings.beta_2
        first = slots["first"]
        first = first + (gradient - first) * (1 - beta_1)
        second = beta_2 * slots["second"] + (1 - beta_2) * ops.square(gradient)

        # Corrected for their start at 0, which Google's optimization.py leaves out.
        first_corrected = first / correct_start(beta_1, iteration)
        second_corrected = second / correct_start(beta_2, iteration)
        root = ops.sqrt(second_corrected)
        direction = first_corrected / (root + self._settings.epsilon)
        return direction, {"first": first, "second": second}


class Lamb(AdamW):
    """The rule of LAMB for one weight."""

    keras_class = keras.optimizers.Lamb

    def update(self, weight, slots: dict, gradient, rate, iteration, decayed: bool) -> tuple:
        direction, slots = self._direction(slots, gradient, iteration)
        decay = self._settings.weight_decay if decayed else 0.0
        direction = direction + decay * weight
        trust = _trust(weight, direction) if decayed else 1.0
        return weight - rate * trust * direction, slots


OPTIMIZERS: dict[str, type[AdamW]] = {"adamw": AdamW, "lamb": Lamb}  # as in `setting_rules`


class KerasRule:
    """The rule of one weight, by the optimizer whose JSON is the settings' name."""

    def __init__(self, settings, weight):
        self._decay = settings.weight_decay
        self._weight = weight
        self._optimizer = keras.saving.deserialize_keras_object(settings.name)
        self._optimizer.build([weight])
        keras_internals.make_stateless(self._optimizer)

        shared = {id(self._optimizer.iterations), id(self._optimizer.learning_rate)}
        variables = [item for item in self._optimizer.variables if id(item) not in shared]
        self._slots = {}
        for number, variable in enumerate(variables):
            self._slots[f"slot_{number}"] = variable

    def init(self, weight) -> dict:
        """Return the optimizer's variables of its weight, numbered in Keras's order."""
        return self._slots

    def update(self, weight, slots: dict, gradient, rate, iteration, decayed: bool) -> tuple:
        """See `AdamW.update`; weight decay is AdamW's."""
        optimizer = self._optimizer
        if decayed:
            weight = weight * (1 - rate * self._decay)
        done = ops.cast(iteration, optimizer.iterations.dtype)
        values = [(self._weight, weight), (optimizer.iterations, done)]
        for name, slot in slots.items():
            values.append((self._slots[name], slot))

        with keras.StatelessScope(values) as scope:
            optimizer.update_step(gradient, self._weight, rate)
        new = scope.get_current_value(self._weight)
        new_slots = {name: scope.get_current_value(self._slots[name]) for name in slots}
        return new, new_slots


class AveragedRule:
    """Another rule, with an exponential moving average of the weight among its slots.

    It is that of Keras's `use_ema`: the average begins as the weight after the first step.
    """

    def __init__(self, rule, ema: float):
        self._rule = rule
        self._ema = ema

    def init(self, weight) -> dict:
        """Return the slots of the other rule, and the weight's first value as its average."""
        # a copy: the variable's memory is written to
        average = np.array(ops.convert_to_numpy(weight), "float32")
        return self._rule.init(weight) | {AVERAGE: average}

    def update(self, weight, slots: dict, gradient, rate, iteration, decayed: bool) -> tuple:
        """See `AdamW.update`."""
        old_slots = {name: slot for name, slot in slots.items() if name != AVERAGE}
        new, new_slots = self._rule.update(weight, old_slots, gradient, rate, iteration, decayed)
        factor = average_factor(self._ema, iteration)
        average = slots[AVERAGE] + (new - slots[AVERAGE]) * factor
        return new, new_slots | {AVERAGE: average}


def average_factor(ema: float, iteration):
    """Return the share of a weight's new value in its new average: 1 in the first step."""
    share = ops.convert_to_tensor(1 - ema, "float32")  # 1 − 0.999 in float32 would be off by 1e-5
    return ops.where(iteration > 0, share, ops.ones_like(share))


def warn_of_slow_average(settings: Optimizer) -> None:
    """Log that a run is too short for its averages, which would hold much of the first weights."""
    if settings.ema is None or settings.follows_budget:
        return
    steps = settings.total_steps
    first = settings.ema ** max(steps - 1, 1)
    if first > _MOST_OF_FIRST:
        _logger.warning(
            "ema=%g is slow for %s steps: %.0f %% of the result is the weights of the first step. "
            "Lower it to %.3g, or train longer",
            settings.ema,
            f"{steps:,}",
            100 * first,
            0.01 ** (1 / steps),
        )


def correct_start(beta: float, iteration):
    """Return 1 − beta^(iteration + 1), by which a moment is divided, as it starts at 0."""
    if beta == 0:
        return 1.0
    return -ops.expm1((iteration + 1.0) * math.log(beta))  # 1 − 0.999 would be off by 1e-5


def _trust(weight, direction):
    """LAMB's ratio ‖w‖ / ‖direction‖; 1 where either is 0."""
    weight_norm = ops.sqrt(ops.sum(ops.square(weight)))
    direction_norm = ops.sqrt(ops.sum(ops.square(direction)))
    are_positive = ops.logical_and(weight_norm > 0, direction_norm > 0)
    ratio = weight_norm / ops.maximum(direction_norm, 1e-30)
    return ops.where(are_positive, ratio, ops.ones_like(weight_norm))


def clip_factor(norm, clip_norm: float | None):
    """Return the factor that clips gradients of that global norm, as torch's clip_grad_norm_."""
    if clip_norm is None:
        return ops.ones_like(norm)
    return ops.minimum(clip_norm / (norm + 1e-6), 1.0)
