"""Fixtures of the tests that run on TensorFlow, JAX and torch: weights and inputs from a peer."""

import keras
import numpy as np
import pytest
from helpers.peer_outputs import run_peer
from helpers.small_berts import small_berts

# What the default round runs on JAX and on torch: outputs, losses, a training step. The full round
# runs all files there, and the default round all of them on TensorFlow.
DEFAULT_FILES = {
    "jax": ("numbers", "training_parity"),
    "torch": (
        "losses",
        "numbers",
        "profiles",
        "run_on_backend",
        "schedules",
        "trained_in_part",
        "training_parity",
        "training_step",
        "vector_losses",
        "weight_averages",
    ),
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Leave what is not of `DEFAULT_FILES` to the full round, on JAX and torch."""
    names = DEFAULT_FILES.get(keras.backend.backend())
    if names is None:
        return
    files = {f"test_{name}.py" for name in names}
    for item in items:
        if item.path.parent.name == "on_each_backend" and item.path.name not in files:
            item.add_marker(pytest.mark.full)


@pytest.fixture(scope="session")
def small(small):
    """Two blocks compile faster than three, and a lost mask shows in the second."""
    return small.replace(num_hidden_layers=2)


@pytest.fixture(scope="session")
def peer(small, tmp_path_factory):
    """What transformers computes: a dictionary of arrays, for each of `CASES`."""
    out = tmp_path_factory.mktemp("peer")
    run_peer("peer_bert:write_outputs", out, small.to_dict())
    return lambda place=0: dict(np.load(out / f"{place}.npz"))


@pytest.fixture(scope="session")
def fill():
    """Puts the peer's weights into a model that kbert built."""
    from kbert.checkpoints import weight_names
    from kbert.graph.spec import GraphSpec

    def assign(model, config, arrays) -> None:
        rows = weight_names.entries_of(GraphSpec(config, "pretraining"), "transformers")
        entries = {f"{row.layer}/{row.variable}": row for row in rows}
        for weight in model.weights:
            entry = entries[weight.path]
            array = arrays.get(f"bert.{entry.name}", arrays.get(entry.name))
            array = array.T if entry.outputs_first else array
            weight.assign(array.reshape(weight.shape))

    return assign


@pytest.fixture
def ids(peer):
    """The peer's inputs, as model calls take them: token ids and segment ids, int32 (13, 11)."""
    arrays = peer()
    return [arrays[name].astype("int32") for name in ("token_ids", "segment_ids")]


@pytest.fixture(scope="session")
def berts(small):
    """A small `Bert` of each head, which no test changes."""
    return small_berts(small)


@pytest.fixture(scope="session")
def backend():
    import keras

    return keras.backend.backend()
