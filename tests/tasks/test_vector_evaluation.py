"""Figures of sentence vectors, search and rank: sentence-transformers' numbers, and by hand."""

import json

import numpy as np
import pytest
from helpers.command_line import kbert as kbert_command
from helpers.errors import raises
from helpers.peer_vector_losses import columns_of_retrieval, vectors_for_retrieval
from helpers.sizes import FILES
from helpers.small_berts import TEXTS
from numpy.testing import assert_allclose

import kbert
from kbert.data.labelled.text_columns import TextColumns
from kbert.tasks.embedding.evaluation import score_embeddings, score_retrieval
from kbert.tasks.searching import inference

PEER = FILES / "vector_losses.npz"
SEVERAL = [text for text in TEXTS if text]


def examples_of(count: int, columns, **others) -> TextColumns:
    return TextColumns.from_texts(
        [[2, n + 5, 3] for n in range(count)], np.array(columns), **others
    )


def test_recall_equals_sentence_transformers():
    expected = np.load(PEER)
    found = score_retrieval(vectors_for_retrieval(), columns_of_retrieval()).metrics()
    assert len(found) == 4
    for name, value in found.items():
        assert value == pytest.approx(float(expected[f"retrieval.{name}"]), abs=1e-6), name


def test_a_query_does_not_find_itself():
    """In pairs of neighbours each text but the first is also what another is to find."""
    angles = np.array([0.0, 0.1, 0.3, 0.6])  # each is nearest to the one before
    unit = np.stack([np.cos(angles), np.sin(angles)], 1)
    found = score_retrieval(unit, np.array([[1, 0], [2, 1], [3, 2]])).metrics()
    assert found["recall@1"] == 1.0
    right = np.array([[1, 1], [2, 2], [3, 0]])  # but where it is right
    found = score_retrieval(unit, right).metrics()
    assert found["recall@1"] == pytest.approx(2 / 3)


def test_accuracy_of_triplets_and_recall_of_labels():
    unit = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]])
    examples = examples_of(4, [[0, 1, 2], [2, 3, 1], [0, 3, 1]])
    assert score_embeddings("triplets", examples, unit).metrics()["accuracy"] == pytest.approx(
        2 / 3
    )
    examples = examples_of(4, [[0], [1], [2], [3]], groups=np.array([0, 1, 1, 0], np.int32))
    found = score_embeddings("labelled sentences", examples, unit).metrics()
    assert found == {"recall@1": 0.0, "recall@5": 1.0, "recall@10": 1.0}


def test_search_equals_sentence_transformers(berts, monkeypatch):
    """Of its vectors; several queries at a time."""
    expected, vectors = np.load(PEER), vectors_for_retrieval()
    monkeypatch.setattr(inference, "SCORES_AT_ONCE", 50)
    monkeypatch.setattr(inference, "embed", lambda bert, texts, **_: vectors[: len(texts)])
    texts = [f"text {n}" for n in range(23)]
    found = kbert.search(berts["encoder"], ["query"] * 17, texts, embeddings=vectors[17:])
    assert [[hit.place for hit in row] for row in found] == expected["retrieval.places"].tolist()
    scores = [[hit.score for hit in row] for row in found]
    assert_allclose(scores, expected["retrieval.scores"], atol=1e-6)
    assert [hit.text for hit in found[0]] == [texts[hit.place] for hit in found[0]]


def test_search_orders_by_cosine_of_embed(berts):
    bert = berts["encoder"]
    vectors = kbert.embed(bert, SEVERAL)
    cosines = kbert.similarity(bert, SEVERAL)[4]
    hits = kbert.search(bert, SEVERAL[4], SEVERAL, top_k=3)
    assert hits[0].text == SEVERAL[4] and hits[0].score == pytest.approx(1.0)
    assert [hit.place for hit in hits] == np.argsort(-cosines, kind="stable")[:3].tolist()
    assert kbert.search(bert, SEVERAL[4], SEVERAL, top_k=3, embeddings=vectors) == hits
    large = kbert.search(bert, SEVERAL[4], SEVERAL, top_k=3, embeddings=vectors * 1e30)
    assert [hit.score for hit in large] == pytest.approx([hit.score for hit in hits])
    cut = kbert.search(bert, SEVERAL[4], SEVERAL, embeddings=vectors[:, :5])
    assert len(cut) == 10 and cut[0].score == pytest.approx(1.0)
    assert kbert.rank(bert, SEVERAL[4], SEVERAL)[:3] == hits


def test_equal_texts_come_in_their_order(berts):
    hits = kbert.search(berts["encoder"], "cat", ["dog", "cat", "sun", "cat", "cat"], top_k=2)
    assert [hit.place for hit in hits] == [1, 3]


