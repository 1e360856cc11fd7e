"""A run's settings as options of its command, from the fields of a dataclass."""

import dataclasses
import functools

import click

from kbert.cli.command import Choice
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
    check_settings,
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
    click.option(
        "--devices", type=POSITIVE, help="Number of local devices to train on. Default: all."
    ),
    click.option(
        "--steps-per-execution",
        type=POSITIVE,
        help="Number of steps per call of the device. Default: 8 for TensorFlow on TPU, else 1.",
    ),
    click.option(
        "--peak-flops",
        type=float,
        help="Peak FLOP/s of all devices together, from which the MFU is computed. "
        "Default: it is measured; on a CPU there is no MFU.",
    ),
    click.option(
        "--keep-checkpoints/--no-keep-checkpoints",
        default=None,
        help="Keep the training states after the run has finished. Default: only the model is "
        "kept.",
    ),
)

_NAMES = ("devices", "steps_per_execution", "peak_flops", "keep_checkpoints")

# What the help says of the settings that every run has.
_TEXTS = {
    "batch_size": "Number of examples per training step, over all devices and hosts.",
    "learning_rate": "Peak learning rate, reached after warm-up.",
    "optimizer": "Optimizer that updates the weights.",
    "schedule": "Schedule of the learning rate after warm-up.",
    "weight_decay": "Weight decay. Biases and LayerNorm weights have none.",
    "clip_norm": "Global norm to which the gradients are clipped.",
    "accumulation_steps": "Number of micro-batches per training step. More need less memory.",
    "precision": "Precision of the computation.",
    "jit": "Compile the training step with XLA. Default: what is faster on the device.",
    "gradient_checkpointing": "Recompute the encoder blocks in the backward pass. It needs less "
    "memory and more time.",
    "temperature": "Distillation temperature (with --teacher). The logits are divided by it.",
    "alpha": "Weight of the teacher in the loss (with --teacher). The labels have the rest.",
    "hidden_loss": "Loss between the hidden states of student and teacher (with --teacher): mse "
    "of the embeddings and all blocks, or cosine of the last block.",
    "hidden_loss_weight": "Weight of that loss (with --hidden-loss).",
    "patience": "Stop after this many evaluations on the dev data without improvement.",
    "log_every": "Number of steps between two lines of metrics.jsonl.",
}


def with_settings(settings: type[RunSettings], texts: dict[str, str]):
    """A decorator: an option for each field with a text, in the order of the fields; "": none.

    An option that is not given is None, so that `--resume` can tell.

    Args:
        settings: the dataclass; its defaults stand in the help.
        texts: what the help says of the fields that only this one has.
    """
    texts = _TEXTS | texts
    fields = [field for field in settings.fields() if texts.get(field.name)]

    def decorated(command):
        for field in reversed(fields):
            command = _option(field, texts[field.name])(command)
        return command

    return decorated


def with_run_options(command):
    """A decorator: the options of `RunOptions`, which the command gets by name as `around`."""

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
        around: the `RunOptions`.
    """
    found = {name: value for name, value in settings.items() if value is not None}
    check_settings(found | around, _NAMES)
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
        types: click.ParamType | type = Choice(_CHOICES[field.name])
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
            self.fail(f"expected whole numbers separated by commas, got {value!r}", param, ctx)
