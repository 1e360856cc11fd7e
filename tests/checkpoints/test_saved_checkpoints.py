"""transformers opens what kbert saves, with the same weights and numbers."""

import json

import numpy as np
import pytest
from helpers.small_berts import small_bert
from numpy.testing import assert_allclose

import kbert

pytestmark = pytest.mark.full

transformers = pytest.importorskip("transformers", reason="the peer: pip install -e '.[test-full]'")
torch = pytest.importorskip("torch")


@pytest.mark.parametrize(
    ("head", "name"),
    [
        ("encoder", "BertModel"),
        ("pretraining", "BertForPreTraining"),
        ("classifier", "BertForSequenceClassification"),
        ("tokens", "BertForTokenClassification"),
        ("qa", "BertForQuestionAnswering"),
    ],
)
@pytest.mark.filterwarnings("ignore")  # transformers' own
def test_transformers_opens_what_kbert_saves(small, tmp_path, head, name):
    bert = small_bert(small, head)
    kbert.save(bert, tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["architectures"] == [name]
    peer, info = getattr(transformers, name).from_pretrained(tmp_path, output_loading_info=True)
    assert not any(info.values())
    ids = np.random.default_rng(1).integers(1, 99, (3, 11))
    ids[1, 7:] = 0
    with torch.no_grad():
        mask = torch.tensor((ids != 0).astype("int64"))
        expected = list(peer.eval()(torch.tensor(ids), attention_mask=mask).values())
    for found, wanted in zip(kbert.predict(bert.model, ids).values(), expected, strict=True):
        real = ids != 0 if found.shape[:2] == ids.shape else slice(None)
        assert_allclose(found[real], wanted.numpy()[real], atol=1e-5, rtol=1e-5)
