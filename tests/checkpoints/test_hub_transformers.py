"""transformers and sentence-transformers share hub and cache with kbert, and compute the same."""

import shutil

import numpy as np
import pytest
from helpers.hub_models import BERT, MINILM, check_same
from helpers.texts import real_vocabulary
from numpy.testing import assert_allclose

import kbert

pytestmark = pytest.mark.full
TEXTS = ["the cat sat .", "a red moon", "big dog"]
TRANSFORMERS = """
import json, sys
import numpy as np, torch, transformers
tokenizer = transformers.AutoTokenizer.from_pretrained({name!r})
model = transformers.AutoModel.from_pretrained({name!r}).eval()
with torch.no_grad():
    states = [model(**tokenizer(text, return_tensors="pt")).last_hidden_state for text in {texts}]
np.save({out!r}, np.stack([state[0, 0].numpy() for state in states]))
"""
SENTENCE_TRANSFORMERS = """
import numpy as np
from sentence_transformers import SentenceTransformer
np.save({out!r}, SentenceTransformer({name!r}, device="cpu").encode({texts}))
"""


@pytest.fixture
def peer(tmp_path, run_python):
    """A function that runs a peer's program for a model's name, and returns its vectors."""

    def compute(program: str, name: str, **variables) -> np.ndarray:
        pytest.importorskip("sentence_transformers", reason="the peer")
        out = str(tmp_path / "vectors.npy")
        run_python(program.format(name=name, texts=TEXTS, out=out), **variables)
        return np.load(out)

    return compute


@pytest.mark.parametrize("name", ["bert-base-uncased", BERT])
def test_what_transformers_cached_opens_with_its_numbers(hub, bert_folder, peer, name, no_sockets):
    """The name without owner too, which transformers caches as it is written."""
    commit = hub.add(BERT, bert_folder)
    hub.moved["bert-base-uncased"] = BERT
    theirs = peer(TRANSFORMERS, name)
    no_sockets()
    bert = kbert.load(name)
    assert bert.source == f"hf://{BERT}@{commit}"
    check_same(bert, bert_folder)
    assert_allclose(kbert.embed(bert, TEXTS, pooling="cls"), theirs, atol=1e-5)


def test_what_kbert_downloaded_opens_in_transformers_offline(hub, bert_folder, peer):
    hub.add(BERT, bert_folder)
    ours = kbert.embed(kbert.load(BERT), TEXTS, pooling="cls")
    asked = len(hub.requests)
    assert_allclose(ours, peer(TRANSFORMERS, BERT, HF_HUB_OFFLINE="1"), atol=1e-5)
    assert len(hub.requests) == asked


def test_minilm_itself(hub, tmp_path, peer):
    """The real model: what is downloaded, sentence-transformers' vectors."""
    folder = tmp_path / "minilm"
    shutil.copytree(real_vocabulary(), folder)
    for name in ("pytorch_model.bin", "onnx/model.onnx", "openvino/openvino_model.bin"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"\0" * 1000)
    commit = hub.add(MINILM, folder)
    bert = kbert.load(MINILM)
    assert bert.source == f"hf://{MINILM}@{commit}"
    assert not {name for name in hub.sent() if name.endswith((".bin", ".onnx"))}
    assert hub.sent()["model.safetensors"] == (folder / "model.safetensors").stat().st_size
    theirs = peer(SENTENCE_TRANSFORMERS, MINILM)  # from the cache that kbert filled, and the hub
    assert_allclose(kbert.embed(bert, TEXTS), theirs, atol=1e-5)
