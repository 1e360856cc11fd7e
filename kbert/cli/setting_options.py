"""A run's settings as options of its command, from the fields of a dataclass and their texts."""

import dataclasses
import functools
import re
from collections.abc import Container, Mapping, Sequence
from types import MappingProxyType

import click

from kbert.cli.command import Choice
from kbert.cli.options import Names, Numbers, option, takes
from kbert.training.settings.run_settings import RunOptions, RunSettings
from kbert.training.settings.setting_rules import RULES, check_settings
from kbert.training.settings.setting_texts import Text, describe_fields, list_fields

Settings = type[RunSettings] | type[RunOptions]
_TRAINED = ("freeze", "lora_rank", "lora_targets")
_WIDEST_CHOICES = 60  # characters, of a line of 80 with the option
_RUN_OPTIONS = (
    "devices",
    "steps_per_execution",
    "peak_flops",
    "keep_checkpoints",
    "report_examples",
    "profile",
)


def add_settings(
    kind: type[RunSettings],
    *names: str,
    without: Container[str] = (),
    choices: Mapping[str, type[Choice]] = MappingProxyType({}),
):
    """Return a decorator that adds an option for each field, in their order.

    `names` are the fields; none: all, but for `without`. An option that is not given is None, so
    that `--resume` can tell. `choices` are the types of some fields that have names.
    """
    names = names or tuple(name for name in list_fields(kind) if name not in without)
    return _add_options(kind, names, choices)


def add_run_options(command):
    """Add the options of `RunOptions`, which the command gets by name as `run_options`."""
    # progress has no option, but may be in a settings file
    return _add_group(command, "run_options", RunOptions, _RUN_OPTIONS, also=["progress"])


def partial_training(command):
    """Add the options of what is trained, which the command gets by name as `trained`."""

    @functools.wraps(command)
    def run(trained, **others):
        targets = trained["lora_targets"]
        if targets is not None and trained["lora_rank"] is None:
            raise click.UsageError(f"--lora-targets goes with --lora-rank, got {targets} alone")
        chosen = {name: value for name, value in trained.items() if value is not None}
        return command(trained=chosen, **others)

    return _add_group(run, "trained", RunSettings, _TRAINED)


def select_settings(settings: dict, run_options: dict) -> dict:
    """Return the settings, checked before anything heavy starts; None is a setting's own value."""
    values = settings | run_options
    chosen = {name: value for name, value in values.items() if value is not None}
    check_settings(chosen)
    return settings


def _add_group(command, group: str, kind: Settings, names: Sequence[str], also: Sequence[str] = ()):
    """Add options, which the command gets by name in one dict, the argument `group`.

    The dict has the values of the names `also`, too, if there are any.
    """

    @functools.wraps(command)
    def run(**others):
        values = {}
        for name in (*names, *also):
            if name in others:
                values[name] = others.pop(name)
        return command(**{group: values}, **others)

    return _add_options(kind, names)(run)


def _add_options(
    kind: Settings,
    names: Sequence[str],
    choices: Mapping[str, type[Choice]] = MappingProxyType({}),
):
    """Return a decorator that adds options; the arguments are those of `add_settings`."""
    texts, fields = describe_fields(kind), list_fields(kind)
    options = []
    for name in names:
        help_text = _write_help(texts[name])
        choice = choices.get(name, Choice)
        options.append(_make_option(fields[name], help_text, choice))
    return takes(*options)


def _write_help(text: Text) -> str:
    """Return a setting's text for the command line, where `name` is --name."""
    none = text.none.replace("None:", "Default:")
    help_text = text._replace(none=none).join("what", "none")
    help_text = help_text[0].upper() + help_text[1:]
    return re.sub(r"`(\w+)`", lambda match: f"--{match[1].replace('_', '-')}", help_text)


def _make_option(field: dataclasses.Field, text: str, choice: type[Choice]):
    """Return a field's option, with `text` as its help; `choice` is the type of names."""
    name = f"--{field.name.replace('_', '-')}"
    kind = str(field.type)
    default = field.default
    has_default = default is not False and default not in (None, dataclasses.MISSING)
    if has_default and "Default:" not in text:
        text += f" Default: {'yes' if default is True else default}."

    if name.startswith("--no-"):
        return click.option(name, is_flag=True, default=None, help=text)
    if "bool" in kind:
        return option(f"{name}/--no-{name[2:]}", bool, text)

    choices = RULES[field.name].names
    if not choices:
        return option(name, _find_value_type(kind), text)
    if len("|".join(choices)) > _WIDEST_CHOICES:
        name = f"{name} NAME"
        first, heading, rest = text.partition(" Default:")
        text = f"{first} One of {', '.join(choices)}.{heading}{rest}"
    return option(name, choice(choices), text)


def _find_value_type(kind: str) -> type | click.ParamType:
    """Return the type of an option's values, by the type of its field as text."""
    if "tuple[str" in kind:
        return Names()
    if "tuple" in kind:
        return Numbers(int, "whole numbers", "N,N,…")
    if "str" in kind:
        return str
    return float if "float" in kind else int
