"""Configurations in the JSON of Google and transformers are read and written."""

import json
import re

import pytest
from helpers.errors import raises
from helpers.peer_graph import OTHERS
from helpers.sizes import ODD_CONFIG as ODD

from kbert import PRESETS, BertConfig, base, large

# bert_config.json of Google's release multi_cased_L-12_H-768_A-12, whole.
GOOGLE_MULTILINGUAL = """{
  "attention_probs_dropout_prob": 0.1,
  "directionality": "bidi",
  "hidden_act": "gelu",
  "hidden_dropout_prob": 0.1,
  "hidden_size": 768,
  "initializer_range": 0.02,
  "intermediate_size": 3072,
  "max_position_embeddings": 512,
  "num_attention_heads": 12,
  "num_hidden_layers": 12,
  "pooler_fc_size": 768,
  "pooler_num_attention_heads": 12,
  "pooler_num_fc_layers": 3,
  "pooler_size_per_head": 128,
  "pooler_type": "first_token_transform",
  "type_vocab_size": 2,
  "vocab_size": 119547
}
"""
# The attributes of BertConfig in google-research/bert, modeling.py: the file has more.
GOOGLE_KEYS = {
    key
    for key in json.loads(GOOGLE_MULTILINGUAL)
    if not key.startswith(("pooler", "directionality"))
}


def test_configuration_printed_in_document_002_is_read(shared, tmp_path):
    document = next((shared / "seeds").glob("002*.txt")).read_text(encoding="utf-8")
    printed = re.search(r"^BertConfig (\{.*?^\})", document, re.DOTALL | re.MULTILINE)[1]
    path = tmp_path / "config.json"
    path.write_text(printed, encoding="utf-8")
    config, said = BertConfig.from_json(path), json.loads(printed)
    assert config == PRESETS["large_uncased"]
    for key, value in config.to_dict().items():
        assert said[key] == value, key


def test_googles_bert_config_is_read(tmp_path):
    path = tmp_path / "bert_config.json"
    path.write_text(GOOGLE_MULTILINGUAL, encoding="utf-8")
    config, said = BertConfig.from_json(path), json.loads(GOOGLE_MULTILINGUAL)
    assert config == PRESETS["base_multilingual_cased"]
    assert {key: said[key] for key in GOOGLE_KEYS} == {
        key: value for key, value in config.to_dict().items() if key in GOOGLE_KEYS
    }


@pytest.mark.parametrize("form", ["diff", "whole"])
@pytest.mark.parametrize("name", ["default", "odd"])
def test_configuration_written_by_transformers_is_read(peers, tmp_path, name, form):
    theirs = peers["configs"][name]
    path = tmp_path / "config.json"
    path.write_text(json.dumps(theirs[form]), encoding="utf-8")
    for key, value in BertConfig.from_json(path).to_dict().items():
        assert theirs["whole"][key] == value, key


@pytest.mark.full
@pytest.mark.parametrize("config", [base, large, BertConfig(**ODD)], ids=["base", "large", "odd"])
def test_transformers_reads_the_written_configuration(tmp_path, config):
    transformers = pytest.importorskip("transformers")
    path = tmp_path / "config.json"
    config.to_json(path)
    theirs = transformers.BertConfig.from_json_file(path)
    for key, value in config.to_dict().items():
        assert getattr(theirs, key) == value, key
    assert type(transformers.AutoConfig.from_pretrained(tmp_path)) is transformers.BertConfig


def test_written_bert_config_has_googles_keys(tmp_path):
    """Google's from_dict takes every key; the file has exactly those that it has a use for."""
    path = tmp_path / "bert_config.json"
    PRESETS["tiny"].to_json(path)
    assert set(json.loads(path.read_text(encoding="utf-8"))) == GOOGLE_KEYS


@pytest.mark.parametrize("name", ["config.json", "bert_config.json", "mine.json"])
@pytest.mark.parametrize("config", [*PRESETS.values(), BertConfig(**ODD)], ids=[*PRESETS, "odd"])
def test_writing_and_reading_gives_the_same_configuration(tmp_path, config, name):
    text = config.to_json(tmp_path / name)
    assert (tmp_path / name).read_text(encoding="utf-8") == text
    assert BertConfig.from_json(tmp_path / name) == config
    assert BertConfig.from_dict(json.loads(config.to_json())) == config
    assert [path.name for path in tmp_path.iterdir()] == [name]  # nothing left beside it


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("hiden_size", "hidden_size"),
        ("vocabsize", "vocab_size"),
        ("embedding_dim_of_albert", "vocab_size, hidden_size, "),
    ],
)
def test_unknown_key_is_refused_by_name(key, hint):
    with raises(ValueError, f"'{key}'", hint):
        base.replace(**{key: 3})


def test_misspelled_key_is_refused_if_the_right_one_is_missing():
    with raises(ValueError, "'hiden_size'", "hidden_size"):
        BertConfig.from_dict({"vocab_size": 99, "hiden_size": 3})
    config = BertConfig.from_dict(ODD | {"hiden_size": 3, "embedding_dim_of_albert": 3})
    assert config == BertConfig(**ODD)


@pytest.mark.parametrize("name", OTHERS)
def test_another_architecture_is_refused(peers, name):
    theirs = peers["configs"][name]["whole"]
    with raises(ValueError, "theirs", "model_type", f"'{theirs['model_type']}'"):
        BertConfig.from_dict(theirs, source="theirs")
