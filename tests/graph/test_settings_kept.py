"""A configuration's settings are built as they are, or refused; none is dropped silently."""

import json

import numpy as np
import pytest

import kbert
from kbert import BertConfig
from kbert.show.one_projection import compare_heads


def test_classifier_dropout_overrides_hidden_dropout(small):
    """transformers: classifier_dropout, and hidden_dropout_prob where that is null."""
    own = small.replace(classifier_dropout=0.3)
    for build, layer in (
        (kbert.build_classifier, "Classifier-Dropout"),
        (kbert.build_token_classifier, "TokenClassifier-Dropout"),
    ):
        assert build(own).get_layer(layer).rate == 0.3
        assert build(small).get_layer(layer).rate == small.hidden_dropout_prob


def test_numpy_integers_are_accepted_as_sizes(small, tmp_path):
    config = small.replace(hidden_size=np.int64(24), vocab_size=np.int32(99))
    assert config == small
    assert json.loads(config.to_json(tmp_path / "config.json"))["hidden_size"] == 24
    model = kbert.build_bert(small, seq_len=np.int64(7))
    assert kbert.model_rows(model)[0].output_shape == "(None, 7)"
    assert kbert.account(small, np.int64(7), np.int64(13)).batch_size == 13


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"vocab_size": 99, "vocab_size": 98}', "'vocab_size' stands twice"),
        ('{"vocab_size": 99, "pruned_heads": {"1": [2]}}', "pruned_heads must be"),
        ('{"vocab_size": 99, "classifier_dropout": 1.5}', "classifier_dropout must be a rate"),
    ],
)
def test_ambiguous_or_unsupported_key_is_refused(tmp_path, content, said):
    path = tmp_path / "config.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=said):
        BertConfig.from_json(path)


def test_file_with_a_byte_order_mark_is_read(small, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(small.to_json(), encoding="utf-8-sig")
    assert BertConfig.from_json(path) == small


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda c: kbert.account(c, head=["encoder"]), "head must be one of"),
        (lambda c: kbert.account(c, dtype=["float32"]), "dtype must be one of"),
        (lambda c: compare_heads(c, length=0), "length must be a whole number"),
        (lambda c: kbert.predict("base", [[1]]), "model must be one that kbert built, .* got str"),
        (lambda c: kbert.predict(kbert.build_encoder(c), [[1]], batch_size=0), "batch_size must"),
        (lambda c: kbert.build_hidden_states(kbert.build_encoder(c), blocks=3), "blocks must be"),
        (lambda c: kbert.build_hidden_states(kbert.build_encoder(c), blocks=[]), "blocks must be"),
        (lambda c: kbert.build_hidden_states(kbert.build_encoder(c), blocks=[4]), "0 … 3 .* got 4"),
        (lambda c: kbert.build_attention_maps(kbert.build_encoder(c), blocks=[0]), "1 … 3 .*got 0"),
        (
            lambda c: kbert.build_encoder(c).summary(layer_range=["(", "MLM"]),
            r"layer_range must be patterns, got '\('",
        ),
    ],
)
def test_invalid_argument_is_named(small, call, said):
    with pytest.raises(ValueError, match=said):
        call(small)
