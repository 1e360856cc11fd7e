"""Presets have their published sizes; a configuration is a value, built as it is or refused."""

import dataclasses
import json
import pickle

import numpy as np
import pytest
from helpers.errors import raises
from helpers.sizes import ODD_CONFIG

import kbert
from kbert import PRESETS, BertConfig, base, get_config

# T, L, H, A. Shapes: google-research/bert, README, "Pre-trained models", and the paper, section 3.
# Vocabularies: `vocab_size` of each release's bert_config.json; the paper and document 004 say
# "30,000" and "30k".
RELEASED = {
    "base": (30_000, 12, 768, 12),
    "large": (30_000, 24, 1024, 16),
    "base_uncased": (30_522, 12, 768, 12),
    "base_cased": (28_996, 12, 768, 12),
    "large_uncased": (30_522, 24, 1024, 16),
    "large_cased": (28_996, 24, 1024, 16),
    "base_multilingual_cased": (119_547, 12, 768, 12),
    "base_chinese": (21_128, 12, 768, 12),
    "tiny": (30_522, 2, 128, 2),
    "mini": (30_522, 4, 256, 4),
    "small": (30_522, 4, 512, 8),
    "medium": (30_522, 8, 512, 8),
}
# The README's table of the 24 miniatures: every depth with every width; heads: A = H / 64.
HEADS_OF_WIDTH = {128: 2, 256: 4, 512: 8, 768: 12}
MINIATURES = {
    f"L{layers}_H{hidden}": (30_522, layers, hidden, heads)
    for layers in (2, 4, 6, 8, 10, 12)
    for hidden, heads in HEADS_OF_WIDTH.items()
}


def test_presets_are_the_releases_and_no_others():
    assert set(PRESETS) == set(RELEASED) | set(MINIATURES)
    assert len(MINIATURES) == 24


@pytest.mark.parametrize("name", [*RELEASED, *MINIATURES])
def test_preset_has_the_published_sizes(name):
    config = PRESETS[name]
    sizes = (config.vocab_size, config.num_hidden_layers, config.hidden_size)
    assert (*sizes, config.num_attention_heads) == (RELEASED | MINIATURES)[name]
    assert config.intermediate_size == 4 * config.hidden_size
    assert config.head_size == 64
    assert (config.max_position_embeddings, config.type_vocab_size) == (512, 2)
    assert (config.hidden_act, config.layer_norm_eps) == ("gelu", 1e-12)
    assert (config.hidden_dropout_prob, config.attention_probs_dropout_prob) == (0.1, 0.1)
    assert (config.initializer_range, config.pad_token_id) == (0.02, 0)


@pytest.mark.parametrize(
    ("released", "preset"),
    [
        ("bert-base-uncased", "base_uncased"),
        ("bert-large-cased", "large_cased"),
        ("bert-base-multilingual-cased", "base_multilingual_cased"),
        ("google-bert/bert-base-chinese", "base_chinese"),
        ("google-bert/bert-large-uncased", "large_uncased"),
        ("google/bert_uncased_L-2_H-128_A-2", "tiny"),
        ("google/bert_uncased_L-8_H-512_A-8", "medium"),
        # Google's own names, from the README's links.
        ("uncased_L-10_H-256_A-4", "L10_H256"),
        ("uncased_L-12_H-768_A-12", "base_uncased"),
        ("uncased_L-24_H-1024_A-16", "large_uncased"),
        ("cased_L-12_H-768_A-12", "base_cased"),
        ("cased_L-24_H-1024_A-16", "large_cased"),
        ("multi_cased_L-12_H-768_A-12", "base_multilingual_cased"),
        ("chinese_L-12_H-768_A-12", "base_chinese"),
    ],
)
def test_names_of_releases_are_understood(released, preset):
    assert get_config(released) == PRESETS[preset]


def test_configuration_is_immutable():
    for field in dataclasses.fields(BertConfig):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(base, field.name, 1)
    assert base.replace(vocab_size=31).vocab_size == 31
    assert base.vocab_size == 30_000


def test_configurations_are_equal_by_value():
    again = BertConfig(**base.to_dict())
    assert again == base and hash(again) == hash(base) and again is not base
    for key, value in (ODD_CONFIG | {"hidden_size": 24}).items():
        assert base.replace(**{key: value}) != base, key
    assert len({*PRESETS.values()}) == len(RELEASED) + len(MINIATURES) - 5  # five have two names
    assert pickle.loads(pickle.dumps(base)) == base
    assert eval(repr(base), {"BertConfig": BertConfig}) == base


def test_get_config_takes_a_configuration_a_name_or_a_file(tmp_path, small):
    path = tmp_path / "my.json"
    small.to_json(path)
    assert get_config(small) is small
    assert get_config("base") is base
    assert get_config(str(path)) == get_config(path) == small
    for name in ("bert_config.json", "config.json"):
        small.to_json(tmp_path / name)
        assert get_config(tmp_path) == small
    (tmp_path / "run" / "model").mkdir(parents=True)
    small.to_json(tmp_path / "run" / "model" / "config.json")
    assert get_config(tmp_path / "run") == small


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
        ('{"vocab_size": 99, "vocab_size": 98}', ("'vocab_size'", "twice")),
        ('{"vocab_size": 99, "pruned_heads": {"1": [2]}}', ("pruned_heads",)),
        ('{"vocab_size": 99, "classifier_dropout": 1.5}', ("classifier_dropout", 1.5)),
    ],
)
def test_ambiguous_or_unsupported_key_is_refused(tmp_path, content, said):
    path = tmp_path / "config.json"
    path.write_text(content, encoding="utf-8")
    with raises(ValueError, "config.json", *said):
        BertConfig.from_json(path)


def test_file_with_a_byte_order_mark_is_read(small, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(small.to_json(), encoding="utf-8-sig")
    assert BertConfig.from_json(path) == small
