"""What every command has: examples in its --help, --quiet, colours where a terminal has them."""

import logging
import os
import shlex
from typing import Any

import click
from click.shell_completion import CompletionItem

from kbert.graph import aliases
from kbert.io import progress
from kbert.io.wording import hint, hint_of_path

FROM_FILE = "kbert.settings"  # in click's context: the file of a --settings, by parameter
_CLOSE_OPTION = 0.72  # similarity; below it are options that mean something else
# Arguments that are texts, not paths.
_TEXTS = {"text", "texts", "pair", "a", "b", "query", "question", "context"}


class _Formatter(click.HelpFormatter):
    """Help with headings in bold and names in colour, which click leaves out of pipes."""

    def write_heading(self, heading: str) -> None:
        super().write_heading(click.style(heading, bold=True))

    def write_dl(self, rows, *arguments, **options) -> None:
        coloured = []
        for name, text in rows:
            coloured_name = click.style(name, fg="cyan")
            coloured.append((coloured_name, text))
        super().write_dl(coloured, *arguments, **options)


class _Context(click.Context):
    formatter_class = _Formatter


def command(short_help: str, *examples: str, basic: str = "", cls: type | None = None):
    """Make a function a command, as `click.command` does.

    `short_help` is its line in `kbert --help`; examples are lines of a shell, of 76 characters at
    most. `basic` names the parameters that the help shows first; the others are "Advanced options".
    `cls` is its class, if it is not `Command`.
    """
    names = tuple(basic.split())
    return click.command(cls=cls or Command, short_help=short_help, examples=examples, basic=names)


