"""One file that describes a run: `--settings` reads it, `--print-settings` prints it.

The keys are the names of the arguments of `kbert.finetune` or `kbert.pretrain`. The command line's
values replace the file's. Relative paths count from the file's folder.
"""

import dataclasses
import functools
import json
import os
import tomllib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, get_args

import click

from kbert.cli.command import FROM_FILE
from kbert.cli.console import starting_keras
from kbert.cli.options import Input, option, takes
from kbert.graph import aliases
from kbert.graph.config import BertConfig
from kbert.graph.presets import PRESETS
from kbert.io import bounds
from kbert.io import json_schema as js
from kbert.io.wording import hint
from kbert.training.settings.run_settings import RunOptions, RunSettings
from kbert.training.settings.setting_rules import check_settings
from kbert.training.settings.user_objects import name_missing_functions

DEFAULT_CONFIG = "tiny"  # of kbert.pretrain without init
LARGEST = 2**18  # bytes of YAML or TOML; PyYAML reads so many in a second
ENDINGS = (".yaml", ".yml", ".json", ".toml")
_PATHS = ("train", "dev", "shards", "output")  # the other arguments are names or paths
_EXPECTED = {"task": "a name"} | dict.fromkeys(_PATHS, "a path")
_OBJECTS = "callbacks"  # which no file has
_NO_ARGUMENTS = ("run", "settings_file", "print_settings")  # of the commands' parameters
_MAPPING = js.Kind("settings by name, such as epochs: 3", lambda value: isinstance(value, dict))
_TRUTHS = {"yes": True, "on": True, "no": False, "off": False}  # as YAML 1.1 has them

_SETTINGS = option(
    "--settings settings_file FILE",
    Input(),
    "File with arguments and options by their names in Python: .yaml, .json or .toml, or the "
    "settings.json of a run. Values on the command line replace those of the file.",
)
_PRINT = option(
    "--print-settings",
    bool,
    "Print all arguments and options as YAML for --settings, and start nothing.",
    is_eager=True,
)


def add_settings_file(kind: type[RunSettings], check: Callable[[Any, Mapping], None]):
    """Return a decorator that adds --settings and --print-settings to a command.

    The command gets the settings that the file or the command line has, and all other arguments,
    with None for those that neither has. `check` raises a ValueError for settings, of `kind`, that
    do not go with the arguments, which it gets by name.
    """

    def decorate(command):
        @functools.wraps(command)
        def run(settings_file, print_settings, **params):
            ctx = click.get_current_context()
            _refuse_with_resume(params["run"], settings_file, print_settings)
            arguments = _Arguments(ctx, kind, check)
            chosen = {name: value for name, value in params.items() if value is not None}
            values: dict[str, Any] = {}
            if settings_file is not None:
                values = arguments.read(settings_file, chosen, absolute=bool(print_settings))
            if settings_file is not None or print_settings:
                arguments.check_together(values, chosen, settings_file)

            if print_settings:
                located = arguments.locate(chosen)
                click.echo(arguments.describe(values | located), nl=False)
                return
            if settings_file is not None:
                values = arguments.convert(values, settings_file)
                ctx.meta[FROM_FILE] = {name: settings_file for name in values if name not in chosen}
                chosen = values | chosen
                ctx.params.update(chosen)

            missing = dict.fromkeys(name for name in params if name not in arguments.settings)
            command(**missing | chosen)

        return takes(_SETTINGS, _PRINT)(run)

    return decorate


def _refuse_with_resume(run, settings_file, print_settings) -> None:
    """Raise a UsageError for options of a new run, which a resumed run has in its folder."""
    options = {"--settings": settings_file, "--print-settings": print_settings or None}
    for name, value in options.items():
        if run is not None and value is not None:
            raise click.UsageError(
                f"{name} cannot be given with --resume: leave it out, the run has its own settings"
            )


