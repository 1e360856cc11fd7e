"""Fixtures of the tests that run on TensorFlow, JAX and torch: weights and inputs from a peer."""

import numpy as np
import pytest
from helpers.peer_outputs import run_peer

# transformers' names for the heads; encoder and pooler are in kbert.checkpoints.weight_names.
HEADS = {
    "cls.predictions.transform.dense.weight": ("MLM-Dense", "kernel"),
    "cls.predictions.transform.dense.bias": ("MLM-Dense", "bias"),
    "cls.predictions.transform.LayerNorm.weight": ("MLM-Norm", "gamma"),
    "cls.predictions.transform.LayerNorm.bias": ("MLM-Norm", "beta"),
    "cls.predictions.bias": ("MLM-Sim", "bias"),
    "cls.seq_relationship.weight": ("NSP", "kernel"),
    "cls.seq_relationship.bias": ("NSP", "bias"),
}


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
        places = {
            f"bert.{entry.name}": (entry.layer, entry.variable)
            for entry in weight_names.entries_of(GraphSpec(config, "encoder"), "transformers")
        } | HEADS
        layers = {layer.name: layer for layer in model.layers}
        assigned = 0
        for name, (layer, variable) in places.items():
            if layer not in layers:
                continue
            (weight,) = (w for w in layers[layer].weights if w.path.endswith(f"/{variable}"))
            array = arrays[name]
            array = array.T if variable.endswith("kernel") else array
            weight.assign(array.reshape(weight.shape))
            assigned += 1
        named_heads = ("Classifier", "TokenClassifier", "Span")
        own = [w for w in model.weights if w.path.split("/")[0] in named_heads]
        assert assigned + len(own) == len(model.weights)

    return assign


@pytest.fixture
def ids(peer):
    """The peer's inputs, as model calls take them: token ids and segment ids, int32 (13, 11)."""
    arrays = peer()
    return [arrays[name].astype("int32") for name in ("token_ids", "segment_ids")]


@pytest.fixture(scope="session")
def backend():
    import keras

    return keras.backend.backend()
