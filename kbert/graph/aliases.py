"""Other libraries' names for kbert's functions and options: accepted, or answered with a hint.

The table is aliases.tsv; `kbert.heads` has those of heads and of their tasks. Aliases of heads,
tasks and commands are accepted, and so is transformers' class name
("BertForSequenceClassification"). So are the names that arguments and options had in older releases
of kbert. Any other name raises an error with the right call.
"""

import inspect
import logging
import re
from collections.abc import Callable, Collection
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar

from kbert.heads import HEADS
from kbert.io.row_formats import read_package_table
from kbert.io.wording import hint

P = ParamSpec("P")
R = TypeVar("R")
_logger = logging.getLogger("kbert")
_FEW_OPTIONS = 12  # that an error lists
_CLASS = re.compile(
    r"(?:\w*?[Bb]erta?|Data2VecText|Auto)(?:(?:Model)?For)?([A-Z]\w+)"
)  # and what it is for


class OptionError(TypeError, ValueError):
    """A keyword that a function does not have; Python itself would raise a TypeError."""


@cache
def table() -> dict[str, dict[str, str]]:
    """Return the meaning of each alias, by what it is an alias of."""
    meanings: dict[str, dict[str, str]] = {"head": {}, "task": {}}
    for name, head in HEADS.items():
        for alias in head.aliases:
            meanings["head"][alias] = name
            if head.task and alias != head.task:
                meanings["task"][alias] = head.task

    for noun, alias, meaning in read_package_table("kbert.graph", "aliases.tsv"):
        meanings.setdefault(noun, {})[alias] = meaning
    return meanings


def resolve(noun: str, name: Any) -> Any:
    """Return kbert's name for a "head", "task" or "command"; another name is returned unchanged."""
    if not isinstance(name, str):
        return name
    aliases = table()[noun]
    return aliases.get(_plain(name), name)


def find_way(noun: str, name: Any) -> str | None:
    """Return what to do for "no task" such as "fill-mask", or "no command" such as "resume"."""
    if not isinstance(name, str):
        return None
    aliases = table()[noun]
    return aliases.get(_plain(name))


def no_option(command: str | None, name: str, has_config: bool) -> str | None:
    """Return what to do instead of an option that a command does not have, such as --layers."""
    plain = name.lstrip("-").replace("-", "_")
    hints = table()["no option"]
    hint_of_command = hints.get(f"{command} {plain}")
    if hint_of_command:
        return hint_of_command
    return hints.get(plain) if has_config else None


def setting(name: str) -> str | None:
    """Return what kbert calls a setting of another library or of an older release."""
    new_name = table()["setting"].get(name)
    return new_name or table()["old setting"].get(name)


def option(command: str | None, name: str) -> str:
    """Return what kbert calls a command's option, such as "--output" for "--output_dir".

    A name in capitals, such as SRC, is an argument.
    """
    plain = name.lstrip("-").replace("-", "_")
    options = table()["option"]
    new = options.get(f"{command} {plain}") or options.get(plain)
    if new:
        return new

    no = "no_" if plain.startswith("no_") else ""
    name_of_setting = plain.removeprefix(no)
    new = no + (setting(name_of_setting) or name_of_setting)
    return "--" + new.replace("_", "-")


def rename_options(owner: str, options: dict, known: Collection[str]) -> dict:
    """Return the keyword arguments of a function by the names that it knows.

    The name of an older release is accepted, and the log has the new one. Any other unknown name
    raises an OptionError with the right name or the closest one.
    """
    read = {}
    for name, value in options.items():
        new = name if name in known else _find_new_name("old name", owner, name)
        if new not in known:
            raise OptionError(f"{owner} has no option {name!r}: {_find_option(owner, name, known)}")
        if new != name and new in options:
            raise OptionError(f"{owner} got {name!r} and {new!r}, its new name: give {new} alone")

        if new != name:
            _logger.warning("%s: the option %s is now called %s", owner, name, new)
        read[new] = value
    return read


def rename_old_option(command: str | None, option: str) -> str | None:
    """Return the name now of a command's option in older releases; None: it is none."""
    new = _find_new_name("old option", command, option.removeprefix("--").replace("-", "_"))
    return new and "--" + new.replace("_", "-")


def _find_new_name(noun: str, owner: str | None, name: str) -> str | None:
    """Return the name now of an argument or an option, or of a setting, in older releases."""
    new_name = table()[noun].get(f"{owner} {name}")
    return new_name or table()["old setting"].get(name)


def _find_option(owner: str, name: str, known: Collection[str]) -> str:
    """Return what to give instead of an option that a function does not have."""
    new = setting(name) or name
    if new in known:
        return f"it is called {new}"

    way = table()["no option"].get(f"{owner} {name}")
    everything = "there are" if len(known) <= _FEW_OPTIONS else ""
    return way or hint(new, known, everything) or f"help(kbert.{owner}) lists them"


def answer_old_names(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function: it answers keywords that it does not have, see `rename_options`."""
    names = inspect.signature(function).parameters
    function_name = function.__qualname__.removesuffix(".__init__")

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        if not options.keys() <= names.keys():
            return function(*args, **rename_options(function_name, options, names))
        return function(*args, **options)

    old_names = table()["old setting"].items()
    call.old_settings = {  # type: ignore[attr-defined]  # the documentation lists them
        old: new for old, new in old_names if new in names
    }
    return call


def refuse_attribute(owner: str, name: str, known: Collection[str]) -> NoReturn:
    """Raise an AttributeError with the right call or a close name, of those that are known.

    The owner is "kbert", "types", "Bert" or "Tokenizer".
    """
    way = table().get(owner, {}).get(name)
    head = resolve("head", name)
    if owner == "kbert" and not way and head != name and head in HEADS:  # transformers' class
        builder = HEADS[head].public_builder
        call = f"kbert.{builder}(config)" if builder else f'kbert.build_bert(config, head="{head}")'
        way = f'kbert.load(path, head="{head}") opens a checkpoint, {call} builds a new model'
    if not way and not name.startswith("_"):
        way = hint(name, known, "")

    what = "module 'kbert'" if owner == "kbert" else f"kbert.{owner}"
    message = f"{what} has no attribute {name!r}"
    raise AttributeError(f"{message}: {way}" if way else message)


def _plain(name: str) -> str:
    """Return a name in lower case with hyphens; of a class's name, what the class is for."""
    match = _CLASS.fullmatch(name)
    if match:
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", match[1])
    return name.lower().replace("_", "-").replace(" ", "-")


class _AnsweringClass(type):
    """The class of `Answering`: the class itself answers too, as for `Bert.from_pretrained`."""

    if not TYPE_CHECKING:  # else no name would be unknown to type checkers

        def __getattr__(cls, name: str) -> Any:
            refuse_attribute(cls.__name__, name, dir(cls))


class Answering(metaclass=_AnsweringClass):
    """A base class that answers other libraries' method names with the right call."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            cls = type(self)
            refuse_attribute(cls.__name__, name, dir(cls))

        def __call__(self, *arguments, **options):
            name = type(self).__name__
            raise TypeError(f"a kbert.{name} cannot be called: use {table()[name]['()']}")
