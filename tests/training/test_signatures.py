"""The functions that train have each setting as an argument, and `help()` describes it."""

import dataclasses
import inspect
import pydoc
import re
import subprocess
import sys

import pytest
from helpers.errors import raises

import kbert
from kbert.cli.main import cli
from kbert.tasks.distillation.settings import DistillationSettings
from kbert.tasks.finetuning.settings import FinetuningSettings
from kbert.tasks.pretraining.settings import PretrainingSettings
from kbert.training.settings.run_settings import RunOptions, RunSettings

FINETUNING = FinetuningSettings.fields()
PRETRAINING = PretrainingSettings.fields()
RUN_OPTIONS = list(dataclasses.fields(RunOptions))
SETTINGS = {
    "finetune": FINETUNING + RUN_OPTIONS,
    "pretrain": PRETRAINING + RUN_OPTIONS,
}
IN_RESUME = {field.name: field for field in [*FINETUNING, *PRETRAINING]}
RUN_OPTION_NAMES = [field.name for field in RUN_OPTIONS]
FIELDS = [*IN_RESUME, *RUN_OPTION_NAMES]
CLASSES = (FinetuningSettings, PretrainingSettings, DistillationSettings, RunSettings, RunOptions)
ENTRY = re.compile(r" {8}(\w+) \((.*)\): (.+)")
KEPT_AS = {"tuple[str, ...]": "Sequence[str]", "tuple[int, ...]": "Sequence[int]"}
GIVEN_AS = {  # settings that are kept as JSON, by a name or as text
    "optimizer": "str | keras.optimizers.Optimizer",
    "schedule": "str | keras.optimizers.schedules.LearningRateSchedule",
    "class_weights": "str | Mapping[str, float] | None",
    "lora_targets": "str | Sequence[str]",
    "loss": "str | keras.losses.Loss | Callable | None",
    "metrics": "Sequence[keras.metrics.Metric | Callable] | None",
}


def write_type(annotation) -> str:
    """Return a type as source text, as a caller gives it: a list for a tuple."""
    text = inspect.formatannotation(annotation).strip("'").replace("collections.abc.", "")
    for kept, given in KEPT_AS.items():
        text = text.replace(kept, given)
    return text


def write_field_type(field: dataclasses.Field) -> str:
    """Return the type of a setting as source text, as a caller gives it."""
    return GIVEN_AS.get(field.name) or write_type(field.type)


def find_arguments(name: str) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(getattr(kbert, name)).parameters)


def write_line(field: dataclasses.Field) -> str:
    """Return the line of a signature for a setting."""
    default = "" if field.default is dataclasses.MISSING else f" = {field.default!r}"
    return f"{field.name}: {write_field_type(field)}{default},"


def write_line_of_resume(field: dataclasses.Field) -> str:
    return f"{field.name}: {write_field_type(field).removesuffix(' | None')} | None = None,"


def find_missing(arguments: dict, fields: list, write=write_line) -> list[str]:
    """Return the lines that a signature lacks, with the argument that each of them follows."""
    names = ["*", *(field.name for field in fields)]
    return [
        f"after {before}: {write(field)}"
        for before, field in zip(names, fields, strict=False)
        if field.name not in arguments
    ]


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_is_an_argument_in_order(name):
    arguments, fields = find_arguments(name), SETTINGS[name]
    assert find_missing(arguments, fields) == []
    names = [field.name for field in fields]
    assert [argument for argument in arguments if argument in names] == names
    assert not [one for one in arguments.values() if one.kind is one.VAR_KEYWORD]


@pytest.mark.parametrize("name", SETTINGS)
def test_arguments_have_the_types_and_defaults_of_settings(name):
    arguments = find_arguments(name)
    for field in SETTINGS[name]:
        argument = arguments[field.name]
        required = field.default is dataclasses.MISSING
        assert argument.default == (argument.empty if required else field.default), field.name
        if field.name != "callbacks":  # of any type in the dataclass
            assert write_type(argument.annotation) == write_field_type(field), field.name


def test_resume_takes_every_setting_and_none_means_the_run_has_it():
    arguments = find_arguments("resume")
    assert find_missing(arguments, list(IN_RESUME.values()), write_line_of_resume) == []
    assert [name for name in arguments if name in FIELDS] == FIELDS
    for name, field in IN_RESUME.items():
        assert arguments[name].default is None
        kinds = write_type(arguments[name].annotation).split(" | ")
        assert set(kinds) == {*write_field_type(field).split(" | "), "None"}, name
    for field in RUN_OPTIONS:
        assert arguments[field.name] == find_arguments("finetune")[field.name]


