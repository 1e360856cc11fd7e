"""Imports point one way, and the light parts stay light."""

import json
import sys

import pytest

import kbert

HEAVY = ("keras", "tensorflow", "jax", "torch", "numpy", "matplotlib", "pygraphviz")


RUN = "from kbert.cli.console import run; from kbert.cli.main import cli; run(cli, "


@pytest.mark.parametrize(
    "code",
    [
        "import kbert; kbert.base, kbert.PRESETS, kbert.account('base')",
        RUN + "['account', 'base'])",
        RUN + "['params', 'tiny'])",
        RUN + "['--help'])",
    ],
)
def test_light_calls_import_nothing_heavy(run_python, code):
    report = "import sys, json; print(json.dumps(sorted(sys.modules)))"
    code = f"try:\n    {code}\nexcept SystemExit:\n    pass\n{report}"
    modules = json.loads(run_python(code).stdout.splitlines()[-1])
    assert not [name for name in modules if name.split(".")[0] in HEAVY]


def test_every_public_name_resolves():
    for name in kbert.__all__:
        assert getattr(kbert, name) is not None
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        kbert.nothing_of_the_kind  # noqa: B018
    assert set(kbert.__all__) <= set(dir(kbert))
    assert "kbert" in sys.modules


@pytest.mark.parametrize(
    "module",
    [
        "model.layers",
        "model.layers.heads",
        "model.bert_model",
        "model.builder",
        "show.one_projection",
    ],
)
def test_whichever_module_comes_first_all_layers_are_registered(run_python, module):
    code = f"""
import kbert.{module}, keras
names = ("BertModel", "Masked", "TokenEmbedding", "AttentionWeights", "gelu")
print([name for name in names if keras.saving.get_registered_object("kbert>" + name) is None])
"""
    assert run_python(code, backend="jax").stdout.strip() == "[]"
