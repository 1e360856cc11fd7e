"""Only `kbert.ops.keras_internals` uses private names of libraries; a missing one is reported."""

import ast
import inspect
import re

import pytest
from helpers.errors import logged, raises
from helpers.sizes import ROOT

PLACE = "kbert/ops/keras_internals.py"
# Documented for all their underscores: namedtuple's, os's, IPython's, and two modules of Python's.
DOCUMENTED = {"_asdict", "_fields", "_replace", "_exit", "_repr_html_", "_thread", "__future__"}
DUNDER = re.compile(r"__(?!internal)\w+__")  # Python's, and protocols'
# KerasHub writes it into its presets, and reads it there.
IN_FILES = {"kbert/checkpoints/keras_hub/writer.py": {"keras_hub.src.models.bert."}}
DOTTED = re.compile(r"[a-z]\w*(\.\w+)+\.?")


def is_private(name: str) -> bool:
    documented = name in DOCUMENTED or DUNDER.fullmatch(name)
    return name == "src" or (name.startswith("_") and not documented)


def private_names(text: str, own: set[str] = frozenset()) -> list[str]:
    """What a module takes of others' private names, with its lines; `own` are kbert's."""
    found = []
    for node in ast.walk(ast.parse(text)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [part for alias in node.names for part in alias.name.split(".")]
        elif isinstance(node, ast.ImportFrom):
            names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
        elif isinstance(node, ast.Attribute):
            of_itself = ast.unparse(node.value) in ("self", "cls", "super()")
            names = [] if of_itself and node.attr in own else [node.attr]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "hasattr"):
            names = [str(arg.value) for arg in node.args[1:2] if isinstance(arg, ast.Constant)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names = node.value.split(".") if DOTTED.fullmatch(node.value) else []
        if any(map(is_private, names)):
            found.append(f"{node.lineno}: {ast.unparse(node)}")
    return found


def sources() -> dict[str, str]:
    return {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted((ROOT / "kbert").rglob("*.py"))
    }


def own_names(texts) -> set[str]:
    """Every function, class, and name or attribute that is given a value in kbert."""
    nodes = [node for text in texts for node in ast.walk(ast.parse(text))]
    return {
        name
        for node in nodes
        for name in (
            getattr(node, "name", None),
            getattr(node, "attr", None) if isinstance(getattr(node, "ctx", 0), ast.Store) else None,
            getattr(node, "id", None) if isinstance(getattr(node, "ctx", 0), ast.Store) else None,
        )
        if name
    } | {"_begins", "_ends", "_document", "_total"}  # of frozen dataclasses, by setattr


def test_private_names_of_libraries_are_used_in_one_module():
    texts = sources()
    own = own_names(texts.values())
    assert private_names(texts.pop(PLACE), own), "nothing is found where there is something"
    found = {
        f"{path}:{line}"
        for path, text in texts.items()
        for line in private_names(text, own)
        if not any(known in line for known in IN_FILES.get(path, ()))
    }
    assert not found


def test_classes_override_nothing_private_of_keras():
    from kbert.model import bert_model
    from kbert.model.layers import encoder, heads

    classes = [*vars(encoder).values(), *vars(heads).values(), bert_model.BertModel]
    classes = [one for one in classes if inspect.isclass(one) and "kbert" in one.__module__]
    assert len(classes) > 10
    for one in classes:
        foreign = {
            name for base in one.__mro__ if "kbert" not in base.__module__ for name in vars(base)
        }
        own = {name for base in one.__mro__ if "kbert" in base.__module__ for name in vars(base)}
        assert not set(filter(is_private, own & foreign)), one


@pytest.fixture
def model(small):
    import kbert

    return kbert.build_encoder(small)


@pytest.mark.parametrize("name", ["_nodes_by_depth", "_inbound_nodes", "_keras_history"])
def test_missing_private_graph_attribute_is_reported(model, monkeypatch, name):
    from kbert.model.summary import model_rows

    owner = {
        "_nodes_by_depth": model,
        "_inbound_nodes": model.layers[-1],
        "_keras_history": model.layers[-1].input,
    }[name]
    assert model_rows(model)
    with monkeypatch.context() as patch:
        patch.delattr(owner, name)
        with raises(RuntimeError, "Keras 3", name):
            model_rows(model)
    with monkeypatch.context() as patch:
        patch.setattr(model.layers[-1], "_inbound_nodes", [])
        with raises(RuntimeError, "Keras 3", "calls of a layer"):
            model_rows(model)


def test_initializers_without_pythons_seed_are_refused(monkeypatch):
    import keras

    from kbert.ops.keras_internals import check_seeds_are_pythons
    from kbert.training.determinism import seed_weights

    check_seeds_are_pythons.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(keras.initializers, "TruncatedNormal", object)
        with raises(RuntimeError, "Keras 3", "initializers"), seed_weights(3):
            pytest.fail("weights would be drawn from no seed")
    with seed_weights(3):
        pass


def test_pydot_without_create_is_reported_and_not_patched(monkeypatch):
    import pydot

    from kbert.show import graphviz

    monkeypatch.delattr(pydot.Dot, "create")
    with logged("pydot ", "Dot.create") as messages:
        graphviz.lend_to_pydot()
    assert not hasattr(pydot.Dot, "create") and len(messages) == 1
