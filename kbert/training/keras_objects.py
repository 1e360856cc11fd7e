"""Settings that are objects of Keras's: their configuration, which a run keeps.

Keras is imported where an object is read: the command line, whose settings are names, never does.
"""

import math
from typing import Any

from kbert.ops import keras_internals

# Settings of Keras's optimizers, and the setting of a run that takes their place.
_RUN_SETTINGS = {
    "learning_rate": "learning_rate",
    "weight_decay": "weight_decay",
    "clipnorm": "clip_norm",
    "clipvalue": "clip_norm",
    "global_clipnorm": "clip_norm",
    "gradient_accumulation_steps": "accumulation_steps",
    "loss_scale_factor": "precision",
    "use_ema": "ema",
}


class RefusedError(ValueError):
    """A value that is refused for a reason that the rule's text does not say."""


def _read_keras_object(value, kind: type, call: str) -> tuple[dict, Any]:
    """Return the JSON of an object of Keras's, which may be given in its place, and the object."""
    import keras

    if isinstance(value, type) and issubclass(value, kind):
        raise RefusedError(f"{value.__name__} is a class: call it, {value.__name__}({call})")
    name = type(value).__name__
    if isinstance(value, dict):  # what somebody who writes it by hand leaves out
        value = {"module": kind.__module__, "config": {}} | value
    try:
        json = keras.saving.serialize_keras_object(value) if isinstance(value, kind) else value
        if isinstance(json, dict) and "class_name" in json:
            name = json["class_name"]
            value = keras.saving.deserialize_keras_object(json)
    except (NotImplementedError, TypeError):
        raise RefusedError(
            f"{name} must be registered by keras.saving.register_keras_serializable, and take its "
            "configuration"
        ) from None
    if not isinstance(value, kind):
        raise TypeError
    return json, value


def read_optimizer(value) -> str | dict:
    """Return an optimizer's name, or the JSON of one of Keras's; refuse what a run cannot use."""
    if isinstance(value, str):
        return value
    import keras

    kind = keras.optimizers.Optimizer
    json, value = _read_keras_object(value, kind, "")
    name = type(value).__name__
    if type(value).apply is not kind.apply or keras_internals.changes_more_than_a_weight(value):
        raise RefusedError(
            f"{name} changes more in a step than each weight by its own gradient: choose another"
        )
    try:
        config, default = value.get_config(), type(value)().get_config()
    except TypeError:
        raise RefusedError(f"{name}() must work without arguments: give them defaults") from None
    for setting, own in _RUN_SETTINGS.items():
        if config.get(setting) != default.get(setting):
            own = "schedule" if isinstance(config[setting], dict) else own
            call = f"pass {own}=… to kbert.pretrain or kbert.finetune instead"
            raise RefusedError(f"{name}'s {setting} is not used here: {call}")
    used = {key: own for key, own in json["config"].items() if key not in _RUN_SETTINGS}
    return json | {"config": used}


def read_schedule(value) -> str | dict:
    """Return a schedule's name, or the JSON of one of Keras's; refuse one that gives no rate."""
    if isinstance(value, str):
        return value
    import keras

    kind = keras.optimizers.schedules.LearningRateSchedule
    json, schedule = _read_keras_object(value, kind, "…")
    first = float(keras.ops.convert_to_numpy(schedule(keras.ops.cast(0, "int"))))
    if not (math.isfinite(first) and first >= 0):
        raise RefusedError(
            f"{json['class_name']} must give finite rates of at least 0, got {first:g} for step 0"
        )
    return json
