"""Settings that are objects of Keras's: their configuration, which a run keeps.

Keras is imported where an object is read: the command line, whose settings are names, never does.
"""

import math

from kbert.ops import keras_internals
from kbert.training.settings import user_objects
from kbert.training.settings.user_objects import RefusedError, UserFunction

_TRIED_RATES = 1000  # steps of a run whose rate is tried
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


def read_optimizer(value) -> str | dict:
    """Return an optimizer's name, or the JSON of one of Keras's; refuse what a run cannot use."""
    if isinstance(value, str):
        return value
    user_objects.require_object(value)
    import keras

    kind = keras.optimizers.Optimizer
    module = "keras.optimizers"
    if not isinstance(value, kind):
        value = user_objects.deserialize(user_objects.serialize(value, kind, module))
    _refuse_other_rules(value)
    json = user_objects.serialize(value, kind, module)
    _refuse_run_settings(value)
    config = json["config"]
    used = [name for name in config if name not in _RUN_SETTINGS]
    used_config = {name: config[name] for name in used}
    return json | {"config": used_config}


def _refuse_run_settings(optimizer) -> None:
    """Refuse an optimizer with settings that are the run's, if they are not the defaults."""
    name = type(optimizer).__name__
    try:
        config = optimizer.get_config()
        default = type(optimizer)().get_config()
    except TypeError:
        raise RefusedError(f"{name}() must work without arguments: give them defaults") from None

    for setting, run_setting in _RUN_SETTINGS.items():
        if config.get(setting) == default.get(setting):
            continue
        if isinstance(config[setting], dict):
            run_setting = "schedule"
        call = f"pass {run_setting}=… to kbert.pretrain or kbert.finetune instead"
        raise RefusedError(f"{name}'s {setting} is not used here: {call}")


def _refuse_other_rules(optimizer) -> None:
    """Refuse an optimizer that does more than update each weight by its own gradient."""
    import keras

    replaces_apply = type(optimizer).apply is not keras.optimizers.Optimizer.apply
    if replaces_apply or keras_internals.changes_more_than_a_weight(optimizer):
        raise RefusedError(
            f"{type(optimizer).__name__} changes more in a step than each weight by its own "
            "gradient: choose another"
        )


def read_schedule(value) -> str | dict:
    """Return a schedule's name, or the JSON of one of Keras's; refuse one that gives no rate."""
    if isinstance(value, str):
        return value
    user_objects.require_object(value)
    import keras

    kind = keras.optimizers.schedules.LearningRateSchedule
    module = "keras.optimizers.schedules"
    json = user_objects.serialize(value, kind, module, "…")
    check_rates(json, steps=1)
    return json


def check_rates(json: dict, steps: int) -> None:
    """Raise a ValueError unless a Keras schedule gives finite rates of at least 0 in a run.

    The last step and about a thousand others are tried.
    """
    import keras

    schedule = user_objects.deserialize(json)
    stride = max(1, steps // _TRIED_RATES)
    checked_steps = {*range(0, steps, stride), steps - 1}
    for step in sorted(checked_steps):
        rate = schedule(keras.ops.cast(step, "int"))
        rate = float(keras.ops.convert_to_numpy(rate))
        if not (math.isfinite(rate) and rate >= 0):
            raise RefusedError(
                f"{json['class_name']} must give finite rates of at least 0, got {rate:g} for step "
                f"{step + 1:,} of {steps:,}"
            )


def read_loss(value) -> str | dict | UserFunction:
    """Return a loss's name, or what a run keeps of one of Keras's, or of a function."""
    if isinstance(value, str):
        return value
    user_objects.require_object(value)
    import keras

    json = user_objects.read_object(value, keras.losses.Loss, "keras.losses")
    if isinstance(json, UserFunction):
        return json
    if json["config"].get("reduction") == "sum":
        raise RefusedError(
            f"{json['class_name']} has reduction='sum': the loss is the mean over a step's "
            "examples: leave reduction out"
        )
    _refuse_probabilities(json)
    return json


def read_metrics(values) -> tuple | None:
    """Return what a run keeps of Keras's metrics and of functions; None: there are none."""
    if isinstance(values, (str, set, dict)):
        raise TypeError
    values = tuple(values)
    for value in values:
        user_objects.require_object(value)
    import keras

    metrics = tuple(
        user_objects.read_object(value, keras.metrics.Metric, "keras.metrics") for value in values
    )
    for metric in metrics:
        if isinstance(metric, dict) and _compares_with_probability(metric["config"]):
            raise RefusedError(
                f"{metric['class_name']} compares probabilities with a threshold, and the model's "
                "outputs are logits: give a threshold of 0.0, if it takes one (a probability of "
                "0.5), or write a function"
            )
    return metrics or None


def _refuse_probabilities(json: dict) -> None:
    """Refuse losses of Keras's whose logits would be taken for probabilities, or for embeddings."""
    import keras

    loss = user_objects.deserialize(json)
    name = json["class_name"]
    of_probabilities = (
        keras.losses.CategoricalGeneralizedCrossEntropy,
        keras.losses.Dice,
        keras.losses.KLDivergence,
        keras.losses.Poisson,
        keras.losses.Tversky,
    )
    if isinstance(loss, of_probabilities):
        raise RefusedError(
            f"{name} compares probabilities, and the model's outputs are logits: write a function"
        )
    if isinstance(loss, keras.losses.Circle):
        raise RefusedError(f"{name} is a loss of embeddings, not of labels: choose another")


def _compares_with_probability(config: dict) -> bool:
    """Return whether a metric would compare logits with a probability, such as 0.5."""
    if "from_logits" in config:
        return False
    if "num_thresholds" in config or config.get("threshold") not in (None, 0):
        return True
    thresholds = config.get("thresholds", 0)
    has_several = isinstance(thresholds, (list, tuple))
    values = thresholds if has_several else [thresholds]
    return config.get("top_k") is None and any(value != 0 for value in values)
