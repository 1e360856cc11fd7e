"""A run's settings as options of its command, from the fields of a dataclass."""

import dataclasses
import functools

import click

from kbert.cli.command import Choice
from kbert.cli.options import POSITIVE, Numbers, option
from kbert.training.run_settings import RunSettings
from kbert.training.setting_rules import (
    CLASS_WEIGHTS,
    EMBEDDING_LOSSES,
    HIDDEN_LOSSES,
    OPTIMIZERS,
    PRECISIONS,
    SCHEDULES,
    VECTOR_POOLINGS,
    check_settings,
)

_CHOICES = {
    "optimizer": OPTIMIZERS,
    "schedule": SCHEDULES,
    "precision": PRECISIONS,
    "class_weights": CLASS_WEIGHTS,
    "hidden_loss": HIDDEN_LOSSES,
    "loss": EMBEDDING_LOSSES,
    "pooling": VECTOR_POOLINGS,
}

_RUN_OPTIONS = {
    "devices": option("--devices", POSITIVE, "Number of local devices to train on. Default: all."),
    "steps_per_execution": option(
        "--steps-per-execution",
        POSITIVE,
        "Number of steps per call of the device. Default: 8 for TensorFlow on TPU, else 1.",
    ),
    "peak_flops": option(
        "--peak-flops",
        float,
        "Peak FLOP/s of all devices together, from which the MFU is computed. "
        "Default: it is measured; on a CPU there is no MFU.",
    ),
    "keep_checkpoints": option(
        "--keep-checkpoints/--no-keep-checkpoints",
        bool,
        "Keep the training states after the run has finished. Default: only the model is kept.",
    ),
}

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


def add_settings(settings: type[RunSettings], texts: dict[str, str]):
    """Return a decorator that adds an option for each field with a text, in their order.

    An option that is not given is None, so that `--resume` can tell.

    Args:
        settings: the dataclass; its defaults stand in the help.
        texts: help of the fields that only this one has.
    """
    texts = _TEXTS | texts
    fields = [field for field in settings.fields() if texts.get(field.name)]

    def decorate(command):
        for field in reversed(fields):
            command = _option(field, texts[field.name])(command)
        return command

    return decorate


def add_run_options(command):
    """Add the options of `RunOptions`, which the command gets by name as `run_options`."""

    @functools.wraps(command)
    def run(**others):
        run_options = {name: others.pop(name) for name in _RUN_OPTIONS}
        return command(run_options=run_options, **others)

    for add in reversed(_RUN_OPTIONS.values()):
        run = add(run)
    return run


def select_settings(settings: dict, run_options: dict) -> dict:
    """Return the settings that are not None, checked before anything heavy starts."""
    settings = {name: value for name, value in settings.items() if value is not None}
    check_settings(settings | run_options, tuple(_RUN_OPTIONS))
    return settings


def _option(field: dataclasses.Field, text: str):
    name, kind = field.name.replace("_", "-"), str(field.type)
    if field.default is not None and not isinstance(field.default, bool):
        text = f"{text} Default: {field.default}.".strip()
    if name.startswith("no-"):
        return click.option(f"--{name}", field.name, is_flag=True, default=None, help=text)
    if "bool" in kind:
        return option(f"--{name}/--no-{name} {field.name}", bool, text)
    if field.name in _CHOICES:
        types: click.ParamType | type = Choice(_CHOICES[field.name])
    elif "tuple" in kind:
        types = Numbers(int, "whole numbers", "N,N,…")
    else:
        types = str if "str" in kind else float if "float" in kind else int
    return option(f"--{name} {field.name}", types, text)
