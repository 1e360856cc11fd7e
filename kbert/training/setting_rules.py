"""Rules of all training settings: one table that every setting is checked against."""

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from numbers import Integral, Real

from kbert.graph.trained_parts import FREEZE, ON, read_freeze, read_lora_targets
from kbert.io.wording import hint
from kbert.ops import keras_internals
from kbert.training import user_objects
from kbert.training.user_objects import RefusedError, UserFunction

OPTIMIZERS = ("adamw", "lamb")
SCHEDULES = ("linear", "constant")
PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")
CLASS_WEIGHTS = ("balanced",)
LOSSES = ("cross_entropy", "binary_cross_entropy", "squared_error", "absolute_error", "huber")
HIDDEN_LOSSES = ("mse", "cosine")
EMBEDDING_LOSSES = ("infonce", "triplet", "cosine", "cosent")
VECTOR_POOLINGS = ("mean", "cls", "max")  # that can be trained
# Settings of Keras's optimizers, and the setting of a run that takes their place.
_RUN_SETTINGS = {
    "learning_rate": "learning_rate",
    "weight_decay": "weight_decay",
    "clipnorm": "clip_norm",
    "clipvalue": "clip_norm",
    "global_clipnorm": "clip_norm",
    "gradient_accumulation_steps": "accumulation_steps",
    "loss_scale_factor": "precision",
    "use_ema": None,
}


@dataclass(frozen=True)
class Rule:
    """A rule for a setting: `read` makes Python's own number of it, or raises a built-in error."""

    text: str  # the rule in words, after "must"
    read: Callable
    holds: Callable = lambda value: True  # whether the value is within the range
    names: tuple[str, ...] = ()  # the values, where they are names


def _whole(value) -> int:
    if not isinstance(value, Integral) or isinstance(value, bool) or int(value) >= 2**63:
        raise TypeError  # no counter of any backend has more
    return int(value)


def _number(value) -> float:
    if not isinstance(value, Real) or isinstance(value, bool) or not math.isfinite(value):
        raise TypeError
    return float(value)


def _truth(value) -> bool:
    if type(value).__name__.rstrip("_") != "bool":  # NumPy's is called bool_ or bool
        raise TypeError
    return bool(value)


def _column(value) -> str:
    if type(value) is int:
        value = str(value)
    if not isinstance(value, str) or not value.strip():
        raise TypeError
    return value


def _columns(values) -> tuple[str, ...]:
    if isinstance(values, (str, set, dict)) or 0 in values:
        raise TypeError
    return tuple(_column(value) for value in values)


def _label(value) -> str:
    if isinstance(value, Integral) and not isinstance(value, bool):  # as data in memory have it
        value = str(value)
    if not isinstance(value, str) or not value.strip():
        raise TypeError
    return value.strip()


def _score(value) -> str:
    if not isinstance(value, str) or not value.removeprefix("-").strip():
        raise TypeError
    return value


def _lengths(values) -> tuple[int, ...]:
    lengths = tuple(map(_whole, values))
    if isinstance(values, (str, set, dict)) or not lengths:
        raise ValueError
    return lengths


def _read_optimizer(value) -> str | dict:
    """Return an optimizer's name, or the JSON of one of Keras's; refuse what a run cannot use."""
    if isinstance(value, str):
        return value
    import keras

    kind = keras.optimizers.Optimizer
    json = user_objects.serialize(value, kind)
    value = user_objects.deserialize(json)
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
            call = f"pass {own}=… to kbert.pretrain or kbert.finetune instead"
            instead = call if own else "leave it out"
            raise RefusedError(f"{name}'s {setting} is not used here: {instead}")
    used = {key: own for key, own in json["config"].items() if key not in _RUN_SETTINGS}
    return json | {"config": used}


def _read_loss(value) -> str | dict | UserFunction:
    """Return a loss's name, or what a run keeps of one of Keras's, or of a function."""
    if isinstance(value, str):
        return value
    import keras

    json = user_objects.read_object(value, keras.losses.Loss)
    if isinstance(json, dict) and json["config"].get("reduction") == "sum":
        raise RefusedError(
            f"{json['class_name']} has reduction='sum': the loss is the mean over a step's "
            "examples: leave reduction out"
        )
    return json


def _read_metrics(values) -> tuple | None:
    """Return what a run keeps of Keras's metrics and of functions; None: there are none."""
    if isinstance(values, (str, set, dict)):
        raise TypeError
    import keras

    metrics = tuple(user_objects.read_object(value, keras.metrics.Metric) for value in values)
    for metric in metrics:
        if isinstance(metric, dict) and _compares_with_probability(metric["config"]):
            raise RefusedError(
                f"{metric['class_name']} compares probabilities with a threshold, and the model's "
                "outputs are logits: give a threshold of 0.0, if it takes one (a probability of "
                "0.5), or write a function"
            )
    return metrics or None


def _compares_with_probability(config: dict) -> bool:
    """Return whether a metric would compare logits with a probability, such as 0.5."""
    if "from_logits" in config:
        return False
    if "num_thresholds" in config or config.get("threshold") not in (None, 0):
        return True
    return config.get("top_k") is None and config.get("thresholds", 0) != 0


def _read_class_weights(value) -> str | dict[str, float]:
    """Return "balanced", or the weights by label."""
    if isinstance(value, str):
        return value
    weights = {_label(label): _number(weight) for label, weight in dict(value).items()}
    if len(weights) < len(value) or min(weights.values()) < 0 or max(weights.values()) == 0:
        raise ValueError
    return weights


