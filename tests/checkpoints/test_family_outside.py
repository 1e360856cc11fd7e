"""RoBERTa and DistilBERT have captum's attributions."""

import dataclasses

import numpy as np
import pytest
from helpers.peer_outputs import compute, run_peer
from numpy.testing import assert_allclose

import kbert

pytestmark = pytest.mark.full

pytest.importorskip("transformers")

TEXTS = ["the dog barks", "a cat", "two  blanks", "dogs bark a lot", "so does the cat"]
LABELLED = ("RobertaForSequenceClassification", "DistilBertForSequenceClassification")
CLASSES = (*LABELLED, "RobertaForMaskedLM", "RobertaModel")
PAIR = ("the dog barks", "so does the cat")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    out = tmp_path_factory.mktemp("family")
    run_peer("peer_family:write_classes", out, TEXTS, CLASSES)
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
    cases = {}
    for name in LABELLED:
        tokenizer = opened(folders, name).tokenizer
        ids = tokenizer.encode(*PAIR).ids
        kept = {tokenizer.cls_id, tokenizer.sep_id}
        baseline = [number if number in kept else tokenizer.pad_id for number in ids]
        cases[name] = {"ids": ids, "baseline": baseline, "label": 3}
    compute("peer_attribution:attribute_family", tmp_path, str(folders), cases)
    expected = np.load(tmp_path / "captum.npz")
    for name in LABELLED:
        found = kbert.attribute(opened(folders, name), *PAIR, target=3, steps=50)
        scores = expected[name][0].sum(-1)
        assert np.abs(scores).max() > 0.01
        assert_allclose(found.scores, scores, atol=1e-4)
        words = [(word.word, word.text) for word in found.words()]
        assert words == [(word, n) for n, text in enumerate(PAIR) for word in text.split()]
