"""verify accepts what agrees; otherwise it names the row, the expected and the found value."""

import dataclasses
import re

import keras
import pytest

import kbert
from kbert.graph import closed_form, reference
from kbert.graph.reference.errata import errata
from kbert.graph.spec import GraphSpec
from kbert.show.verification import compare_summaries, config_of


@pytest.fixture(scope="module")
def report():
    return kbert.verify()


def test_graph_closed_form_and_documents_agree_on_base(report):
    assert report.ok
    assert report.differences == ()
    pairs = {(part.found, part.expected) for part in report.comparisons}
    assert {
        ("graph", "closed forms"),
        ("graph", '"Understanding BERT architecture"'),
        ("closed forms", '"Understanding BERT architecture"'),
        ("closed forms", "bert-base-uncased"),
        ("closed forms", "bert-large-uncased"),
        ("closed forms", "published totals"),
        ("graph", "transformers' parameters"),
    } <= pairs


def test_verdict_counts_what_agrees_and_what_is_corrected(report):
    """Its numbers are those of the report; nothing is said to agree that was not compared."""
    published = {"document 004": '"Understanding BERT architecture"', "totals": "published totals"}
    published |= {"001": "bert-base-uncased", "002": "bert-large-uncased"}
    compared = {name for part in report.comparisons for name in (part.found, part.expected)}
    assert set(published.values()) < compared
    assert re.findall(r"\d+", report.verdict) == [str(len(published)), str(len(report.errata))]
    assert str(report).rstrip().endswith(report.verdict.split()[-1])
    assert max(map(len, str(report).splitlines())) <= 80
    for title in re.findall(r"[^\x00-\u2fff]", str(report)):
        pytest.fail(f"{title} needs a font that a terminal may not have")
    small = kbert.verify("tiny")
    assert not re.search(r"\d|published", small.verdict) and "agree" in small.verdict


def test_report_has_every_erratum_of_the_shared_list(report, shared):
    lines = (shared / "reference" / "errata.md").read_text(encoding="utf-8").splitlines()
    documents = [line.split("|")[1].strip() for line in lines if line.startswith("| 0")]
    documents = [name for name in documents if name != "document"]
    found = [entry.document for entry in report.errata]
    assert sorted(name.replace("paper", "") for name in found) == sorted(
        name.replace("paper", "") for name in documents
    )
    assert all(entry.holds and entry.arithmetic for entry in report.errata)


def test_report_fails_if_an_erratum_does_not_hold(report):
    wrong = dataclasses.replace(report.errata[0], holds=False)
    assert not dataclasses.replace(report, errata=(wrong,)).ok


def test_errata_are_computed_from_the_tables(monkeypatch):
    """With a row of the document gone, its count of 112 rows no longer holds."""
    from kbert.graph.reference import errata as module

    rows = reference.document_004()
    monkeypatch.setattr(module, "document_004", lambda: rows[:20] + rows[21:])
    assert not all(entry.holds for entry in errata())


@pytest.mark.parametrize(
    "build",
    [
        kbert.build_bert,
        kbert.build_encoder,
        kbert.build_classifier,
        kbert.build_token_classifier,
        kbert.build_question_answering,
    ],
)
@pytest.mark.parametrize("seq_len", [7, pytest.param(None, marks=pytest.mark.full)])
def test_every_head_equals_its_closed_form(build, seq_len, small):
    report = kbert.verify(build(small, seq_len=seq_len))
    assert report.ok, str(report)


def test_configuration_is_read_from_the_layers(small):
    changed = small.replace(
        hidden_act="relu", layer_norm_eps=1e-5, hidden_dropout_prob=0.3, pad_token_id=4
    )
    assert config_of(kbert.build_encoder(changed)) == changed


def tampered(small, layer_name, change):
    """A copy of a model in which one layer's configuration is another."""
    model = kbert.build_bert(small, seq_len=7)

    def clone(layer):
        config = layer.get_config()
        if layer.name == layer_name:
            change(config)
        return layer.__class__.from_config(config)

    return keras.models.clone_model(model, clone_function=clone)


@pytest.mark.parametrize(
    ("layer", "change", "expected", "found"),
    [
        ("Encoder-2-FeedForward", {"units": 41}, "1984", "2033"),
        # in each of Q, K, V and the output 24·4·6 becomes 24·4·7, and 3 biases grow by 4
        ("Encoder-3-MultiHeadSelfAttention", {"key_dim": 7, "value_dim": 7}, "2400", "2796"),
        ("NSP-Dense", {"use_bias": False}, "600", "576"),
    ],
)
def test_report_names_a_layer_of_another_size(small, layer, change, expected, found):
    report = kbert.verify(tampered(small, layer, lambda config: config.update(change)))
    assert not report.ok
    lines = [line for line in str(report).splitlines() if f"{layer}: params" in line]
    assert lines == [f"  {layer}: params expected {expected}, found {found}"]


def test_report_names_missing_added_and_moved_rows(small):
    rows = closed_form.rows(GraphSpec(small, seq_len=7))
    added = dataclasses.replace(rows[4], layer="Extra")
    moved = (rows[1], rows[0], *rows[2:9], added, *rows[10:])
    texts = [str(difference) for difference in compare_summaries(moved, rows)]
    assert texts == [
        "Encoder-1-MultiHeadSelfAttention-Dropout: row expected present, found missing",
        "Extra: row expected none, found Add, 0 parameters",
        "row 1: layer expected Input-Token, found Input-Segment",
    ]


def test_report_names_a_changed_connection(small):
    rows = closed_form.rows(GraphSpec(small, seq_len=7))
    changed = dataclasses.replace(rows[10], connected_to="Embedding-Norm[0][0]")
    (difference,) = compare_summaries((*rows[:10], changed, *rows[11:]), rows)
    assert (difference.where, difference.what) == (rows[10].layer, "connected_to")


def test_plain_keras_model_is_compared_by_layer_names(small):
    """Keras's own layers under the documents' names: their types are what differs."""
    tokens = keras.Input((7,), dtype="int32", name="Input-Token")
    x = keras.layers.Embedding(99, 24, name="Embedding-Token")(tokens)
    report = kbert.verify(keras.Model(tokens, x))
    assert not report.ok
    texts = [str(difference) for difference in report.differences]
    assert "Embedding-Token: type expected TokenEmbedding, found Embedding" in texts
    assert "Input-Segment: row expected present, found missing" in texts


def test_base_with_document_004s_dropout_is_verified():
    """Document 004 builds with dropout_rate=0.05; its table tells sizes alone."""
    report = kbert.verify(kbert.base.replace(hidden_dropout_prob=0.05))
    assert report.ok
    assert ("graph", '"Understanding BERT architecture"') in {
        (part.found, part.expected) for part in report.comparisons
    }