class Command(click.Command):
    """A command with examples in its --help; the arguments are those of `command`."""

    context_class = _Context

    def __init__(self, *arguments, examples: tuple[str, ...], basic: tuple[str, ...], **options):
        super().__init__(*arguments, **options)
        self.examples, self.basic = examples, basic
        quiet = click.Option(
            ["-q", "--quiet"],
            is_flag=True,
            expose_value=False,
            is_eager=True,
            callback=lambda context, _, quiet: quiet and context.with_resource(progress.silent()),
            help="Print no progress messages.",
        )
        self.params.append(quiet)

    def parse_args(self, ctx, args):
        if not ctx.resilient_parsing:  # as where the shell completes a line
            args = self._rename_old_options(ctx, args)
        try:
            return super().parse_args(ctx, args)
        except click.MissingParameter as error:
            text = f"Example: {self.example}"
            raise click.MissingParameter(text, error.ctx, error.param) from None
        except click.BadParameter as error:  # a choice of an older release
            option = error.param.opts[0] if error.param else ""
            new_value = aliases.table()["option"].get(f"{self.name} {option.lstrip('-')}")
            if not new_value:
                raise
            text = f"{error.message} What {option} was in older releases is called {new_value}."
            raise click.BadParameter(text, error.ctx, error.param) from None

    def _rename_old_options(self, ctx, args: list[str]) -> list[str]:
        """Return the command line with options of older releases by their names now.

        Say each on stderr; raise a UsageError for an option by both of its names.
        """
        end = args.index("--") if "--" in args else len(args)
        names = [arg.partition("=")[0] for arg in args[:end]]
        known = _list_options(self.params)

        renamed = list(args)
        for index, old in enumerate(names):
            new = aliases.rename_old_option(self.name, old) if old.startswith("--") else None
            if new not in known:
                continue
            if new in names:
                raise click.UsageError(
                    f"got both {new} and {old}, its old name: leave {old} out", ctx
                )
            click.echo(f"kbert: the option {old} is called {new} now", err=True)
            renamed[index] = new + args[index].removeprefix(old)
        return renamed

    @property
    def example(self) -> str:
        """The first example with an argument or option, on one line."""
        examples = "\n".join(self.examples)
        lines = examples.replace("\\\n   ", "").splitlines()
        for line in lines:
            if len(line.split()) > 2:
                return line
        return lines[0]

    def invoke(self, ctx):
        self._warn_of_files(ctx)
        try:
            return super().invoke(ctx)
        except OSError as error:
            text = self._explain_file(error, ctx)
            if text is None:
                raise
            raise click.UsageError(text, ctx) from error

    def _warn_of_files(self, ctx) -> None:
        """Report a text that is the path of a file: its name is read, not the file."""
        has_lines = any("--lines" in param.opts for param in self.params)
        for param in self.params:
            if not isinstance(param, click.Argument) or param.name not in _TEXTS:
                continue

            value = ctx.params.get(param.name) or ()
            texts = (value,) if isinstance(value, str) else value
            for text in texts:
                if not os.path.isfile(text):
                    continue
                path = shlex.quote(text)
                takes_lines = has_lines and param.name == "texts"
                way = f"--lines {path}" if takes_lines else f'"$(cat {path})"'
                logging.getLogger("kbert").warning("%s is a file: give %s to read it", text, way)

    def _explain_file(self, error: OSError, ctx) -> str | None:
        """Name what gave the path that an error begins with: an option or an argument.

        kbert's own errors say what to do; for the system's, say what the option expects.
        """
        text = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        source = ctx.params.get("source")
        if text.startswith(f"{source!r} is a configuration without weights:"):
            from kbert.hub.names import find_release

            model = f"{ctx.command_path} {find_release(source)}"
            return f"{source!r} is a configuration without weights: give a model, as in {model}"

        origins = self._find_origins(text, ctx)
        named_origins = [origin for origin in origins if _has_name(origin[0], ctx)]
        if named_origins:
            origins = named_origins
        elif not error.filename:
            return None
        if not origins:
            return None

        names = dict.fromkeys(_name_origin(param, ctx) for param, _, _ in origins)
        param, value, path = origins[0]
        text = f"{path} ({' and '.join(names)}){text.removeprefix(path)}"
        if not error.filename:
            return text
        return text + self._suggest_path(error, param, value, ctx)

    def _find_origins(self, text: str, ctx) -> list[tuple[click.Parameter, Any, str]]:
        """Return the parameters with a path that an error begins with.

        Each stands with its value, and with the path as the error has it.
        """
        origins = []
        for param in self.params:
            if isinstance(param.type, click.Choice):
                continue

            values = ctx.params.get(param.name or "")
            if not isinstance(values, tuple):
                values = (values,)
            for value in values:
                path = str(value)
                if text.startswith("'"):
                    path = repr(path)
                if value and text.startswith((f"{path}:", f"{path} ")):
                    origins.append((param, value, path))
        return origins

    def _suggest_path(self, error: OSError, param: click.Parameter, value, ctx) -> str:
        """Return what to do about a path, as the end of the system's error."""
        if isinstance(error, FileNotFoundError):
            samples = getattr(param.type, "sample_names", ())
            near = hint_of_path(value, os.path.isfile, samples)
            if near:
                return f": {near}"

        file = ctx.meta.get(FROM_FILE, {}).get(param.name)
        if file:
            return f". A path in {file} counts from the folder of that file"
        if isinstance(param, click.Option):
            return f". Expected: {param.help}"
        return f". Example: {self.example}"

    def format_options(self, ctx, formatter) -> None:
        records: dict[str, list] = {"Options": [], "Advanced options": []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record is not None:
                is_basic = not self.basic or param.is_eager or param.name in self.basic
                records["Options" if is_basic else "Advanced options"].append(record)

        for heading, lines in records.items():
            if lines:
                with formatter.section(heading):
                    formatter.write_dl(lines)

    def format_epilog(self, ctx, formatter) -> None:
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"{'':>{formatter.current_indent}}{example}\n")


def _has_name(param: click.Parameter, ctx) -> bool:
    """Return whether a value was given by a name: by an option, or by a key in a file."""
    names_in_file = ctx.meta.get(FROM_FILE, {})
    return isinstance(param, click.Option) or param.name in names_in_file


def _name_origin(param: click.Parameter, ctx) -> str:
    """Return what gave a value: --train, SRC, or a key of a file of settings."""
    file = ctx.meta.get(FROM_FILE, {}).get(param.name)
    if file:
        return f"{param.name} in {file}"
    if isinstance(param, click.Option):
        return max(param.opts, key=len)
    return param.make_metavar(ctx).strip("[] …")


