"""What sentence-transformers writes beside a model, of every version, and damaged."""

import json

import pytest
from damaged import change_json, refused

import kbert

MODULES = ["Transformer", "Pooling", "Normalize"]


def modules(*names, paths=("", "1_Pooling", "2_Normalize")) -> list[dict]:
    return [
        {"idx": place, "name": str(place), "path": path, "type": f"sentence_transformers.{name}"}
        for place, (name, path) in enumerate(zip(names, paths, strict=False))
    ]


@pytest.mark.parametrize(
    ("content", "pooling", "length", "said"),
    [
        (modules("Transformer", "Pooling", "Dense"), {"pooling_mode": "cls"}, 7, "Pooling, Dense"),
        (modules(*MODULES), {"pooling_mode_cls_token": 1, "pooling_mode_mean_tokens": 1}, 7, "got"),
        (modules(*MODULES), {"pooling_mode_mean_tokens": False}, 7, "got none"),
        (modules(*MODULES), {"pooling_mode": ["cls", "mean"]}, 7, "got cls, mean"),
        (modules(*MODULES), {"pooling_mode": "lasttoken"}, 7, "mean, cls, max, got lasttoken"),
        (modules(*MODULES), {"pooling_mode": 3}, 7, "got 3"),
        (modules(*MODULES), [1], 7, "must be a JSON object, got list"),
        (modules(*MODULES), {"pooling_mode": "cls"}, "x", "max_seq_length must be a whole number"),
        (modules(*MODULES), {"pooling_mode": "cls"}, 0, "max_seq_length must be a whole number"),
        (modules(*MODULES, paths=("", "../x", "n")), {}, 7, "must lie beside it, got '../x'"),
        (modules(*MODULES, paths=("", 3, "n")), {}, 7, "[1].path must be a text, got 3"),
        ({}, {}, 7, "must be a list of modules with type and path, got dict"),
        ([], {}, 7, "got none"),
        ([1], {}, 7, "[0] must be a JSON object, got 1"),
        ([{"path": ""}], {}, 7, "[0].type must be a text, got nothing"),
    ],
)
def test_a_sentence_transformers_folder_that_is_damaged(
    capsys, folder, content, pooling, length, said
):
    (folder / "modules.json").write_text(json.dumps(content))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    change_json(folder / "sentence_bert_config.json", max_seq_length=length)
    refused(capsys, folder, said)


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        ({"pooling_mode": "cls", "embedding_dimension": 24, "include_prompt": True}, "cls"),
        ({"pooling_mode": ["max"], "embedding_dimension": 24}, "max"),
        ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}, "mean"),
    ],
)
def test_the_keys_of_old_and_new_sentence_transformers(folder, caplog, pooling, expected):
    """As sentence-transformers 2 to 4 and 6.2 write them; 6.2 has the tokenizer's length."""
    (folder / "modules.json").write_text(json.dumps(modules("Transformer", "Pooling")))
    change_json(folder / "1_Pooling" / "config.json", **pooling)
    change_json(folder / "sentence_bert_config.json", transformer_task="feature-extraction")
    change_json(folder / "tokenizer_config.json", model_max_length=13)
    change_json(folder / "config_sentence_transformers.json", default_prompt_name="query")
    found = kbert.load(folder).sentence
    assert (found.pooling, found.normalize, found.max_length) == (expected, False, 13)
    (record,) = caplog.records
    assert "puts the prompt 'query' before each text" in record.getMessage()
    change_json(folder / "sentence_bert_config.json", max_seq_length=11)
    assert kbert.load(folder).sentence.max_length == 11
