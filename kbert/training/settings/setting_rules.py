"""Rules of all training settings: one table that every setting is checked against."""

import dataclasses
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from numbers import Integral, Real

from kbert.graph.trained_parts import FREEZE, ON, read_freeze, read_lora_targets
from kbert.io.wording import hint
from kbert.training.settings.keras_objects import (
    read_loss,
    read_metrics,
    read_optimizer,
    read_schedule,
)
from kbert.training.settings.user_objects import RefusedError

OPTIMIZERS = ("adamw", "lamb")
KERAS_OPTIMIZER = (
    "an optimizer of Keras: keras.optimizers.{}() in Python, its JSON in a settings file"
)
SCHEDULES = (
    "linear",
    "constant",
    "cosine",
    "polynomial",
    "inverse_sqrt",
    "one_cycle",
    "triangle",
)
SCHEDULES_WITH_MINIMUM = ("linear", "cosine", "polynomial")
# Settings of some schedules, by the schedules' names.
_OF_SCHEDULES = {
    "min_learning_rate_ratio": SCHEDULES_WITH_MINIMUM,
    "schedule_power": ("polynomial",),
    "schedule_timescale": ("inverse_sqrt",),
}
# Settings of the whole rate, which a Keras schedule gives itself.
RATE_SETTINGS = ("learning_rate", "warmup_steps", "warmup_ratio", "head_learning_rate")
_OF_ADAM = ("beta_1", "beta_2", "epsilon")  # of the optimizers that are names
PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")
CLASS_WEIGHTS = ("balanced",)
LOSSES = ("cross_entropy", "binary_cross_entropy", "squared_error", "absolute_error", "huber")
HIDDEN_LOSSES = ("mse", "cosine")
EMBEDDING_LOSSES = ("infonce", "triplet", "cosine", "cosent")
VECTOR_POOLINGS = ("mean", "cls", "max")  # that can be trained


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


def _rate(value) -> float:
    if hasattr(value, "get_config"):
        raise RefusedError(
            f"it must be a finite number above 0, got {type(value).__name__}: give a schedule of "
            "Keras as schedule=, and leave learning_rate out"
        )
    return _number(value)


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
    lengths = tuple(_whole(value) for value in values)
    if isinstance(values, (str, set, dict)) or not lengths:
        raise ValueError
    return lengths


def _read_class_weights(value) -> str | dict[str, float]:
    """Return "balanced", or the weights by label."""
    if isinstance(value, str):
        return value
    weights = {_label(label): _number(weight) for label, weight in dict(value).items()}
    has_equal_labels = len(weights) < len(value)
    if has_equal_labels or min(weights.values()) < 0 or max(weights.values()) == 0:
        raise ValueError
    return weights


def read_profile(text: str | None) -> range:
    """Return the steps of "FIRST:LAST", counted from 0; None: a range that no step is in."""
    if text is None:
        return range(-1, -1)
    first, last = [int(number) for number in str.split(text, ":")]
    return range(first - 1, last)


def _freeze(text) -> str:
    read_freeze(text)
    return text


def _minimum(least: int) -> Rule:
    text = f"be a whole number of at least {least}"
    return Rule(text, _whole, lambda value: value >= least)


def _names_rule(names: tuple[str, ...]) -> Rule:
    listed = " or ".join(names) if len(names) <= 2 else f"one of {', '.join(names)}"
    return Rule(f"be {listed}", _any_value, lambda value: value in names, names)


def _any_value(value):
    return value


def _rules(names: str, rule: Rule) -> dict[str, Rule]:
    return dict.fromkeys(names.split(), rule)


_POSITIVE = Rule("be a finite number above 0", _number, lambda value: value > 0)
_NOT_NEGATIVE = Rule("be a finite number of at least 0", _number, lambda value: value >= 0)
_RATIO = Rule("be a share, 0 … 1", _number, lambda value: 0 <= value <= 1)
_BELOW_ONE = Rule("be a share, 0 or more and below 1", _number, lambda value: 0 <= value < 1)
_POSITIVE_RATIO = Rule("be a share, above 0 and at most 1", _number, lambda v: 0 < v <= 1)
_BETWEEN = Rule("be a share above 0 and below 1", _number, lambda value: 0 < value < 1)
_TRUTH = Rule("be True or False", _truth)
_LABEL = Rule("be the name of a label", _label)
_COLUMN = Rule("be the name or the number of a column", _column)