class _Arguments:
    """The arguments and options of a command, which a file may have.

    Attributes:
        names: the command's arguments: a model, a task and paths.
        settings: the fields of its settings, by name.
    """

    def __init__(self, ctx: click.Context, kind: type[RunSettings], check):
        self._ctx = ctx
        self._kind = kind
        self._check = check
        self._params = {param.name or "": param for param in ctx.command.params}
        self.settings = {field.name: field for field in kind.fields()}

        order = {name: number for number, name in enumerate(self._params)}
        run_options = [field for field in dataclasses.fields(RunOptions) if field.name != _OBJECTS]
        run_options.sort(key=lambda field: order.get(field.name, len(order)))
        self._fields = self.settings | {field.name: field for field in run_options}
        self._required = {
            name for name, field in self._fields.items() if field.default is dataclasses.MISSING
        }

        options = {*self._fields, *_NO_ARGUMENTS}
        self.names = [
            name
            for name, param in self._params.items()
            if param.expose_value and name not in options
        ]

    def read(self, file: Path, replaced: Collection[str], absolute: bool) -> dict[str, Any]:
        """Return the values of a file, checked, with its paths from the working folder.

        `replaced` are the names that the command line has. `absolute`: with absolute paths, and
        without checks that need Keras.
        """
        folder = file.parent.absolute() if absolute else file.parent
        values = self._take_run(read_mapping(file), file)
        values = self._leave_out_functions(values, replaced, file)

        read = {}
        for name, value in values.items():
            try:
                read[name] = self._read_value(name, value, folder, with_objects=not absolute)
            except (ValueError, TypeError) as error:
                raise ValueError(f"{file}: {error}") from None

        for name in (*self.names, *self._required):
            if read.get(name, "") is None:
                del read[name]
        return read

    def _read_value(self, name: str, value, folder: Path, with_objects: bool):
        """Return the checked value of a key; `with_objects` is as for `_check`."""
        if name in self.names:
            return None if value is None else self._locate(name, value, folder)
        if name not in self._fields:
            self._refuse_key(name)
        return _check(self._fields[name], value, with_objects)

    def locate(self, values: dict) -> dict[str, Any]:
        """Return values of the command line with absolute paths."""
        located = dict(values)
        for name, value in values.items():
            if name in self.names:
                located[name] = self._locate(name, os.fspath(value), Path.cwd())
        return located

    def convert(self, values: dict, file: Path) -> dict[str, Any]:
        """Return the values of a file, with arguments as the command gets them."""
        converted = dict(values)
        for name in self.names:
            try:
                if isinstance(values.get(name), str):
                    converted[name] = self._convert(name, values[name])
                elif isinstance(values.get(name), dict):
                    converted[name] = BertConfig.from_dict(values[name], source=name)
            except ValueError as error:
                raise ValueError(f"{file}: {error}") from None
        return converted

    def _convert(self, name: str, text: str):
        """Return an argument as the command gets it; raise a ValueError that names it."""
        param = self._params[name]
        try:
            return param.type.convert(text, param, self._ctx)
        except click.BadParameter as error:
            raise ValueError(f"{name}: {error.message}") from None

    def describe(self, values: dict) -> str:
        """Return all arguments and options as YAML, with their defaults, in the order of --help."""
        from kbert.cli import yaml_text

        defaults: dict = dict.fromkeys(self.names)
        if "config" in self.names and values.get("init") is None:
            defaults["config"] = DEFAULT_CONFIG
        for name, field in self._fields.items():
            defaults[name] = None if field.default is dataclasses.MISSING else field.default

        command = self._ctx.command_path
        call = command.replace(" ", ".")
        title = f"# {command} --settings FILE; help({call}) in Python explains each line\n"
        plain_values = json.loads(json.dumps(defaults | values))  # a tuple becomes a list
        return title + yaml_text.dump(plain_values)

    def check_together(self, values: dict, chosen: dict, file: Path | None) -> None:
        """Raise a ValueError for settings that break a rule or contradict each other.

        `values` are those of a file, `chosen` those of the command line. What needs the data, or an
        object of Keras, is not checked.
        """
        arguments = values | chosen
        plain = {
            name: value
            for name, value in arguments.items()
            if name in self._fields and value is not None and not _has_keras_object(value)
        }
        settings = {name: value for name, value in plain.items() if name in self.settings}

        try:
            check_settings(plain)
            if self._required <= set(settings):
                self._check(self._kind.from_options(settings), arguments)
        except ValueError as error:
            setting = str(error).split()[0].rstrip(":")
            is_of_file = setting in values and setting not in chosen
            raise ValueError(f"{file}: {error}" if is_of_file else str(error)) from None

    def _leave_out_functions(self, values: dict, replaced: Collection[str], file: Path) -> dict:
        """Return values without functions that are replaced; raise a ValueError for others."""
        functions = name_missing_functions(values)
        needed = {name: text for name, text in functions.items() if name not in replaced}
        if needed:
            listed = ", ".join(f"{name}={text}" for name, text in needed.items())
            raise ValueError(
                f"{file}: {' and '.join(needed)} must be without functions, which a file cannot "
                f"hold: start the run in Python, kbert.{self._kind.command}(…, {listed})"
            )
        return {name: value for name, value in values.items() if name not in functions}

    def _locate(self, name: str, value, folder: Path):
        """Return an argument as the command line takes it, where it counts paths from a folder."""
        if name == "config" and isinstance(value, dict):
            return value
        if not isinstance(value, str) or not value:
            expected = _EXPECTED.get(name, "a name or a path")
            raise ValueError(f"{name} must be {expected}, got {js.short_repr(value)}")
        if name == "task":
            return self._convert(name, value)

        samples = getattr(self._params[name].type, "sample_names", ())
        is_sample = value in samples and not (folder / value).is_file()
        is_preset = name == "config" and value in PRESETS
        is_url = "://" in value
        if value == "-" or is_url or is_preset or is_sample:
            return value

        path = _join_path(name, value, folder)
        if name in _PATHS:
            return str(path)
        looks_like_path = value.startswith((".", "~")) or os.path.isabs(value)
        if looks_like_path or path.exists():
            return str(path.absolute())
        return value  # which is no name

    def _take_run(self, values: dict, file: Path) -> dict:
        """Return what a run was asked for, where a file is its settings.json."""
        is_run = isinstance(values.get("settings"), dict) and "fingerprint" in values
        if not is_run:
            return values
        from kbert.training.run.run_folder import RunFolder

        run = RunFolder.from_json(values, file)
        if run.task != self._kind.command:
            raise ValueError(f"{file} is of a run of kbert {run.task}: give it to that command")

        paths = {name: path for name, path in run.data_paths.items() if name in self.names}

        settings = {}
        for name, value in run.settings.items():
            if name not in run.derived:
                settings[name] = value
        if paths.get("init") is not None:
            settings.pop("config", None)  # that of init
        return paths | settings

    def _refuse_key(self, key: str) -> None:
        """Raise a ValueError with what an unknown key is called here, or the nearest name."""
        known = [*self.names, *self._fields]
        new = aliases.setting(key)
        if new not in known:
            alias = aliases.option(self._ctx.command.name, key)
            option = alias.split()[0]
            same = [name for name in known if option in self._list_spellings(name)]
            new = same[0] if same else None

        command = self._ctx.command_path
        close = f"it is called {new}" if new else hint(key, known, "")
        way = close or f"{command} --help lists the options"
        raise ValueError(f"{command} has no option {js.short_repr(key)}: {way}")

    def _list_spellings(self, name: str) -> list[str]:
        """Return what the command line calls an argument or an option."""
        param = self._params.get(name)
        if param is None:
            return []
        metavar = param.make_metavar(self._ctx).strip("[]")
        return [*param.opts, metavar]