def test_rank_orders_by_classifier_probability(berts):
    bert, texts = berts["classifier"], SEVERAL[:5]
    said = kbert.classify(bert, ["a cat"] * 5, texts)
    scores = [{one.label: one.probability for one in row}["LABEL_3"] for row in said]
    hits = kbert.rank(bert, "a cat", texts, label="LABEL_3")
    assert [hit.place for hit in hits] == np.argsort(-np.array(scores), kind="stable").tolist()
    assert [hit.score for hit in hits] == pytest.approx(sorted(scores, reverse=True))


@pytest.mark.full
@pytest.mark.parametrize("labels", [1, 2])
def test_rank_by_a_number_or_by_the_second_of_two_labels(berts, small, labels):
    model = kbert.build_classifier(small, seq_len=None, num_labels=labels)
    bert = kbert.Bert(small, "classifier", model, berts["encoder"].tokenizer)
    hits = kbert.rank(bert, "a cat", SEVERAL[:5])
    if labels == 1:
        expected = 1 / (1 + np.exp(-kbert.regress(bert, ["a cat"] * 5, SEVERAL[:5])))
    else:
        said = kbert.classify(bert, ["a cat"] * 5, SEVERAL[:5])
        expected = [{one.label: one.probability for one in row}["LABEL_1"] for row in said]
    assert [hit.score for hit in hits] == pytest.approx(sorted(expected, reverse=True))


REFUSED = {
    "one text": (dict(texts="cat"), ("texts", "one str")),
    "top_k": (dict(top_k=0), ("top_k", "1", "got 0")),
    "count": (dict(embeddings=np.ones((3, 24))), ("2", "float64 (3, 24)")),
    "kind": (dict(embeddings=np.ones((2, 24), int)), ("embeddings",)),
    "not finite": (
        dict(embeddings=np.array([[1.0] * 24, [np.nan] * 24])),
        ("embeddings", "NaN", "1 of 2"),
    ),
    "infinite": (
        dict(embeddings=np.array([[-np.inf] * 24, [1.0] * 24])),
        ("embeddings", "1 of 2"),
    ),
    "longer": (
        dict(embeddings=np.ones((2, 25))),
        ("embeddings", "24"),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_search_refuses_bad_arguments(berts, case):
    given, said = REFUSED[case]
    with raises(ValueError, *said) as refused:
        kbert.search(berts["encoder"], **{"query": "cat", "texts": ["dog", "sun"], **given})
    assert "\n" not in str(refused.value)


def test_rank_refuses_bad_arguments(berts):
    with raises(ValueError, "label", "LABEL_0", "LABEL_4"):
        kbert.rank(berts["classifier"], "cat", ["dog"])
    with raises(ValueError, "label", "'encoder'"):
        kbert.rank(berts["encoder"], "cat", ["dog"], label="x")
    with raises(ValueError, "query", "list"):
        kbert.rank(berts["encoder"], ["cat"], ["dog"])


@pytest.mark.full
def test_search_and_rank_commands_match_the_functions(berts, tmp_path, capsys):
    bert, folder = berts["encoder"], tmp_path / "model"
    kbert.save(bert, folder)
    (tmp_path / "texts.txt").write_text("\n".join(SEVERAL) + "\n")
    lines, vectors = ["--lines", tmp_path / "texts.txt"], tmp_path / "vectors.npy"
    hits = kbert.search(bert, "red cat", SEVERAL, top_k=3)
    np.save(vectors, kbert.embed(bert, SEVERAL))
    options = ["--top-k", 3, "--embeddings", vectors, "--format", "json"]
    done = kbert_command(capsys, "search", folder, "red cat", *lines, *options)
    assert done.status == 0
    for found, hit in zip(json.loads(done.out), hits, strict=True):
        assert (found["place"], found["text"]) == (hit.place, hit.text)
        assert found["score"] == pytest.approx(hit.score, abs=1e-5)
    done = kbert_command(capsys, "rank", folder, "red cat", *lines)
    first, second = done.out.splitlines()[0].split()[:2]
    assert (float(first), int(second)) == (round(hits[0].score, 4), hits[0].place + 1)
    (tmp_path / "no.npy").write_text("no array")
    done = kbert_command(
        capsys, "search", folder, "cat", *lines, "--embeddings", tmp_path / "no.npy"
    )
    assert done.status == 2 and done.err.count("\n") == 1 and ".npy" in done.err
    done = kbert_command(capsys, "search", folder, "cat")
    assert done.status == 2 and "--lines" in done.err
