"""Sentence vectors on two devices: their losses are of the whole batch, as on one device."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.sizes import HELPERS
from helpers.vector_process import BY_XLA, CASES
from test_training_processes import environments

SCRIPT = HELPERS / "vector_process.py"
LOSSES = ("infonce", "cosent", "triplet", "cosine")
QUICK = {  # torch compiles nothing, and has every loss
    "mirrored": ("cosent", "infonce_in_parts", "infonce_in_parts_by_xla"),
    "jax_devices": ("triplet", "infonce_in_parts", "drawing_in_parts"),
    "torch_processes": (*LOSSES, "infonce_in_parts", "encoder", "adapters_in_parts"),
}
WHOLE = {kind: tuple(CASES | (BY_XLA if kind == "mirrored" else {})) for kind in QUICK} | {
    "workers": ("infonce_in_parts",),  # TensorFlow's hosts meet once in a process
    "jax_hosts": ("infonce", "encoder_in_parts", "drawing_in_parts"),
}
ALONE = {"workers": "mirrored", "jax_hosts": "jax_devices"}  # whose process has one device too


def ended(kind: str, cases, folder: Path) -> list[dict]:
    """What each process of a way to train ends with."""
    running: list[tuple[subprocess.Popen, Path]] = []
    for index, variables in enumerate(environments(kind)):
        out = folder / f"{kind}-{index}.npz"
        environment = {k: v for k, v in os.environ.items() if k != "KERAS_BACKEND"} | variables
        command = [sys.executable, str(SCRIPT), str(out), *cases]
        process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        running.append((process, out))
    try:
        said = [process.communicate(timeout=500)[1] for process, _ in running]
    finally:
        for process, _ in running:
            process.kill()
    for (process, _), errors in zip(running, said, strict=True):
        assert process.returncode == 0, errors[-3000:]
    return [dict(np.load(out)) for _, out in running]


def compare(kind: str, cases, folder: Path) -> None:
    if kind.startswith(("jax", "torch")) and not importlib.util.find_spec(kind.partition("_")[0]):
        pytest.skip(f"{kind}: its library is not there")
    results = ended(kind, cases, folder)
    if kind in ALONE:
        results = ended(ALONE[kind], cases, folder) + results
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
def test_embedding_losses_on_two_devices_equal_one(kind, tmp_path):
    """Weights, moments and figures after two updates: of every loss, and in parts (GradCache)."""
    compare(kind, QUICK[kind], tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", WHOLE)
def test_every_embedding_loss_on_devices_and_hosts_equals_one(kind, tmp_path):
    compare(kind, WHOLE[kind], tmp_path)
