"""Texts of settings: one text for `help()`, the option on the command line and the pages.

A setting is a field of a dataclass, such as `RunSettings`. Its text is in the "Args" of the class's
docstring; its type and default are the field's.
"""

import dataclasses
import inspect
import re
import textwrap
from collections.abc import Callable, Container, Sequence
from typing import Any, NamedTuple, TypeVar

from kbert.training.settings.run_settings import RunOptions
from kbert.training.settings.setting_rules import RULES

F = TypeVar("F", bound=Callable)
T = TypeVar("T")
_ENTRY = re.compile(r"^    (\w+): (.+(?:\n {8}.+)*)", re.M)
_SENTENCE_END = re.compile(r"\.\s+(?=[A-Z\"`])")
_WIDTH = 76  # of a docstring, which help() indents by 4
_NO_BREAK = "\N{NO-BREAK SPACE}"


def list_fields(kind: type[Any]) -> dict[str, dataclasses.Field]:
    """Return the fields of a dataclass by name, in the order of signatures and of --help."""
    fields = kind.fields() if hasattr(kind, "fields") else dataclasses.fields(kind)
    return {field.name: field for field in fields}


class Text(NamedTuple):
    """The text of a setting, in sentences without the last point; "" for one that is not there.

    Attributes:
        what: what the setting is.
        values: its values, where they are names.
        none: what None means, if that is the default.
    """

    what: str
    values: str
    none: str

    def join(self, *names: str) -> str:
        """Return some of the sentences, by the names of the attributes."""
        sentences = [getattr(self, name) for name in names]
        return "".join(f"{sentence}. " for sentence in sentences if sentence).rstrip()


def describe_fields(kind: type[Any]) -> dict[str, Text]:
    """Return the texts of a dataclass's fields by name, from the "Args" of its docstrings.

    `Text.what` is the first sentence there, `values` the one that begins with a quotation mark, and
    `none` the one that begins with "None:".
    """
    entries: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        entries |= _ENTRY.findall(inspect.cleandoc(base.__doc__ or ""))

    texts = {}
    for name, field in list_fields(kind).items():
        entry = " ".join(entries[name].split())
        entry = entry.removesuffix(".")
        what, *sentences = _SENTENCE_END.split(entry)
        values = _find_sentence(sentences, '"')
        none = _find_sentence(sentences, "None:") if field.default is None else ""
        texts[name] = Text(what, values, none)
    return texts


def _find_sentence(sentences: Sequence[str], beginning: str) -> str:
    """Return the first sentence with a beginning; "" without one."""
    return next((text for text in sentences if text.startswith(beginning)), "")


def collect(kind: type[T], arguments: dict[str, Any]) -> T:
    """Return a dataclass with the values that its fields have among a function's arguments."""
    values = {name: arguments[name] for name in list_fields(kind)}
    return kind(**values)


def inherit_settings(*functions: Callable) -> Callable[[F], F]:
    """Return a decorator for a function with **settings: they are the keyword arguments of others.

    Settings are None by default, which is the value of a run; `RunOptions` stand behind them.
    """

    def decorate(function: Any) -> Any:
        run_options = list_fields(RunOptions)
        signature = inspect.signature(function)
        parameters = dict(signature.parameters)
        parameters.popitem()  # **settings
        for other in functions:
            for name, parameter in inspect.signature(other).parameters.items():
                if name in run_options:
                    parameters.setdefault(name, parameter)
                elif name in RULES:
                    kind = inspect.formatannotation(parameter.annotation).strip("'")
                    kind = f"{kind.removesuffix(' | None')} | None"
                    inherited = parameter.replace(default=None, annotation=kind)
                    parameters.setdefault(name, inherited)
        ordered = sorted(parameters.values(), key=lambda one: one.name in run_options)
        returned = signature.return_annotation
        function.__signature__ = _Signature(ordered, return_annotation=returned)
        return function

    return decorate


def document(
    *kinds: type[Any], without: Container[str] = (), inherited: bool = False
) -> Callable[[F], F]:
    """Return a decorator that describes settings in a docstring, at the end of its "Args".

    It describes the function's arguments that are fields of the dataclasses `kinds`, with the types
    and defaults of the function's signature. If they are `inherited`, None is the value of a run,
    not what it is for the dataclass.
    """

    def decorate(function: Any) -> Any:
        if not function.__doc__:  # `python -OO` leaves docstrings out
            return function

        texts: dict[str, Text] = {}
        for kind in kinds:
            texts |= describe_fields(kind)

        sentences = ["what", "values"] if inherited else ["what", "values", "none"]
        signature = _Signature.from_callable(function)
        entries = []
        for name, parameter in signature.parameters.items():
            if name in texts and name not in without:
                text = texts[name].join(*sentences)
                entries.append(_write_entry(parameter, text))

        docstring = inspect.cleandoc(function.__doc__)
        arguments, returns, rest = docstring.partition("\n\nReturns:")
        function.__doc__ = "\n".join([arguments, *entries]) + returns + rest
        function.__signature__ = signature
        return function

    return decorate


def _write_entry(parameter: inspect.Parameter, text: str) -> str:
    """Return the lines of a docstring that describe an argument."""
    kind = inspect.formatannotation(parameter.annotation).strip("'")
    kind = kind.replace("collections.abc.", "")
    if parameter.default is not parameter.empty:
        kind += f", default {parameter.default!r}"

    # in one line, however long: Sphinx reads a type from one line only
    name_and_type = f"{parameter.name} ({kind}):".replace(" ", _NO_BREAK)
    wrapper = textwrap.TextWrapper(
        _WIDTH,
        initial_indent=" " * 4,
        subsequent_indent=" " * 8,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return wrapper.fill(f"{name_and_type} {text}").replace(_NO_BREAK, " ")


class _Signature(inspect.Signature):
    """A signature that `help()` prints with one argument per line, as Python 3.13 does itself."""

    def __str__(self) -> str:
        lines = []
        for parameter in self.parameters.values():
            if parameter.kind is parameter.KEYWORD_ONLY and "*" not in lines:
                lines.append("*")
            lines.append(str(parameter).replace("collections.abc.", ""))
        arguments = "".join(f"    {line},\n" for line in lines)
        return f"(\n{arguments}) -> {inspect.formatannotation(self.return_annotation)}"
