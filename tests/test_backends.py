"""The tests in on_each_backend, on JAX and torch; and neither of them brings TensorFlow in."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.xla_flags import environment_of

FOLDER = Path(__file__).parent / "on_each_backend"
WITHOUT_TENSORFLOW = """
import importlib.machinery
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("tensorflow", "tf_keras", "tensorflow_text"):
            return importlib.machinery.ModuleSpec(name, self)

    def create_module(self, spec):
        raise ModuleNotFoundError(f"No module named {spec.name!r}", name=spec.name)

sys.meta_path.insert(0, Refuse())
import kbert
config = kbert.BertConfig(vocab_size=99, hidden_size=24, num_hidden_layers=3,
                          num_attention_heads=4, intermediate_size=40)
model = kbert.build_bert(config)
model.summary(print_fn=lambda line: None)
assert kbert.verify(model).ok
kbert.predict(kbert.build_attention_maps(model), [[1] * 512])
kbert.plot(model, sys.argv[1])
kbert.compare_heads(config)
loaded = [name for name in sys.modules if name.split(".")[0] == "tensorflow"]
assert not loaded, loaded
"""


@pytest.fixture(params=["jax", "torch"])
def backend(request):
    if importlib.util.find_spec(request.param) is None:
        pytest.skip(f"{request.param} is not installed: pip install -e '.[{request.param}]'")
    return request.param


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    """The tests on JAX and on torch, side by side: a process and its output each."""
    folder = tmp_path_factory.mktemp("backends")
    options = ["-q", "-n", "0", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, str(FOLDER)]
    processes = {}
    for name in ("jax", "torch"):
        if importlib.util.find_spec(name):
            output = folder / f"{name}.txt"
            with output.open("w") as file:
                environment = os.environ | environment_of(name)
                process = subprocess.Popen(
                    command, env=environment, stdout=file, stderr=subprocess.STDOUT
                )
            processes[name] = process, output
    yield processes
    for process, _ in processes.values():
        process.kill()


@pytest.mark.slow
def test_what_holds_on_tensorflow_holds_on_each_backend(backend, started):
    process, output = started[backend]
    status = process.wait()
    text = output.read_text(encoding="utf-8", errors="replace")[-5000:]
    print(text)
    assert status == 0, text


def test_no_tensorflow_module_is_imported(backend, tmp_path):
    """Where TensorFlow is not installed, building, summing, checking, drawing and running work."""
    command = [sys.executable, "-c", WITHOUT_TENSORFLOW, str(tmp_path / "bert.svg")]
    environment = os.environ | environment_of(backend)
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
