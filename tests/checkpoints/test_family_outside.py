"""RoBERTa and DistilBERT have captum's attributions and transformers' ONNX numbers."""

import dataclasses
import importlib.util
import json
import subprocess
import sys

import numpy as np
import pytest
from helpers.marks import nightly
from helpers.peer_outputs import run_peer
from helpers.sizes import HELPERS
from numpy.testing import assert_allclose

import kbert

pytestmark = pytest.mark.full

pytest.importorskip("transformers")

TEXTS = ["the dog barks", "a cat", "two  blanks", "dogs bark a lot", "so does the cat"]
LABELLED = ("RobertaForSequenceClassification", "DistilBertForSequenceClassification")
CLASSES = (*LABELLED, "RobertaForMaskedLM", "RobertaModel", "DistilBertForQuestionAnswering")
PAIR = ("the dog barks", "so does the cat")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    out = tmp_path_factory.mktemp("family")
    run_peer("peer_family.py", out, json.dumps(TEXTS), out, *CLASSES)
    return out


def opened(folders, name):
    bert = kbert.load(folders / name)
    if bert.config.model_type == "roberta":
        tokenizer = kbert.Tokenizer.load(folders / "bpe")
    else:
        tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "dog", "so", "does", "cat"]
        tokens += ["bark", "##s"] + [f"[unused{n}]" for n in range(bert.config.vocab_size - 12)]
        tokenizer = kbert.Tokenizer.from_vocab(tokens, lowercase=True)
    return dataclasses.replace(bert, tokenizer=tokenizer)


def test_scores_are_captums(folders, tmp_path):
    if importlib.util.find_spec("captum") is None:
        pytest.skip("pip install --no-deps captum: whose numbers these are")
    cases = {}
    for name in LABELLED:
        tokenizer = opened(folders, name).tokenizer
        ids = tokenizer.encode(*PAIR).ids
        kept = {tokenizer.cls_id, tokenizer.sep_id}
        baseline = [number if number in kept else tokenizer.pad_id for number in ids]
        cases[name] = {"ids": ids, "baseline": baseline, "label": 3}
    command = [sys.executable, str(HELPERS / "peer_family_attribution.py"), str(folders)]
    command.append(str(tmp_path / "captum.npz"))
    done = subprocess.run(command, input=json.dumps(cases), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    expected = np.load(tmp_path / "captum.npz")
    for name in LABELLED:
        found = kbert.attribute(opened(folders, name), *PAIR, target=3, steps=50)
        scores = expected[name].sum(-1)
        assert np.abs(scores).max() > 0.01
        assert_allclose(found.scores, scores, atol=1e-4)
        words = [(word.word, word.text) for word in found.words()]
        assert words == [(word, n) for n, text in enumerate(PAIR) for word in text.split()]


def test_a_masked_word_of_roberta_is_attributed(folders):
    bert = opened(folders, "RobertaForMaskedLM")
    found = kbert.attribute(bert, "a <mask>")
    (best, *_) = kbert.fill_mask(bert, "a <mask>")[0]
    assert (found.target, round(found.value, 4)) == (best.token, round(best.probability, 4))
    likeness = kbert.attribute(opened(folders, "RobertaModel"), "a cat", similar_to="a cat")
    assert likeness.value == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("name", [*CLASSES[1:3], *map(nightly, CLASSES[3:])])
def test_an_onnx_folder_gives_transformers_numbers(folders, tmp_path, name):
    for package in ("tf2onnx", "onnxruntime"):
        pytest.importorskip(package, reason="writes and runs ONNX: pip install -e '.[test-full]'")
    bert, peer = opened(folders, name), np.load(folders / f"{name}.npz")
    found = run_onnx(bert, peer["ids"], tmp_path / "out")
    wanted = [peer[key] for key in peer.files if key.startswith("arr_")]
    real = peer["ids"] != bert.config.pad_token_id
    values = [found[key] for key in sorted(found, reverse=True)]  # start_logits before end_logits
    for value, expected in zip(values, wanted, strict=False):  # no pooler_output there
        place = real if value.shape[:2] == real.shape else slice(None)
        assert_allclose(value[place], expected[place], atol=1e-4)
    assert kbert.load(tmp_path / "out").architecture == bert.architecture


def run_onnx(bert, ids, folder) -> dict:
    """The outputs by name."""
    import onnxruntime

    kbert.save(bert, folder, format="transformers_onnx")
    path = str(folder / "onnx" / "model.onnx")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert [one.name for one in session.get_inputs()] == ["input_ids", "attention_mask"]
    mask = (ids != bert.config.pad_token_id).astype("int64")
    given = {"input_ids": ids.astype("int64"), "attention_mask": mask}
    names = [one.name for one in session.get_outputs()]
    return dict(zip(names, session.run(None, given), strict=True))
