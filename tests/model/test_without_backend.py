"""Without a backend of Keras, what needs none works; the rest says what to install."""

import json

import pytest
from helpers.errors import raises
from helpers.small_berts import small_bert

import kbert
from kbert.model import registration

# TensorFlow, JAX and torch as on a machine that has none of them.
HIDDEN = """
import importlib.util, json, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

HIDDEN = set(json.loads(sys.argv[1]))
sys.meta_path.insert(0, Absent())
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name in HIDDEN else find(name, *rest)
"""
CALLS = """
import kbert
from kbert.cli.main import main

place = sys.argv[2]
kbert.account("base"), kbert.plan("base", tpu="v5e:1x1"), kbert.named_parameters("tiny")
kbert.plot("tiny", place + "/drawn.mmd"), kbert.compare_heads("tiny", built=False)
for kind in ("encoder", "encoder.keras", "google", "hub"):
    line = ["inspect", f"{place}/{kind}"]
    try:
        found = kbert.inspect(line[1])
        assert found.config.hidden_size == 24 and not found.problems, found
    except ImportError as error:
        assert kind == "google" and '".[tensorflow]"' in str(error), error
for line in ("summary tiny", "params tiny", "heads tiny", "plan tiny", f"inspect {place}/encoder"):
    try:
        main(line.split(" "))
    except SystemExit as done:
        assert done.code == 0, line
calls = (
    lambda: kbert.build_bert("tiny"),
    lambda: kbert.load(place + "/encoder"),
    lambda: kbert.embed(None, ["a text"]),
)
for call in calls:
    try:
        call()
        raise SystemExit("a call went through")
    except ImportError as error:
        print("SAID", json.dumps([str(error), error.name]))
"""


@pytest.fixture(scope="module")
def place(small, tmp_path_factory):
    """A checkpoint in the formats that are read without a backend, and Google's."""
    place = tmp_path_factory.mktemp("place")
    bert = small_bert(small, "encoder")
    kbert.save(bert, place / "encoder")
    bert = kbert.load(place / "encoder")
    kbert.save(bert, place / "encoder.keras")
    kbert.save(bert, place / "google", format="google")
    kbert.save(bert, place / "hub", format="keras_hub")
    return place


@pytest.mark.full
def test_without_a_backend_errors_say_what_to_install(run_python, place):
    hidden = json.dumps(registration.BACKENDS)
    done = run_python(HIDDEN + CALLS, hidden, place, backend="tensorflow")
    said = [json.loads(line[5:]) for line in done.stdout.splitlines() if line.startswith("SAID")]
    line = (
        "Keras computes with the backend tensorflow, which is not installed: pip install "
        '".[tensorflow]" in the clone of kbert, or jax or torch and set KERAS_BACKEND to that'
    )
    assert said == [[line, "tensorflow"]] * 3


def test_installed_backend_is_suggested(run_python):
    pytest.importorskip("jax")
    code = f"{HIDDEN}import kbert; kbert.verify()"
    done = run_python(code, '["tensorflow"]', backend="tensorflow", check=False)
    assert done.stderr.splitlines()[-1] == (
        "ImportError: Keras computes with the backend tensorflow, which is not installed: "
        'pip install ".[tensorflow]" in the clone of kbert, or set KERAS_BACKEND=jax, which is'
    )


def test_error_of_another_missing_module_is_unchanged():
    error = ModuleNotFoundError("No module named 'none'", name="none")
    with raises(ModuleNotFoundError) as caught, registration.backend_errors_in_one_line():
        raise error
    assert caught.value is error
