"""Twenty updates give transformers' losses, norms, rates and weights."""

from pathlib import Path

import numpy as np
import pytest
from helpers.peer_outputs import run_peer
from helpers.sizes import SIZES
from helpers.training_batches import PREDICTIONS, arrays, batch_of

import kbert
from kbert.training import backends
from kbert.training.engine import Engine
from kbert.training.optimization.optimizers import Optimizer

UPDATES, BATCH = 20, 13
SETTINGS = {"learning_rate": 3e-3, "weight_decay": 0.1, "epsilon": 1e-6, "clip_norm": 0.5}
SETTINGS |= {"warmup_steps": 3, "total_steps": 24}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder of each kind with what transformers came to: checkpoints, figures of each update."""
    out = tmp_path_factory.mktemp("trained")
    settings = {}
    for kind in ("pretraining", "classifier"):
        (out / kind).mkdir()
        np.savez(out / kind / "batches.npz", **arrays(kind, UPDATES, BATCH))
        sizes = SIZES | NO_DROPOUT | {"num_hidden_layers": 1}
        settings[kind] = SETTINGS | {"sizes": sizes}
    run_peer("peer_training:train", out, settings)
    return out


@pytest.fixture(scope="module")
def pretrained(trained):
    return updates(trained / "pretraining", "pretraining")


def updates(folder: Path, kind: str, **options):
    """The engine after as many updates from the same first weights, and its figures."""
    backend = backends.start()
    with backend.scope():
        bert = kbert.load(folder / "first", seq_len=11)
        model = bert.model
        if kind == "pretraining":
            model = kbert.build_bert(bert.config, seq_len=11, max_predictions=PREDICTIONS)
            model.set_weights(bert.model.get_weights())
    settings = {name: value for name, value in SETTINGS.items() if name != "clip_norm"}
    clip_norm = SETTINGS["clip_norm"]
    engine = Engine(backend, model, Optimizer(**settings), clip_norm=clip_norm, **options)
    data = arrays(kind, UPDATES, BATCH)
    logs = [engine.update(batch_of(data, step), step) for step in range(UPDATES)]
    return engine, {name: np.array([float(log[name]) for log in logs]) for name in logs[0]}


@pytest.mark.parametrize(
    "kind", ["pretraining", pytest.param("classifier", marks=[pytest.mark.full])]
)
def test_training_steps_equal_transformers(trained, kind, request):
    folder = trained / kind
    peer = np.load(folder / "figures.npz")
    if kind == "pretraining":
        engine, ours = request.getfixturevalue("pretrained")
    else:
        engine, ours = updates(folder, kind)
    assert (peer["gradient_norm"] > SETTINGS["clip_norm"]).sum() >= 15  # the clip bites
    np.testing.assert_allclose(ours["loss"], peer["loss"], rtol=1e-4)
    np.testing.assert_allclose(ours["gradient_norm"], peer["gradient_norm"], rtol=2e-4)
    np.testing.assert_allclose(ours["learning_rate"], peer["learning_rate"], rtol=1e-6)
    assert ours["finite"].all()
    first, last = (kbert.load(folder / name).model.get_weights() for name in ("first", "last"))
    moved = 0.0
    for before, after, own in zip(first, last, engine.model.get_weights(), strict=True):
        np.testing.assert_allclose(own, after, atol=1e-4)
        moved = max(moved, np.abs(after - before).max())
    assert moved > 0.01  # a hundred times the tolerance


def test_reported_losses_add_up_to_the_loss(pretrained):
    _, ours = pretrained
    np.testing.assert_allclose(ours["MLM_loss"] + ours["NSP_loss"], ours["loss"], rtol=1e-6)


@pytest.mark.full
def test_accumulation_and_xla_change_nothing(trained, pretrained, backend):
    whole, figures = pretrained
    options = {"accumulation_steps": BATCH} | ({} if backend == "torch" else {"jit": True})
    parts, others = updates(trained / "pretraining", "pretraining", **options)
    for name in ("loss", "gradient_norm"):
        np.testing.assert_allclose(others[name], figures[name], rtol=1e-5, err_msg=name)
    for one, other in zip(whole.model.get_weights(), parts.model.get_weights(), strict=True):
        np.testing.assert_allclose(other, one, atol=2e-5)