def test_settings_of_glue_are_those_of_finetune():
    finetune, glue = find_arguments("finetune"), find_arguments("glue")
    shared = [name for name in glue if name in finetune]
    assert len(shared) > 20
    differing = {name for name in shared if glue[name] != finetune[name]}
    assert differing == {"output", "epochs", "save_every"}


def read_help(name: str) -> list[str]:
    """Return the lines of `help()` that describe settings."""
    lines = pydoc.plain(pydoc.render_doc(getattr(kbert, name))).splitlines()
    first = next(place for place, line in enumerate(lines) if ENTRY.match(line))
    return lines[first : lines.index("    Returns:") - 1]


def describe(name: str) -> dict[str, tuple[str, str]]:
    """Return what `help()` says about each setting: type with default, and text."""
    entries: list[str] = []
    for line in read_help(name):
        if line.startswith(" " * 12):
            entries[-1] += line[11:]
        else:
            entries.append(line)
    found = [ENTRY.match(entry).groups() for entry in entries]
    return {setting: (kind, text) for setting, kind, text in found}


@pytest.mark.parametrize("name", ["finetune", "pretrain", "resume", "glue"])
def test_help_gives_type_default_and_text_of_every_setting(name):
    arguments, described = find_arguments(name), describe(name)
    other = {"glue": {"epochs"}}.get(name, set())  # described by the source
    assert list(described) == [one for one in arguments if one in FIELDS and one not in other]

    docstrings = [" ".join(kind.__doc__.split()) for kind in CLASSES]
    for setting, (kind, text) in described.items():
        argument = arguments[setting]
        assert kind == f"{write_type(argument.annotation)}, default {argument.default!r}"
        first, *others = re.split(r"(?<=\.) (?=[A-Z\"`])", text)
        assert any(
            f" {setting}: {first}" in docstring and all(other in docstring for other in others)
            for docstring in docstrings
        ), setting


def test_help_says_what_none_means():
    """In `finetune` it is a value of its own, in `resume` it is the run's value."""
    arguments = find_arguments("finetune")
    for setting, (_, text) in describe("finetune").items():
        assert ("None: " in text) == (arguments[setting].default is None), setting
    for setting, (_, text) in describe("resume").items():
        assert "None: " not in text or setting in RUN_OPTION_NAMES, setting


def test_help_names_the_values_of_a_setting():
    assert "mixed_bfloat16" in describe("finetune")["precision"][1]
    assert "lamb" in describe("pretrain")["optimizer"][1]
    assert '"cosent"' in describe("resume")["loss"][1]


@pytest.mark.parametrize("name", ["finetune", "pretrain", "resume"])
def test_help_of_settings_fits_80_columns(name):
    lines = read_help(name)
    # a type is in one line, which Sphinx needs
    long = [line for line in lines if len(line) > 80 and len(line.partition(": ")[0]) < 75]
    assert len(lines) > 70 and long == []
    signature = pydoc.plain(pydoc.render_doc(getattr(kbert, name))).splitlines()[2:50]
    assert [line for line in signature if len(line) > 100] == []


@pytest.mark.parametrize("name", ["finetune", "pretrain"])
def test_option_on_the_command_line_has_the_text_of_help(name):
    options = {option.name: option.help for option in cli.commands[name].params[1:]}
    described = {setting: text for setting, (_, text) in describe(name).items()}
    shared = options.keys() & described.keys() - {"lowercase"}  # --uncased
    assert len(shared) > 35
    for setting in shared:
        option = re.sub(
            r"--[a-z-]+", lambda found: found[0][2:].replace("-", "_"), options[setting]
        )
        first = described[setting].replace("`", "").split(". ")[0].removesuffix(".")
        assert option.lower().startswith(first.lower()), setting


@pytest.mark.parametrize(
    ("call", "missing"),
    [
        (lambda: kbert.finetune("x", "classify"), "train"),
        (lambda: kbert.pretrain("shards", steps=1), "output"),
    ],
)
def test_missing_argument_is_named(call, missing):
    with raises(TypeError, f"'{missing}'"):
        call()


@pytest.mark.full
def test_editor_completes_settings():
    """Jedi reads the source, as editors do, and runs nothing."""
    jedi = pytest.importorskip("jedi")
    for name, fields in SETTINGS.items():
        script = jedi.Script(f"import kbert\nkbert.{name}(")
        offered = {completion.name for completion in script.complete()}
        assert {f"{field.name}=" for field in fields} <= offered


def test_texts_are_not_read_when_kbert_is_imported():
    code = "import sys, kbert; sys.exit('kbert.training.settings.setting_texts' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.full
def test_function_works_without_docstrings(tmp_path):
    code = f"import kbert; kbert.resume({str(tmp_path)!r}, progress=False)"
    done = subprocess.run([sys.executable, "-OO", "-c", code], capture_output=True, text=True)
    assert "FileNotFoundError" in done.stderr.splitlines()[-1]
