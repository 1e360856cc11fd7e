"""Imports point one way, and the light parts stay light."""

import ast
import json
import pkgutil
import re
import tomllib
from pathlib import Path

import pytest
from helpers.errors import raises

import kbert

HEAVY = ("keras", "tensorflow", "jax", "torch", "numpy", "matplotlib", "pygraphviz")


@pytest.mark.parametrize(
    "code",
    [
        "import kbert; kbert.base, kbert.PRESETS, kbert.account('base')",
        "import kbert; kbert.plan('base', gpu='H100')",
    ],
)
def test_light_calls_import_nothing_heavy(run_python, code):
    report = "import sys, json; print(json.dumps(sorted(sys.modules)))"
    modules = json.loads(run_python(f"{code}\n{report}").stdout)
    assert not [name for name in modules if name.split(".")[0] in HEAVY]


def test_every_public_name_resolves():
    for name in kbert.__all__:
        assert getattr(kbert, name) is not None
    with raises(AttributeError, "nothing_of_the_kind"):
        kbert.nothing_of_the_kind  # noqa: B018
    assert set(kbert.__all__) <= set(dir(kbert))
    folders = {module.name for module in pkgutil.iter_modules(kbert.__path__)}
    assert not folders & set(kbert.__all__)  # importing one would take the name's place


FORKED = """
import importlib, os, sys, traceback
import keras

def in_a_fork(function, *arguments):
    if os.fork() == 0:
        try:
            assert "kbert" not in sys.modules
            function(*arguments)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.wait()[1] == 0, arguments
    print(*arguments)

def check_registered(module):
    importlib.import_module(f"kbert.{module}")
    for name in ("BertModel", "Masked", "TokenEmbedding", "AttentionWeights", "gelu"):
        assert keras.saving.get_registered_object(f"kbert>{name}"), (module, name)

def save(path):
    import kbert
    sizes = dict(hidden_size=6, num_hidden_layers=1, num_attention_heads=2, intermediate_size=5)
    config = kbert.BertConfig(vocab_size=9, max_position_embeddings=7, **sizes)
    kbert.build_encoder(config).save(path)
    assert "tensorflow" not in sys.modules

for module in ("model.layers", "model.layers.heads", "model.bert_model", "model.builder",
               "show.one_projection"):
    in_a_fork(check_registered, module)
in_a_fork(save, sys.argv[1])
"""


@pytest.mark.full
def test_module_that_layers_need_can_be_the_first_import(run_python):
    run_python("from kbert.ops.activations import gelu", backend="jax")


@pytest.mark.full
def test_first_import_registers_layers_and_saving_needs_no_tensorflow(run_python, tmp_path):
    """Each in a fork of one process, which has imported Keras on JAX and not kbert."""
    path = tmp_path / "model.keras"
    code = f"import sys; sys.argv.append({str(path)!r})\n{FORKED}"
    assert run_python(code, backend="jax").stdout.count("\n") == 6
    assert path.is_file()


@pytest.mark.full
def test_extras_named_in_messages_install_the_packages():
    """`extras.require(what, extra, *modules)`: pyproject.toml's extra lists all of the modules."""
    package = Path(kbert.__file__).parent
    project = tomllib.loads((package.parent / "pyproject.toml").read_text())["project"]
    brings = {
        extra: {re.match(r"[\w-]+", line)[0].replace("-", "_") for line in lines}
        for extra, lines in project["optional-dependencies"].items()
    }
    brings["corpora"] |= {"upath", "backports.zstd"}  # of universal-pathlib, backports.zstd
    brings["tpu"].add("libtpu")  # of jax[tpu]
    brings["jax-cuda"].add("jax_cuda12_plugin")  # of jax[cuda12]
    named = set()
    for path in package.rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "extras.require":
                if isinstance(call.args[1], ast.Name):  # a backend, which its extra is named for
                    assert ast.unparse(call.args[2]) == call.args[1].id == "backend", path
                    continue
                extra = call.args[1].value
                choices = [getattr(one, "body", one) for one in call.args[2:]]
                choices += [one.orelse for one in call.args[2:] if isinstance(one, ast.IfExp)]
                assert {one.value for one in choices} <= brings[extra], path
                named.add(extra)
    assert named >= {"onnx", "serving", "tpu", "dask", "keras-nlp", "torch", "tensorflow"}
