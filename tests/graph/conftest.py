"""Provide what transformers and torch say of BERT's graph, from tests/files/peers."""

import json

import pytest
from helpers.peer_outputs import run_peer
from helpers.sizes import ODD, ODD_CONFIG

PEER_SIZES = {
    "default": {},
    "odd": ODD_CONFIG,
    "one block": ODD | {"num_hidden_layers": 1, "hidden_size": 8, "num_attention_heads": 2},
}


@pytest.fixture(scope="session")
def peers(tmp_path_factory) -> dict:
    """Return `counts` and `configs` as helpers/peer_graph.py writes them, and the `sizes`."""
    out = tmp_path_factory.mktemp("peers")
    run_peer("peer_graph:describe", out, PEER_SIZES)
    found = {name: json.loads((out / f"{name}.json").read_text()) for name in ("counts", "configs")}
    return found | {"sizes": PEER_SIZES}
