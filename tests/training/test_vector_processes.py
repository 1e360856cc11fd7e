"""Losses of sentence embeddings on two devices are of the whole batch, as on one device."""

from pathlib import Path

import numpy as np
import pytest
from helpers.vector_process import BY_XLA, CASES
from test_training_processes import ended

LOSSES = ("infonce", "cosent", "triplet", "cosine")
QUICK = {  # torch compiles nothing, and has every loss
    "mirrored": ("cosent", "infonce_in_parts"),
    "jax_devices": ("triplet", "drawing_in_parts"),
    "torch_processes": (*LOSSES, "infonce_in_parts", "encoder", "adapters_in_parts"),
}
WHOLE = {kind: tuple(CASES | (BY_XLA if kind == "mirrored" else {})) for kind in QUICK} | {
    "workers": ("infonce_in_parts",),  # TensorFlow's hosts meet once in a process
    "jax_hosts": ("infonce", "encoder_in_parts", "drawing_in_parts"),
}
ALONE = {"workers": "mirrored", "jax_hosts": "jax_devices"}  # whose process has one device too


def compare(forks, kind: str, cases, folder: Path) -> None:
    asked = "helpers.vector_process:main", *cases
    results = ended(forks, kind, folder, *asked)
    if kind in ALONE:
        results = ended(forks, ALONE[kind], folder, *asked) + results
    expected = {name: array for name, array in results[0].items() if name.endswith("/1")}
    assert {name.partition("/")[0] for name in expected} == set(cases)
    for found in results:
        for name, array in expected.items():
            both = found[f"{name[:-2]}/2"], array
            np.testing.assert_allclose(*both, atol=1e-5, rtol=1e-5, err_msg=name)
        norms = [expected[f"{case}/gradient_norm/1"] for case in cases]
        assert np.min(norms) > 0.01  # there is something that is equal


@pytest.mark.full
@pytest.mark.parametrize("kind", QUICK)
def test_embedding_losses_on_two_devices_equal_one(kind, forks, tmp_path):
    """Weights, moments and figures after two updates: of every loss, and in parts (GradCache)."""
    compare(forks, kind, QUICK[kind], tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", WHOLE)
def test_every_embedding_loss_on_devices_and_hosts_equals_one(kind, forks, tmp_path):
    compare(forks, kind, WHOLE[kind], tmp_path)
