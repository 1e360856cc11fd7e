"""Run the tests in ops and on_each_backend on JAX and torch, one process per backend and round.

Those in on_torch run on torch only, and the code on most pages.
"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.backends import environment_of
from helpers.sizes import ROOT

ROUNDS = {
    "default": "not full and not nightly",
    "full": "full and not nightly",
    "nightly": "nightly",
}
FOLDERS = {
    "jax": ["ops", "on_each_backend"],
    "torch": ["ops", "on_each_backend", "on_torch", "project/test_page_code.py"],
}
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

_, _, readme, vocabulary, shards, run = sys.argv
kbert.train_vocab(readme, 400, vocabulary)
kbert.prepare(readme, vocabulary, shards)
kbert.pretrain(shards, "tiny", output=run, steps=2, batch_size=3, seq_len=32, progress=False)
loaded = [name for name in sys.modules if name.split(".")[0] == "tensorflow"]
assert not loaded, loaded
"""


@pytest.fixture(params=["jax", "torch"])
def backend(request):
    if importlib.util.find_spec(request.param) is None:
        pytest.skip(f"{request.param} is not installed: pip install -e '.[{request.param}]'")
    return request.param


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """Start the tests of a round on JAX and on torch, side by side, a process each."""
    folder = tmp_path_factory.mktemp("backends")
    processes = {}

    def start_all(which: str) -> None:
        for name in filter(importlib.util.find_spec, FOLDERS):
            options = ["-q", "-n", "0", "-p", "no:cacheprovider", "-m", ROUNDS[which]]
            folders = [str(Path(__file__).parent / one) for one in FOLDERS[name]]
            output = folder / f"{name}-{which}.txt"
            with output.open("w") as file:
                process = subprocess.Popen(
                    [sys.executable, "-m", "pytest", *options, *folders],
                    env=os.environ | environment_of(name),
                    stdout=file,
                    stderr=subprocess.STDOUT,
                )
            processes[name, which] = process, output

    def start_once(name: str, which: str):
        if (name, which) not in processes:
            start_all(which)
        return processes[name, which]

    yield start_once
    for process, _ in processes.values():
        process.kill()


@pytest.mark.parametrize(
    "which",
    [
        "default",
        pytest.param("full", marks=pytest.mark.full),
        pytest.param("nightly", marks=pytest.mark.nightly),
    ],
)
def test_each_backend_passes_the_same_tests(which, backend, start):
    process, output = start(backend, which)
    status = process.wait()
    text = output.read_text(encoding="utf-8", errors="replace")[-5000:]
    print(text)
    assert status == 0, text


@pytest.mark.full
def test_no_tensorflow_module_is_imported(backend, tmp_path, run_python):
    """Without TensorFlow a model can be built, summarized, verified, drawn, run and trained."""
    paths = [ROOT / "README.md", *(tmp_path / name for name in ("vocabulary", "shards", "run"))]
    run_python(WITHOUT_TENSORFLOW, tmp_path / "bert.svg", *paths, backend=backend)