def _join_path(name: str, value: str, folder: Path) -> Path:
    """Return the path that an argument has, which counts from a folder; ~ is a home folder."""
    try:
        return folder / Path(value).expanduser()
    except RuntimeError:
        user = value.partition("/")[0]
        raise ValueError(
            f"{name} must be a path, got {value!r}, but the home folder {user} is not known: "
            "write the whole path"
        ) from None


def read_mapping(file: Path) -> dict[str, Any]:
    """Return the mapping in a YAML, JSON or TOML file, by its ending; values are as in JSON.

    Raise a ValueError for another ending, a file that is too large or too deep, duplicate keys,
    numbers that are not finite, and values that JSON does not have, such as dates.
    """
    ending = file.suffix.lower()
    if ending not in ENDINGS:
        listed = ", ".join(ENDINGS)
        raise ValueError(
            f"{file} must be a file of settings that ends in {listed}, got another file"
        )
    if ending == ".json":
        return js.read(file, _MAPPING)

    bounds.check_size(file, LARGEST)
    form = "TOML" if ending == ".toml" else "YAML"
    data = file.read_bytes()
    try:
        text = data.decode("utf-8-sig")
        values = tomllib.loads(text) if form == "TOML" else _parse_yaml(text, str(file))
        plain = json.dumps(values)
    except UnicodeDecodeError:
        raise ValueError(f"{file} must be UTF-8 text in {form}, got other bytes") from None
    except (tomllib.TOMLDecodeError, TypeError, RecursionError) as error:  # a date, many levels
        raise ValueError(f"{file} must be {form}, got: {error}") from None

    if not values:
        raise ValueError(f"{file} must be {_MAPPING.what}, got an empty file")
    return js.parse(plain, _MAPPING, str(file), form)


def _parse_yaml(text: str, source: str):
    from kbert.cli import yaml_text  # when it is needed: PyYAML takes a while to import

    return yaml_text.parse(text, source)


def _has_keras_object(value) -> bool:
    """Return whether a value is the JSON of an object of Keras, or a list with one."""
    values = value if isinstance(value, list) else [value]
    return any(isinstance(entry, dict) and "class_name" in entry for entry in values)


def _check(field: dataclasses.Field, value, with_objects: bool):
    """Return the value of a setting; raise a ValueError that names it if it breaks its rule.

    `with_objects`: check objects of Keras too, which starts Keras.
    """
    kind = str(field.type)
    if isinstance(value, str) and "bool" in kind:
        value = _TRUTHS.get(value.lower(), value)
    if isinstance(value, str) and "tuple" in kind:
        value = [entry.strip() for entry in value.split(",")]
        if "int" in kind and all(entry.isdecimal() for entry in value):
            value = [int(entry) for entry in value]

    may_be_none = type(None) in get_args(field.type) or field.default is dataclasses.MISSING
    if value is None and may_be_none:
        return None

    if not _has_keras_object(value):
        check_settings({field.name: value})
    elif with_objects:
        with starting_keras():
            check_settings({field.name: value})
    return value
