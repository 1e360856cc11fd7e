"""What one does with a checkpoint: transformers' and sentence-transformers' answers."""

import json

import numpy as np
import pytest
from helpers.peer_outputs import run_peer
from helpers.peer_tasks import CONTEXTS, MASKED, PAIRS, QUESTIONS, TEXTS
from numpy.testing import assert_allclose

import kbert


@pytest.fixture(scope="module")
def folders(small, tmp_path_factory):
    """What transformers wrote, with a vocabulary, and what it makes of texts."""
    out = tmp_path_factory.mktemp("tasks")
    run_peer("peer_tasks:answer_texts", out, small.to_dict())
    return out


@pytest.fixture(scope="module")
def expected(folders):
    return json.loads((folders / "expected.json").read_text())


@pytest.fixture(scope="module")
def encoder(folders):
    return kbert.load(folders / "BertModel")


def test_fill_mask_equals_transformers(folders, expected):
    found = kbert.fill_mask(kbert.load(folders / "BertForMaskedLM"), MASKED)
    for filled, wanted in zip(found, expected["masks"], strict=True):
        assert len(filled) == len(wanted)
        for candidates, best in zip(filled, wanted, strict=True):
            assert [one.token for one in candidates] == [token for token, _ in best]
            assert_allclose(
                [one.probability for one in candidates], [p for _, p in best], atol=1e-5
            )


def test_next_sentence_equals_label_0_of_transformers(folders, expected):
    found = kbert.next_sentence(kbert.load(folders / "BertForNextSentencePrediction"), TEXTS, PAIRS)
    assert np.ptp(expected["next"]) > 0.1
    assert_allclose(found, expected["next"], atol=1e-5)


@pytest.mark.parametrize("kind", ["single", "pairs"])
def test_classify_equals_transformers(folders, expected, kind):
    bert = kbert.load(folders / "BertForSequenceClassification")
    found = kbert.classify(bert, TEXTS, PAIRS if kind == "pairs" else None)
    for labels, wanted in zip(found, expected["labels"][kind], strict=True):
        assert [one.label for one in labels] == [label for label, _ in wanted]
        assert_allclose([one.probability for one in labels], [p for _, p in wanted], atol=1e-5)


def test_tag_equals_transformers(folders, expected):
    found = kbert.tag(kbert.load(folders / "BertForTokenClassification"), TEXTS)
    assert sum(map(len, found)) > 15
    for words, wanted in zip(found, expected["words"], strict=True):
        plain = [[word.word, word.label, word.start, word.end] for word in words]
        assert plain == [[word, label, start, end] for word, label, _, start, end in wanted]
        assert_allclose(
            [word.probability for word in words], [p for _, _, p, _, _ in wanted], atol=1e-5
        )


def test_answer_is_the_best_span_of_all_windows(folders, expected):
    bert = kbert.load(folders / "BertForQuestionAnswering")
    found = kbert.answer(bert, QUESTIONS, CONTEXTS, stride=3, max_answer_tokens=5)
    for one, (text, score, start, end) in zip(found, expected["answers"], strict=True):
        assert (one.text, one.start, one.end) == (text, start, end)
        assert_allclose(one.score, score, atol=1e-5)


@pytest.mark.parametrize("pooling", kbert.checkpoints.sentence_settings.POOLINGS)
def test_embeddings_equal_transformers_hidden_states_pooled(folders, encoder, pooling):
    wanted = np.load(folders / "vectors.npz")[pooling]
    layers = 2 if pooling == "last" else None
    found = kbert.embed(encoder, TEXTS, pooling=pooling, num_layers=layers, batch_size=4)
    assert (found.dtype, found.shape) == (np.dtype("float32"), wanted.shape)
    assert_allclose(found, wanted, atol=1e-5)


def test_attention_maps_equal_transformers(folders, encoder):
    wanted = np.load(folders / "vectors.npz")
    for place, found in enumerate(kbert.attention(encoder, TEXTS, PAIRS)):
        assert_allclose(found.weights, wanted[f"map{place}"], atol=1e-6)
        figures = [(one.entropy, one.distance) for one in found.statistics()]
        assert_allclose(figures, wanted[f"figures{place}"], atol=1e-5)
    one = kbert.attention(encoder, TEXTS[0], PAIRS[0], layer=2, head=3)
    assert_allclose(one.weights[0, 0], wanted["map0"][1, 2], atol=1e-6)
    assert_allclose(one.queries[0, 0], wanted["query"][1, 2], atol=1e-5)
    whole = kbert.attention(encoder, TEXTS[0], PAIRS[0])
    assert_allclose(whole.queries, wanted["query"], atol=1e-5)
    assert kbert.attention(encoder, TEXTS[:2])[0].queries is None
    listed = kbert.attention(encoder, TEXTS, PAIRS, vectors=True)[0]
    assert_allclose(listed.keys, wanted["key"], atol=1e-5)