def _freeze(text) -> str:
    read_freeze(text)
    return text


def _minimum(least: int) -> Rule:
    return Rule(f"be a whole number of at least {least}", _whole, lambda value: value >= least)


def _names_rule(names: tuple[str, ...]) -> Rule:
    listed = " or ".join(names) if len(names) <= 2 else f"one of {', '.join(names)}"
    return Rule(f"be {listed}", lambda value: value, lambda value: value in names, names)


def _rules(names: str, rule: Rule) -> dict[str, Rule]:
    return dict.fromkeys(names.split(), rule)


_POSITIVE = Rule("be a finite number above 0", _number, lambda value: value > 0)
_NOT_NEGATIVE = Rule("be a finite number of at least 0", _number, lambda value: value >= 0)
_RATIO = Rule("be a share, 0 … 1", _number, lambda value: 0 <= value <= 1)
_BELOW_ONE = Rule("be a share, 0 or more and below 1", _number, lambda value: 0 <= value < 1)
_POSITIVE_RATIO = Rule("be a share, above 0 and at most 1", _number, lambda v: 0 < v <= 1)
_TRUTH = Rule("be True or False", _truth)
_LABEL = Rule("be the name of a label", _label)
_COLUMN = Rule("be the name or the number of a column", _column)

RULES = {
    **_rules("steps total_steps epochs batch_size max_length max_predictions", _minimum(1)),
    **_rules("accumulation_steps evaluate_every evaluation_batches save_every", _minimum(1)),
    **_rules("log_every patience devices steps_per_execution lora_rank", _minimum(1)),
    **_rules("seq_len", _minimum(8)),  # two segments and their marks
    **_rules("warmup_steps seed", _minimum(0)),
    **_rules("learning_rate head_learning_rate lora_alpha clip_norm epsilon", _POSITIVE),
    **_rules("peak_flops temperature hidden_loss_weight scale margin", _POSITIVE),
    **_rules("weight_decay", _NOT_NEGATIVE),
    **_rules("warmup_ratio alpha short_seq_probability", _RATIO),
    **_rules("lora_dropout beta_1 beta_2 dev_ratio label_smoothing", _BELOW_ONE),
    **_rules("layer_decay mlm_probability", _POSITIVE_RATIO),
    **_rules("keep_checkpoints no_header lowercase jit gradient_checkpointing packing", _TRUTH),
    **_rules("whole_word mlm_only keep_best progress", _TRUTH),
    **_rules("text_column text_pair_column label_column sample_weight_column", _COLUMN),
    "label_columns": Rule(
        "be a list of different names or numbers of columns, two or more",
        _columns,
        lambda names: len({name.strip().lower() for name in names}) == len(names) > 1,
    ),
    "positive_label": _LABEL,
    "lengths": Rule(
        "ascend, in whole numbers of at least 1",
        _lengths,
        lambda sizes: list(sizes) == sorted(set(sizes)) and sizes[0] >= 1,
    ),
    "dimensions": Rule(
        "be different whole numbers of at least 1",
        _lengths,
        lambda sizes: len(set(sizes)) == len(sizes) and min(sizes) >= 1,
    ),
    "freeze": Rule(FREEZE, _freeze),
    # in one order, however it is said
    "lora_targets": Rule(ON, lambda text: ",".join(read_lora_targets(text))),
    "class_weights": Rule(
        "be balanced, or in Python a dict of labels and weights, numbers of at least 0",
        _read_class_weights,
        lambda value: isinstance(value, dict) or value in CLASS_WEIGHTS,
        CLASS_WEIGHTS,
    ),
    "hidden_loss": _names_rule(HIDDEN_LOSSES),
    "loss": Rule(
        f"be one of {', '.join(LOSSES + EMBEDDING_LOSSES)}; or in Python a keras.losses.Loss or a "
        "function of labels and logits",
        _read_loss,
        lambda value: not isinstance(value, str) or value in LOSSES + EMBEDDING_LOSSES,
        LOSSES + EMBEDDING_LOSSES,
    ),
    "metrics": Rule(
        "be a list of Keras metrics, or functions of labels and logits",
        _read_metrics,
    ),
    "score": Rule("be the name of a metric, with - before it if lower is better", _score),
    "pooling": _names_rule(VECTOR_POOLINGS),
    "schedule": _names_rule(SCHEDULES),
    "precision": _names_rule(PRECISIONS),
    "optimizer": Rule(
        f"be {' or '.join(OPTIMIZERS)}, or one of Keras's optimizers from Python, "
        "such as keras.optimizers.Lion()",
        _read_optimizer,
        lambda value: isinstance(value, dict) or value in OPTIMIZERS,
        OPTIMIZERS,
    ),
}


def read_settings(options: dict) -> dict:
    """Return the options with what a run keeps of objects; those without a rule are unchanged."""
    known = {name: value for name, value in options.items() if name in RULES}
    return options | check_settings(known, known)


def check_settings(values: dict, optional: Collection[str] = ()) -> dict:
    """Return the values, NumPy's numbers as Python's; a ValueError if one breaks its rule."""
    read = dict(values)
    for name, value in values.items():
        if value is None and name in optional:
            continue
        rule = RULES[name]
        try:
            read[name] = rule.read(value)
            holds = rule.holds(read[name])
        except RefusedError as error:
            raise ValueError(f"{name}: {error}") from None
        except (TypeError, ValueError, OverflowError):
            holds = False
        if not holds:
            text, close = f"{name} must {rule.text}, got {value!r}", hint(value, rule.names, "")
            raise ValueError(f"{text}: {close}" if close else text)
    return read
