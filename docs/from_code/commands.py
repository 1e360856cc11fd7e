"""Every command with its arguments, options and examples, as click has them."""

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
    context = click.Context(command, info_name=f"kbert {name}")
    usage = " ".join(command.collect_usage_pieces(context))
    examples = "\n".join(command.examples)
    options = [_option(option, context) for option in command.params]
    return "\n\n".join(
        [
            f"(command-{name})=\n### kbert {name}",
            f"```text\nkbert {name} {usage}\n```",
            _paragraphs(command.help or command.short_help),
            table(("option", "what it does"), filter(None, options)),
            f"```text\n{examples}\n```",
        ]
    )


def _option(option: click.Parameter, context: click.Context) -> tuple[str, str] | None:
    """An option's line in `--help`; arguments have none."""
    record = option.get_help_record(context)
    return (f"`{record[0]}`", plain(record[1])) if record else None


def _paragraphs(text: str) -> str:
    return "\n\n".join(plain(" ".join(part.split())) for part in text.split("\n\n"))


def plain(text: str) -> str:
    """click's plain text in Markdown: nothing of it is markup but what stands between backticks."""
    kept = text.split("`")
    for place in range(0, len(kept), 2):
        for sign in "\\*_[]<>$":
            kept[place] = kept[place].replace(sign, f"\\{sign}")
    return "`".join(kept)
