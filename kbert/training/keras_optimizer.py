"""Keras's optimizers, such as Lion or Adafactor, within kbert's training step.

Keras's rule updates each weight. The learning rate and its schedule, weight decay, clipping,
accumulation and the loss scale are those of the run's settings, as for kbert's own optimizers.
"""

import keras
from keras import ops

from kbert.ops import keras_internals

# Settings of Keras's optimizers, and the setting of a run that takes their place.
_OF_THE_RUN = {
    "learning_rate": "learning_rate",
    "weight_decay": "weight_decay",
    "clipnorm": "clip_norm",
    "clipvalue": "clip_norm",
    "global_clipnorm": "clip_norm",
    "gradient_accumulation_steps": "accumulation_steps",
    "loss_scale_factor": "precision",
    "use_ema": None,
}


def read_optimizer(value) -> dict:
    """Return the JSON of a `keras.optimizers.Optimizer`, from itself or from its JSON.

    Raises:
        TypeError: another object.
        ValueError: an optimizer with a setting that is the run's, or one whose step changes more
            than each weight and its slots.
    """
    if isinstance(value, type) and issubclass(value, keras.optimizers.Optimizer):
        raise ValueError(f"{value.__name__} is a class: call it, {value.__name__}()")
    given = isinstance(value, keras.optimizers.Optimizer)
    described = keras.saving.serialize_keras_object(value) if given else value
    if not isinstance(described, dict) or "class_name" not in described:
        raise TypeError
    try:
        value = keras.saving.deserialize_keras_object(described)
    except TypeError:
        raise ValueError(
            f"{described['class_name']} must be registered by "
            "keras.saving.register_keras_serializable, and take its configuration"
        ) from None
    if not isinstance(value, keras.optimizers.Optimizer):
        raise TypeError
    name = type(value).__name__
    whole = type(value).apply is not keras.optimizers.Optimizer.apply
    if whole or keras_internals.changes_more_than_a_weight(value):
        raise ValueError(
            f"{name} changes more in a step than each weight by its own gradient: choose another"
        )
    try:
        config, default = value.get_config(), type(value)().get_config()
    except TypeError:
        raise ValueError(f"{name}() must work without arguments: give them defaults") from None
    for setting, own in _OF_THE_RUN.items():
        if config.get(setting) != default.get(setting):
            call = f"pass {own}=… to kbert.pretrain or kbert.finetune instead"
            instead = call if own else "leave it out"
            raise ValueError(f"{name}'s {setting} is not used here: {instead}")
    used = {key: own for key, own in described["config"].items() if key not in _OF_THE_RUN}
    return described | {"config": used}


class KerasRule:
    """The rule of one weight.

    Args:
        settings: `kbert.training.optimizers.Optimizer`, whose name is the optimizer's JSON.
        weight: the weight, a `keras.Variable`.
    """

    def __init__(self, settings, weight):
        self._decay, self._weight = settings.weight_decay, weight
        self._optimizer = keras.saving.deserialize_keras_object(settings.name)
        self._optimizer.build([weight])
        keras_internals.make_stateless(self._optimizer)
        shared = self._optimizer.iterations, self._optimizer.learning_rate
        own = [one for one in self._optimizer.variables if all(one is not each for each in shared)]
        self._slots = {f"slot_{place}": variable for place, variable in enumerate(own)}

    def init(self, weight) -> dict:
        """Return the optimizer's variables of its weight, numbered in Keras's order."""
        return self._slots

    def update(self, weight, slots: dict, gradient, rate, iteration, decayed: bool) -> tuple:
        """See `kbert.training.optimizers.AdamW`; weight decay is AdamW's."""
        optimizer = self._optimizer
        if decayed:
            weight = weight * (1 - rate * self._decay)
        done = ops.cast(iteration, optimizer.iterations.dtype)
        values = [(self._weight, weight), (optimizer.iterations, done)]
        values += [(self._slots[name], slot) for name, slot in slots.items()]
        with keras.StatelessScope(values) as scope:
            optimizer.update_step(gradient, self._weight, rate)
        new = {name: scope.get_current_value(self._slots[name]) for name in slots}
        return scope.get_current_value(self._weight), new
