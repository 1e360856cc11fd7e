"""A run's settings as options of its command, from the fields of a dataclass and its docstring."""

import dataclasses
import functools
import inspect
import re
from collections.abc import Container, Sequence

import click

from kbert.cli.command import Choice
from kbert.cli.options import Names, Numbers, option, takes
from kbert.training.run_settings import RunOptions, RunSettings
from kbert.training.setting_rules import RULES, check_settings

Settings = type[RunSettings] | type[RunOptions]
_TRAINED = ("freeze", "lora_rank", "lora_targets")
_RUN_OPTIONS = ("devices", "steps_per_execution", "peak_flops", "keep_checkpoints")
_ENTRY = re.compile(r"^    (\w+): (.+(?:\n {8}.+)*)", re.M)
_SENTENCE_END = re.compile(r"\.\s+(?=[A-Z\"`])")


def describe_fields(kind: Settings) -> dict[str, str]:
    """Return the help of a dataclass's fields by name, from the "Args" of its docstrings.

    It is the first sentence of each, and where the default is None, the one that begins with
    "None:". `name` becomes --name.
    """
    texts = {}
    optional = {field.name for field in dataclasses.fields(kind) if field.default is None}
    for base in reversed(kind.__mro__):
        for name, entry in _ENTRY.findall(inspect.cleandoc(base.__doc__ or "")):
            first, *others = _SENTENCE_END.split(" ".join(entry.split()).removesuffix("."))
            text = first[0].upper() + first[1:]
            for one in others:
                if one.startswith("None:") and name in optional:
                    text += f". Default{one[4:]}"
            texts[name] = re.sub(
                r"`(\w+)`", lambda found: f"--{found[1].replace('_', '-')}", f"{text}."
            )
    return texts


def add_settings(kind: type[RunSettings], *names: str, without: Container[str] = ()):
    """Return a decorator that adds an option for each field, in their order.

    `names` are the fields; none: all, but for `without`. An option that is not given is None, so
    that `--resume` can tell.
    """
    own = [one.name for one in kind.fields() if one.name not in without]
    return _add_options(kind, names or own)


def add_run_options(command):
    """Add the options of `RunOptions`, which the command gets by name as `run_options`."""

    @functools.wraps(command)
    def run(**others):
        # progress may stand in a file of settings
        names = [name for name in (*_RUN_OPTIONS, "progress") if name in others]
        run_options = {name: others.pop(name) for name in names}
        return command(run_options=run_options, **others)

    return _add_options(RunOptions, _RUN_OPTIONS)(run)


def partial_training(command):
    """Add the options of what is trained, which the command gets by name as `trained`."""

    @functools.wraps(command)
    def run(**others):
        trained = {name: others.pop(name) for name in _TRAINED}
        if (targets := trained["lora_targets"]) is not None and trained["lora_rank"] is None:
            raise click.UsageError(f"--lora-targets goes with --lora-rank, got {targets} alone")
        trained = {name: value for name, value in trained.items() if value is not None}
        return command(trained=trained, **others)

    return _add_options(RunSettings, _TRAINED)(run)


def select_settings(settings: dict, run_options: dict) -> dict:
    """Return the settings, checked before anything heavy starts; None is a setting's own value."""
    values = settings | run_options
    check_settings({name: value for name, value in values.items() if value is not None})
    return settings


def _add_options(kind: Settings, names: Sequence[str]):
    texts, fields = describe_fields(kind), {one.name: one for one in dataclasses.fields(kind)}
    return takes(*(_make_option(fields[name], texts[name]) for name in names))


def _make_option(field: dataclasses.Field, text: str):
    name, kind = f"--{field.name.replace('_', '-')}", str(field.type)
    has_default = field.default is not False and field.default not in (None, dataclasses.MISSING)
    if has_default and "Default:" not in text:
        text += f" Default: {'yes' if field.default is True else field.default}."
    if name.startswith("--no-"):
        return click.option(name, is_flag=True, default=None, help=text)
    if "bool" in kind:
        return option(f"{name}/--no-{name[2:]}", bool, text)
    if choices := RULES[field.name].names:
        return option(name, Choice(choices), text)
    if "tuple[str" in kind:
        return option(name, Names(), text)
    if "tuple" in kind:
        return option(name, Numbers(int, "whole numbers", "N,N,…"), text)
    return option(name, str if "str" in kind else float if "float" in kind else int, text)