class Group(click.Group):
    """The commands, in the sections of its help: names of commands by heading."""

    context_class = _Context

    def __init__(self, *arguments, sections: dict[str, tuple[str, ...]], **options):
        super().__init__(*arguments, **options)
        self.sections = sections

    def resolve_command(self, ctx, args):
        name = args[0]
        if not ctx.resilient_parsing and self.get_command(ctx, name) is None:
            known = [*self.commands, *aliases.table()["command"]]
            way = aliases.find_way("no command", name) or hint(name, known, "")
            text = f"No such command {name!r}: {way or 'kbert --help lists the commands.'}"
            raise click.UsageError(text, ctx)
        return super().resolve_command(ctx, args)

    def get_command(self, ctx, cmd_name):
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            return command
        name = aliases.resolve("command", cmd_name)
        return super().get_command(ctx, name)

    def format_commands(self, ctx, formatter) -> None:
        width = max(len(name) for name in self.commands)
        limit = formatter.width - width - 6
        for heading, names in self.sections.items():
            lines = []
            for name in names:
                short_help = self.commands[name].get_short_help_str(limit)
                lines.append((f"{name:<{width}}", short_help))
            with formatter.section(heading):
                formatter.write_dl(lines)


class Choice(click.Choice):
    """A choice of names; an unknown one is answered with the closest."""

    def get_invalid_choice_message(self, value, ctx):
        text = super().get_invalid_choice_message(value, ctx)
        close = hint(value, self.choices, "", beginnings=True)
        return f"{text.removesuffix('.')}: {close}" if close else text


def explain_option(error: click.NoSuchOption) -> str:
    """Say what an unknown option is called here, or which option has a similar name."""
    name = error.option_name
    ctx = error.ctx or click.get_current_context()
    command_name = ctx.command.name
    params = ctx.command.get_params(ctx)
    text = f"No such option {name!r}"
    new = aliases.option(command_name, name)

    metavar = name.lstrip("-").upper()
    argument = _find_argument(params, {new, metavar}, ctx)
    if argument is not None:
        example = ctx.command.example if isinstance(ctx.command, Command) else ""
        return f"{text}: give {argument} without an option, as in {example}"

    has_config = any(param.name == "config" for param in params)
    way = aliases.no_option(command_name, name, has_config)
    if way:
        return f"{text}: {way}"

    options = _list_options(params)
    if new.split()[0] not in options:  # transformers' name, then one of this command
        new = aliases.option(command_name, new)
    if new.split()[0] in options:
        return f"{text}: it is called {new}."

    long = [opt[2:] for opt in options if opt[:2] == "--"]
    close = hint(name.lstrip("-"), long, "", "--", cutoff=_CLOSE_OPTION)
    return f"{text}: {close or f'{ctx.command_path} --help lists the options.'}"


def _find_argument(params: list[click.Parameter], names: set[str], ctx) -> str | None:
    """Return the name in the help of the first argument that has one of some names."""
    for param in params:
        if isinstance(param, click.Option):
            continue
        metavar = param.make_metavar(ctx).strip("[]")
        metavars = names & set(metavar.split())
        if metavars:
            return metavars.pop()
    return None


def _list_options(params: list[click.Parameter]) -> list[str]:
    """Return all spellings of the options among some parameters."""
    options: list[str] = []
    for param in params:
        if isinstance(param, click.Option):
            options += [*param.opts, *param.secondary_opts]
    return options


def colour() -> bool | None:
    """Return click's setting: False if NO_COLOR is set (no-color.org), None for terminals only."""
    return False if os.environ.get("NO_COLOR") else None


def presets_or_files(context, parameter, incomplete: str) -> list[CompletionItem]:
    """Complete CONFIG: names of presets, else files."""
    from kbert.graph.presets import PRESETS

    names = [name for name in PRESETS if name.startswith(incomplete)]
    if not names:
        return [CompletionItem(incomplete, type="file")]
    return [CompletionItem(name) for name in names]


def names_or_files(context, parameter, incomplete: str) -> list[CompletionItem]:
    """Complete SRC: names of models that kbert knows, else files and folders."""
    names = model_names(context, parameter, incomplete) if incomplete else []
    return names or [CompletionItem(incomplete, type="file")]


def model_names(context, parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a model that kbert knows: its short name, or owner/name."""
    from kbert.hub.names import list_known_models

    models = list_known_models().values()
    names = [(model["name"], model["use"]) for model in models]
    if incomplete:
        on_hugging_face = [model for model in models if ":" not in model["address"]]
        names += [(model["address"], model["use"]) for model in on_hugging_face]

    items = []
    for name, use in names:
        if name.startswith(incomplete):
            items.append(CompletionItem(name, help=use))
    return items
