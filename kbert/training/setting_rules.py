"""Rules of all training settings: one table that every setting is checked against."""

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from numbers import Integral, Real

from kbert.graph.trained_parts import FREEZE, ON, read_freeze, read_lora_targets
from kbert.io.wording import hint

OPTIMIZERS = ("adamw", "lamb")
SCHEDULES = ("linear", "constant")
PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")
CLASS_WEIGHTS = ("balanced",)
HIDDEN_LOSSES = ("mse", "cosine")
LOSSES = ("infonce", "triplet", "cosine", "cosent")  # of sentence vectors
VECTOR_POOLINGS = ("mean", "cls", "max")  # that can be trained


@dataclass(frozen=True)
class Rule:
    """A rule for a setting's value.

    Attributes:
        text: the rule in words, after "must".
        read: returns the value as Python's own number, which JSON can hold; raises a ValueError,
            TypeError or OverflowError for any other value.
        holds: returns whether the value is within the range.
        names: the values, where they are names.
    """

    text: str
    read: Callable
    holds: Callable = lambda value: True
    names: tuple[str, ...] = ()


def _whole(value) -> int:
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError
    if int(value) >= 2**63:
        raise OverflowError  # no counter of any backend has more
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
    if not isinstance(value, str):
        raise TypeError
    if not value.strip():
        raise ValueError
    return value


def _ascending(values) -> tuple[int, ...]:
    found = tuple(map(_whole, values))
    if isinstance(values, (set, dict)) or list(found) != sorted(set(found)) or found[:1] < (1,):
        raise ValueError
    return found


class _Refused(ValueError):
    """A value that is refused for a reason that the rule's text does not say."""


def _optimizer(value):
    if isinstance(value, str):
        return value
    from kbert.training.keras_optimizer import read_optimizer  # imports Keras

    try:
        return read_optimizer(value)
    except ValueError as error:
        raise _Refused(str(error)) from None


def _freeze(text) -> str:
    read_freeze(text)
    return text


def _lora_targets(text) -> str:
    return ",".join(read_lora_targets(text))  # in one order, however it is said


def _different(values) -> tuple[int, ...]:
    found = tuple(map(_whole, values))
    if isinstance(values, (str, set, dict)) or len(set(found)) < len(found) or not found:
        raise ValueError
    if min(found) < 1:
        raise ValueError
    return found


def _at_least(least: int) -> Rule:
    return Rule(f"be a whole number of at least {least}", _whole, lambda value: value >= least)


def _one_of(names: tuple[str, ...]) -> Rule:
    listed = " or ".join(names) if len(names) <= 2 else f"one of {', '.join(names)}"
    return Rule(f"be {listed}", lambda value: value, lambda value: value in names, names)


_POSITIVE = Rule("be a finite number above 0", _number, lambda value: value > 0)
_NOT_NEGATIVE = Rule("be a finite number of at least 0", _number, lambda value: value >= 0)
_SHARE = Rule("be a share, 0 … 1", _number, lambda value: 0 <= value <= 1)
_BELOW_ONE = Rule("be a share, 0 or more and below 1", _number, lambda value: 0 <= value < 1)
_NOT_ZERO_SHARE = Rule("be a share, above 0 and at most 1", _number, lambda v: 0 < v <= 1)
_TRUTH = Rule("be True or False", _truth)
_COLUMN = Rule("be the name or the number of a column", _column)

RULES = {
    "steps": _at_least(1),
    "total_steps": _at_least(1),
    "epochs": _at_least(1),
    "batch_size": _at_least(1),
    "seq_len": _at_least(8),  # two segments and their marks
    "max_length": _at_least(1),
    "max_predictions": _at_least(1),
    "accumulation_steps": _at_least(1),
    "evaluate_every": _at_least(1),
    "evaluation_batches": _at_least(1),
    "save_every": _at_least(1),
    "log_every": _at_least(1),
    "patience": _at_least(1),
    "devices": _at_least(1),
    "steps_per_execution": _at_least(1),
    "warmup_steps": _at_least(0),
    "seed": _at_least(0),
    "lengths": Rule("ascend, in whole numbers of at least 1", _ascending),
    "learning_rate": _POSITIVE,
    "head_learning_rate": _POSITIVE,
    "layer_decay": _NOT_ZERO_SHARE,
    "freeze": Rule(FREEZE, _freeze),
    "lora_rank": _at_least(1),
    "lora_targets": Rule(ON, _lora_targets),
    "lora_alpha": _POSITIVE,
    "lora_dropout": _BELOW_ONE,
    "clip_norm": _POSITIVE,
    "epsilon": _POSITIVE,
    "peak_flops": _POSITIVE,
    "weight_decay": _NOT_NEGATIVE,
    "beta_1": _BELOW_ONE,
    "beta_2": _BELOW_ONE,
    "dev_ratio": _BELOW_ONE,
    "warmup_ratio": _SHARE,
    "label_smoothing": _BELOW_ONE,
    "class_weights": _one_of(CLASS_WEIGHTS),
    "temperature": _POSITIVE,
    "alpha": _SHARE,
    "hidden_loss": _one_of(HIDDEN_LOSSES),
    "hidden_loss_weight": _POSITIVE,
    "loss": _one_of(LOSSES),
    "pooling": _one_of(VECTOR_POOLINGS),
    "scale": _POSITIVE,
    "margin": _POSITIVE,
    "dimensions": Rule("be different whole numbers of at least 1", _different),
    "short_seq_probability": _SHARE,
    "mlm_probability": _NOT_ZERO_SHARE,
    "optimizer": Rule(
        f"be {' or '.join(OPTIMIZERS)}, or one of Keras's optimizers from Python",
        _optimizer,
        lambda value: isinstance(value, dict) or value in OPTIMIZERS,
        OPTIMIZERS,
    ),
    "schedule": _one_of(SCHEDULES),
    "precision": _one_of(PRECISIONS),
    "keep_checkpoints": _TRUTH,
    "text_column": _COLUMN,
    "text_pair_column": _COLUMN,
    "label_column": _COLUMN,
    "no_header": _TRUTH,
    "lowercase": _TRUTH,
    "jit": _TRUTH,
    "gradient_checkpointing": _TRUTH,
    "packing": _TRUTH,
    "whole_word": _TRUTH,
    "mlm_only": _TRUTH,
    "keep_best": _TRUTH,
    "bias_correction": _TRUTH,
    "progress": _TRUTH,
}


def checked(values: dict, optional: Collection[str] = ()) -> dict:
    """Return the values by name, NumPy's numbers as Python's.

    Args:
        values: each one's rule stands in `RULES`.
        optional: which of them may be None.

    Raises:
        ValueError: one that breaks its rule: names it, what it must be, and what it is.
    """
    return {
        name: None if value is None and name in optional else _checked(name, value)
        for name, value in values.items()
    }


def _checked(name: str, value):
    rule = RULES[name]
    try:
        found = rule.read(value)
        holds = rule.holds(found)
    except _Refused as error:
        raise ValueError(f"{name}: {error}") from None
    except (TypeError, ValueError, OverflowError):
        holds = False
    if not holds:
        text, close = f"{name} must {rule.text}, got {value!r}", hint(value, rule.names, "")
        raise ValueError(f"{text}: {close}" if close else text)
    return found