RULES = {
    **_rules(
        "steps total_steps epochs batch_size ramp_from micro_batch_size max_length max_predictions",
        _minimum(1),
    ),
    **_rules("accumulation_steps evaluate_every evaluation_batches save_every", _minimum(1)),
    **_rules("log_every patience devices steps_per_execution lora_rank", _minimum(1)),
    **_rules("seq_len", _minimum(8)),  # two segments and their marks
    **_rules("warmup_steps seed", _minimum(0)),
    **_rules("schedule_timescale", _minimum(1)),
    **_rules("learning_rate head_learning_rate", dataclasses.replace(_POSITIVE, read=_rate)),
    **_rules("lora_alpha clip_norm epsilon", _POSITIVE),
    **_rules("schedule_power", _POSITIVE),
    **_rules("hours peak_flops temperature hidden_loss_weight scale margin", _POSITIVE),
    **_rules("weight_decay", _NOT_NEGATIVE),
    **_rules("warmup_ratio alpha short_seq_probability", _RATIO),
    **_rules("lora_dropout dropout beta_1 beta_2 dev_ratio label_smoothing", _BELOW_ONE),
    **_rules("layer_decay mlm_probability evaluation_mlm_probability", _POSITIVE_RATIO),
    **_rules("ema ramp_ratio", _BETWEEN),
    "min_learning_rate_ratio": Rule(
        f"be a share, 0 … 1, at which the schedules {', '.join(SCHEDULES_WITH_MINIMUM)} end",
        _number,
        lambda value: 0 <= value <= 1,
    ),
    **_rules("keep_checkpoints no_header lowercase jit gradient_checkpointing packing", _TRUTH),
    **_rules("whole_word mlm_only separate_documents keep_best", _TRUTH),
    **_rules("progress report_examples follows_budget", _TRUTH),
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
    "profile": Rule(
        "be FIRST:LAST, two numbers of steps in order, counted from 1, such as 10:20",
        read_profile,
        lambda steps: 0 <= steps.start < steps.stop,
    ),
    # in one order, however it is said
    "lora_targets": Rule(ON, lambda text: ",".join(read_lora_targets(text))),
    "class_weights": Rule(
        "be balanced, or weights by label, numbers of at least 0",
        _read_class_weights,
        lambda value: isinstance(value, dict) or value in CLASS_WEIGHTS,
        CLASS_WEIGHTS,
    ),
    "hidden_loss": _names_rule(HIDDEN_LOSSES),
    "loss": Rule(
        f"be one of {', '.join(LOSSES + EMBEDDING_LOSSES)}; a keras.losses.Loss (its JSON in a "
        "settings file); or, in Python, a function of labels and logits",
        read_loss,
        lambda value: not isinstance(value, str) or value in LOSSES + EMBEDDING_LOSSES,
        LOSSES + EMBEDDING_LOSSES,
    ),
    "metrics": Rule(
        "be a list of Keras metrics (their JSON in a settings file) and, in Python, functions of "
        "labels and logits",
        read_metrics,
    ),
    "score": Rule("be the name of a metric, with - before it if lower is better", _score),
    "pooling": _names_rule(VECTOR_POOLINGS),
    "schedule": Rule(
        f"be one of {', '.join(SCHEDULES)}, or a schedule of Keras: "
        "keras.optimizers.schedules.CosineDecay(…) in Python, its JSON in a settings file",
        read_schedule,
        lambda value: isinstance(value, dict) or value in SCHEDULES,
        SCHEDULES,
    ),
    "precision": _names_rule(PRECISIONS),
    "optimizer": Rule(
        f"be {' or '.join(OPTIMIZERS)}, or {KERAS_OPTIMIZER.format('Lion')}",
        read_optimizer,
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
            text = f"{name} must {rule.text}, got {value!r}"
            close = hint(value, rule.names, "")
            raise ValueError(f"{text}: {close}" if close else text)
    return read


def check_together(values: dict, defaults: Mapping) -> None:
    """Raise a ValueError for a setting of the optimizer or schedule that another one excludes.

    A setting that is its default counts as left out.
    """
    known = [name for name in values if name in defaults]
    changed = [name for name in known if values[name] != defaults[name]]
    _check_schedule(values, changed)
    _check_optimizer(values, changed)


def _check_schedule(values: dict, changed: Collection[str]) -> None:
    """Raise a ValueError for a changed setting that does not go with the schedule."""
    schedule = values["schedule"]
    if isinstance(schedule, dict):
        for name in (*RATE_SETTINGS, *_OF_SCHEDULES):
            # a warm-up of 0 is what the schedule object says
            if name in changed and values[name]:
                raise ValueError(
                    f"{name} must be left out with schedule={schedule['class_name']}(…), which "
                    f"gives the whole learning rate, got {values[name]!r}"
                )
        return

    for name, schedules in _OF_SCHEDULES.items():
        if name in changed and schedule not in schedules:
            raise ValueError(
                f"{name} must be for the schedule {' or '.join(schedules)}, got it for "
                f"{schedule}: choose another schedule, or leave it out"
            )


def _check_optimizer(values: dict, changed: Collection[str]) -> None:
    """Raise a ValueError for a changed setting of Adam beside an optimizer of Keras."""
    optimizer = values["optimizer"]
    if not isinstance(optimizer, dict):
        return
    class_name = optimizer["class_name"]
    for name in _OF_ADAM:
        if name in changed:
            raise ValueError(
                f"{name} must be left out with optimizer={class_name}(…), which has its own, got "
                f"{values[name]!r}: give it to {class_name}, if that takes it"
            )
