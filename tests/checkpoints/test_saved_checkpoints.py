"""What kbert saves, transformers opens: the same weights, the same numbers."""

import json
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kbert

pytestmark = pytest.mark.full

transformers = pytest.importorskip("transformers", reason="the peer: pip install -e '.[test]'")
torch = pytest.importorskip("torch")


@pytest.mark.parametrize(
    ("build", "head", "name"),
    [
        (kbert.build_encoder, "encoder", "BertModel"),
        (kbert.build_bert, "pretraining", "BertForPreTraining"),
        (kbert.build_classifier, "classifier", "BertForSequenceClassification"),
        (kbert.build_token_classifier, "tokens", "BertForTokenClassification"),
        (kbert.build_question_answering, "qa", "BertForQuestionAnswering"),
    ],
)
@pytest.mark.filterwarnings("ignore")  # transformers' own
def test_transformers_opens_what_kbert_saves(small, tmp_path, build, head, name):
    options = {"num_labels": 5} if head in ("classifier", "tokens") else {}
    model = build(small, seq_len=None, **options)
    random = np.random.default_rng(1)
    for weight in model.weights:
        weight.assign(weight.numpy() + random.normal(0, 0.2, weight.shape).astype("float32"))
    kbert.save(kbert.Bert(small, head, model), tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["architectures"] == [name]
    peer, info = getattr(transformers, name).from_pretrained(tmp_path, output_loading_info=True)
    assert not any(info.values())
    ids = random.integers(1, 99, (3, 11))
    ids[1, 7:] = 0
    with torch.no_grad():
        mask = torch.tensor((ids != 0).astype("int64"))
        expected = list(peer.eval()(torch.tensor(ids), attention_mask=mask).values())
    for found, wanted in zip(kbert.predict(model, ids).values(), expected, strict=True):
        real = ids != 0 if found.shape[:2] == ids.shape else slice(None)
        assert_allclose(found[real], wanted.numpy()[real], atol=1e-5, rtol=1e-5)


FILLS = """
import resource, signal, sys
import kbert
config, path = kbert.get_config(sys.argv[1]), sys.argv[2]
bert = kbert.Bert(config, "encoder", kbert.build_encoder(config))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write beyond the limit fails, as on a full disk
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    kbert.save(bert, path, format=sys.argv[3])
except OSError as error:
    print("OSError:", error.filename)
"""


@pytest.mark.parametrize("form", ["transformers", "google"])
def test_an_old_checkpoint_survives_a_disk_that_fills(small, tmp_path, form):
    pytest.importorskip("resource", reason="no file size limits on this system")
    path = tmp_path / "bert"
    kbert.save(kbert.Bert(small, "encoder", kbert.build_encoder(small)), path, format=form)
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    config = small.to_json(tmp_path.parent / f"{form}.json") and tmp_path.parent / f"{form}.json"
    command = [sys.executable, "-c", FILLS, str(config), str(path), form]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.strip() == f"OSError: {path}", done.stderr[-2000:]
    after = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    assert after == before
