"""A run's settings as options of its command, from the fields of a dataclass."""

import dataclasses
import functools

import click

from kbert.cli.options import POSITIVE
from kbert.training.run_settings import RunSettings
from kbert.training.setting_rules import (
    CLASS_WEIGHTS,
    HIDDEN_LOSSES,
    LOSSES,
    OPTIMIZERS,
    PRECISIONS,
    SCHEDULES,
    VECTOR_POOLINGS,
    checked,
)

_CHOICES = {
    "optimizer": list(OPTIMIZERS),
    "schedule": list(SCHEDULES),
    "precision": list(PRECISIONS),
    "class_weights": list(CLASS_WEIGHTS),
    "hidden_loss": list(HIDDEN_LOSSES),
    "loss": list(LOSSES),
    "pooling": list(VECTOR_POOLINGS),
}

_SURROUNDINGS = (
    click.option("--devices", type=POSITIVE, help="Local devices; default: all."),
    click.option(
        "--steps-per-execution",
        type=POSITIVE,
        help="Updates in one call of the device; default: 8 of TensorFlow on TPU, else 1.",
    ),
    click.option(
        "--peak-flops",
        type=float,
        help="FLOP/s of all devices, for the share of the peak that is used; default: measured, "
        "and no such share on a CPU.",
    ),
    click.option(
        "--keep-checkpoints/--no-keep-checkpoints",
        default=None,
        help="Keep the training states once the run is finished; default: only the model stays.",
    ),
)

_NAMES = ("devices", "steps_per_execution", "peak_flops", "keep_checkpoints")

# What the help says of the settings that every run has.
_TEXTS = {
    "batch_size": "Examples of an update, over all devices and hosts.",
    "learning_rate": "The highest.",
    "optimizer": "",
    "schedule": "After the warm-up.",
    "weight_decay": "None on biases and LayerNorm.",
    "clip_norm": "Global norm of the gradients.",
    "accumulation_steps": "Micro-batches of an update.",
    "precision": "",
    "jit": "Compile with XLA; default: as the device likes it.",
    "gradient_checkpointing": "Compute encoder blocks again instead of keeping their activations.",
    "temperature": "With --teacher: which logits are divided by.",
    "alpha": "With --teacher: its share of the loss, beside the labels'.",
    "hidden_loss": "With --teacher: learn its states, of all blocks or of the last.",
    "hidden_loss_weight": "With --hidden-loss: what they count for.",
    "patience": "Stop after that many evaluations on dev data without improvement.",
    "log_every": "Updates between two lines of metrics.jsonl.",
}


def with_settings(settings: type[RunSettings], texts: dict[str, str]):
    """A decorator: an option for each field that has a text, in the order of the fields.

    An option that is not given is None, so that `--resume` can tell.

    Args:
        settings: the dataclass; its defaults stand in the help.
        texts: what the help says of the fields that only this one has.
    """
    texts = _TEXTS | texts
    fields = [field for field in settings.fields() if field.name in texts]

    def decorated(command):
        for field in reversed(fields):
            command = _option(field, texts[field.name])(command)
        return command

    return decorated


def with_surroundings(command):
    """A decorator: the options of `Surroundings`, which the command gets by name as `around`."""

    @functools.wraps(command)
    def called(**others):
        around = {name: others.pop(name) for name in _NAMES}
        return command(around=around, **others)

    for option in reversed(_SURROUNDINGS):
        called = option(called)
    return called


def given(settings: dict, around: dict) -> dict:
    """The settings that were given, checked before anything heavy starts.

    Args:
        settings: what `with_settings` gives the command; None: not given.
        around: the `Surroundings`.
    """
    found = {name: value for name, value in settings.items() if value is not None}
    checked(found | around, _NAMES)
    return found


def _option(field: dataclasses.Field, text: str):
    name, kind = field.name.replace("_", "-"), str(field.type)
    if field.default is not None and not isinstance(field.default, bool):
        text = f"{text} Default: {field.default}.".strip()
    if name.startswith("no-"):
        return click.option(f"--{name}", field.name, is_flag=True, default=None, help=text)
    if "bool" in kind:
        return click.option(f"--{name}/--no-{name}", field.name, default=None, help=text)
    if field.name in _CHOICES:
        types: click.ParamType | type = click.Choice(_CHOICES[field.name])
    elif "tuple" in kind:
        types = _Numbers()
    else:
        types = str if "str" in kind else float if "float" in kind else int
    return click.option(f"--{name}", field.name, type=types, help=text)


class _Numbers(click.ParamType):
    """Whole numbers between commas."""

    name = "N,N,…"

    def convert(self, value, param, ctx):
        if isinstance(value, tuple):
            return value
        try:
            return tuple(map(int, value.split(",")))
        except ValueError:
            self.fail(f"whole numbers between commas expected, got {value!r}", param, ctx)
