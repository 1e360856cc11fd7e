"""What a type checker knows of kbert: every public name, and every parameter's type."""

import ast
import dataclasses
import functools
import inspect
import subprocess
import sys
import typing
from pathlib import Path

import keras
import pytest
from helpers.sizes import ROOT

import kbert

SNIPPET = """
import kbert

bert = kbert.load("x")
reveal_type(bert)
reveal_type(bert.tokenizer)
reveal_type(kbert.classify(bert, "a text"))
reveal_type(kbert.classify(bert, ["a text", "another"]))
reveal_type(kbert.answer(bert, "who?", "a context").text)
reveal_type(kbert.base.hidden_size)
kbert.load(3)
kbert.pretrain("shards", steps="many", output="run")
kbert.similarity(bert, ["a", "b"], poling="mean")
kbert.finetune("x", "classify", train="train.tsv", epoch=3)
kbert.finetune("x", "classify", train="train.tsv", epochs="three")
kbert.lode("x")
"""
SEEN = [
    "kbert.checkpoints.bert.Bert",
    "kbert.data.tokenization.tokenizer.Tokenizer | None",
    "list[kbert.tasks.classification.inference.Label]",
    "list[list[kbert.tasks.classification.inference.Label]]",
    "str",
    "int",
]
REFUSED = [
    'Argument 1 to "load" has incompatible type "int"',
    'Argument "steps" to "pretrain" has incompatible type "str"',
    'Unexpected keyword argument "poling"',
    'Unexpected keyword argument "epoch"',
    'Argument "epochs" to "finetune" has incompatible type "str"',
    'Module has no attribute "lode"',
]


def test_type_checkers_see_the_public_names():
    """The stub imports each name from where it is defined."""
    tree = ast.parse(Path(kbert.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    lines = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module]
    seen = {(name.name, name.asname, line.module) for line in lines for name in line.names}
    assert {name for name, _, _ in seen} | {"__version__"} == set(kbert.__all__)
    for name, seen_name, module in seen:
        assert name == seen_name and getattr(sys.modules[module], name) is getattr(kbert, name)


def public_callables():
    """(name, function) of the public functions, and of the methods of the public classes and of
    those that the functions give."""
    found, classes = {}, {}
    for name in kbert.__all__:
        value = getattr(kbert, name)
        if inspect.isclass(value):
            classes[name] = value
        elif callable(value):
            found[name] = value
            classes |= {cls.__name__: cls for cls in given_classes(value)}
    for cls in classes.values():
        kerass = dir(keras.Model) if issubclass(cls, keras.Model) else []
        for name, member in vars(cls).items():
            if name not in kerass and (function := function_of(member)):
                found[f"{cls.__name__}.{name}"] = function
    return {
        name: function
        for name, function in found.items()
        if not name.split(".")[-1].startswith("_") or name.endswith(".__init__")
    }


def given_classes(function):
    """The classes of kbert that a function's result is, or is made of."""
    left = [inspect.signature(function).return_annotation]
    while left:
        given = left.pop()
        left += typing.get_args(given)
        if inspect.isclass(given) and given.__module__.startswith("kbert."):
            yield given


def function_of(member):
    if isinstance(member, property):
        return member.fget
    if isinstance(member, functools.cached_property):
        return member.func
    member = getattr(member, "__func__", member)  # of a class method
    return member if inspect.isfunction(member) else None


PUBLIC = public_callables()


@pytest.mark.parametrize("name", PUBLIC)
def test_every_parameter_has_a_type(name):
    function = PUBLIC[name]
    signature = inspect.signature(function)
    types = {p.name: p.annotation for p in signature.parameters.values()}
    types.pop("self", None)
    types.pop("cls", None)
    if not name.endswith(".__init__"):
        types["return"] = signature.return_annotation
    untyped = {inspect.Parameter.empty, typing.Any, object, "Any", "object"}
    assert [name for name, given in types.items() if given in untyped] == []


def test_similarity_takes_the_options_of_embed():
    embed, similarity = (
        inspect.signature(one).parameters for one in (kbert.embed, kbert.similarity)
    )
    options = {name: one for name, one in embed.items() if one.kind is one.KEYWORD_ONLY}
    assert {
        name: one for name, one in similarity.items() if one.kind is one.KEYWORD_ONLY
    } == options


def test_typed_options_match_the_function_signatures():
    from kbert.data.tokenization.vocabulary import Rules, Vocabulary

    of_vocabulary = {field.name: field.type for field in dataclasses.fields(Vocabulary)}
    del of_vocabulary["tokens"], of_vocabulary["lowercase"]
    assert Rules.__annotations__ == of_vocabulary


@pytest.mark.full
def test_mypy_sees_the_types_of_an_installed_kbert(tmp_path):
    """The installed package says py.typed: without it, or without the names, all would be Any."""
    pytest.importorskip("mypy")
    script = tmp_path / "script.py"
    script.write_text(SNIPPET, encoding="utf-8")
    options = [f"--config-file={ROOT / 'pyproject.toml'}", f"--cache-dir={tmp_path / 'cache'}"]
    command = [sys.executable, "-m", "mypy", *options, script.name]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    lines = run.stdout.splitlines()
    assert [line.split('"')[1] for line in lines if "Revealed type" in line] == SEEN
    errors = [line for line in lines if ": error: " in line]
    assert len(errors) == len(REFUSED), errors
    assert [text for text, line in zip(REFUSED, errors, strict=True) if text not in line] == []
