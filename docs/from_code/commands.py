"""Every command with its options and examples, as click has them."""

import inspect
import re

import click

from from_code.table import table
from kbert.cli.main import SECTIONS, cli


def page() -> str:
    parts = []
    for heading, names in SECTIONS.items():
        parts.append(f"## {heading}")
        parts += [_command(name, cli.commands[name]) for name in names]
    return "\n\n".join(parts) + "\n"


def _command(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=f"kbert {name}", **cli.context_settings)
    usage = " ".join(command.collect_usage_pieces(context))
    examples = "\n".join(command.examples)
    return "\n\n".join(
        [
            f"### kbert {name}",
            f"```text\nkbert {name} {usage}\n```",
            _paragraphs(command.help or command.short_help),
            f"Examples:\n\n```text\n{examples}\n```",
            *_tables(command, context),
        ]
    )


def _tables(command: click.Command, context: click.Context) -> list[str]:
    """The basic options, then the advanced ones, as in `--help`."""
    basic, advanced = [], []
    for parameter in command.params:
        if option := _option(parameter, context):
            is_basic = not command.basic or parameter.name in command.basic
            (basic if is_basic else advanced).append(option)
    titles = ("option", "advanced option")
    pairs = zip(titles, (basic, advanced), strict=True)
    return [table((title, "what it does"), options) for title, options in pairs if options]


def _option(option: click.Parameter, context: click.Context) -> tuple[str, str] | None:
    """An option's line in `--help`. An argument has its name in the usage, and no line."""
    if isinstance(option, click.Argument):
        return None
    name, said = option.get_help_record(context)
    return f"`{name}`", plain(said or f"Default: {option.default}.")


def _paragraphs(text: str) -> str:
    return "\n\n".join(_paragraph(part) for part in text.split("\n\n"))


def _paragraph(text: str) -> str:
    """Lines flow together, but for those below click's own sign for lines that stay."""
    if text.lstrip().startswith("\b"):
        return f"```text\n{inspect.cleandoc(text.split(chr(8))[1].lstrip(chr(10)))}\n```"
    return plain(" ".join(text.split()))


def plain(text: str) -> str:
    """click's plain text in Markdown: no markup but what stands between backticks, and options."""
    kept = text.split("`")
    for place in range(0, len(kept), 2):
        for sign in "\\*_[]<>$":
            kept[place] = kept[place].replace(sign, f"\\{sign}")
        kept[place] = re.sub(r"(?<![\w-])--[a-z][a-z-]+", r"`\g<0>`", kept[place])
    return "`".join(kept)
