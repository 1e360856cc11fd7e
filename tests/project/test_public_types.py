"""The classes of arguments and results, and the exceptions: public, documented, easy to read."""

import ast
import dataclasses
import inspect
import re
import sys
from pathlib import Path

import pytest
from helpers.errors import raises
from helpers.sizes import ROOT

import kbert

sys.path.insert(0, str(ROOT / "docs"))

from from_code.types_of import classes_of

VALUES = ("__version__", "PRESETS", "base", "large")
FUNCTIONS = [getattr(kbert, name) for name in kbert.__all__ if name not in VALUES]
RECORDS = [
    name
    for name in kbert.types.__all__
    if dataclasses.is_dataclass(getattr(kbert.types, name))
    or hasattr(getattr(kbert.types, name), "_fields")
]


def test_every_class_that_public_names_take_and_return_is_in_kbert_types():
    missing = [
        found.__name__
        for found in classes_of(FUNCTIONS)
        if getattr(kbert.types, found.__name__, None) is not found
    ]
    assert not missing and len(kbert.types.__all__) > 60


def test_type_checkers_see_the_classes():
    tree = ast.parse(Path(kbert.types.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    lines = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    seen = {(name.name, line.module) for line in lines for name in line.names}
    assert {name for name, _ in seen} == set(kbert.types.__all__) <= set(dir(kbert.types))
    for name, module in seen:
        assert getattr(sys.modules[module], name) is getattr(kbert.types, name)


def test_an_unknown_class_is_answered_with_the_nearest():
    with raises(AttributeError, "kbert.types", "'Lable'", "Label"):
        kbert.types.Lable  # noqa: B018


@pytest.mark.parametrize("name", RECORDS)
def test_every_field_is_documented(name):
    """In the lines of "Attributes:" or "Args:" of the class or of one that it extends."""
    record = getattr(kbert.types, name)
    fields = getattr(record, "_fields", None) or [
        field.name for field in dataclasses.fields(record) if field.init
    ]
    text = "\n".join(inspect.cleandoc(base.__doc__ or "") for base in record.__mro__[:-1])
    entries = re.findall(r"^    ((?:\w+, )*\w+):", text, re.M)
    lists = re.findall(r"^    ((?:\w+,\s+)+\w+):", text, re.M)
    documented = set(re.findall(r"\w+", " ".join([*entries, *lists])))
    missing = [field for field in fields if field[0] != "_" and field not in documented]
    assert not missing


@pytest.mark.parametrize(
    "result",
    [
        kbert.types.Label("good", 0.75),
        kbert.types.Value("LABEL_0", 1.5),
        kbert.types.Hit("a text", 0.5, 3),
        kbert.types.Candidate("paris", 0.5),
        kbert.types.History([{"step": 3, "loss": 0.5}]),
    ],
)
def test_a_result_is_printed_with_its_name_and_values(result):
    text = repr(result)
    assert text.startswith(type(result).__name__) and "\n" not in text and "0x" not in text


def test_types_are_annotations_of_users_code():
    def pick_best(labels: list[kbert.types.Label]) -> "kbert.types.Finetuned | None": ...

    hints = inspect.get_annotations(pick_best, eval_str=True)
    assert hints["labels"].__args__[0] is kbert.types.Label


def test_stopped_and_not_finite_can_be_caught():
    assert issubclass(kbert.types.Stopped, KeyboardInterrupt)
    assert issubclass(kbert.types.NotFinite, RuntimeError)
