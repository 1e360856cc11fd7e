"""Sentence settings of every version are read, and damaged ones are reported."""

import json

import numpy as np
import pytest
from helpers.damaged_checkpoints import change_json
from helpers.errors import logged, raises

import kbert
from kbert.checkpoints.inspection import inspection_text
from kbert.checkpoints.sentence_settings import SentenceDense, SentenceSettings
from kbert.checkpoints.transformers.sentence_files import (
    read_sentence_settings,
    write_sentence_settings,
)
from kbert.io.setting_keys import setting_keys

MODULES = ["Transformer", "Pooling", "Normalize"]


def modules(*names, paths=("", "1_Pooling", "2_Normalize")) -> list[dict]:
    return [
        {"idx": place, "name": str(place), "path": path, "type": f"sentence_transformers.{name}"}
        for place, (name, path) in enumerate(zip(names, paths, strict=False))
    ]


POOLED = {"pooling_mode": "cls"}
DENSE = modules("Transformer", "Pooling", "Dense", paths=("", "1_Pooling", "2_Dense"))
BAD = [
    (DENSE, POOLED, 7, "2_Dense/config.json: No such file"),
    (modules("Transformer", "Pooling", "LSTM"), POOLED, 7, "Pooling, LSTM"),
    (modules("Transformer"), POOLED, 7, "got Transformer"),
    (modules(*MODULES), {"pooling_mode_cls_token": 1}, 7, "pooling_mode_cls_token must be true"),
    (modules(*MODULES), {"pooling_mode_new": True}, 7, "got pooling_mode_new"),
    (modules(*MODULES), {"pooling_mode": ["cls", "cls"]}, 7, "got ('cls', 'cls')"),
    (modules(*MODULES), {"pooling_mode": "first"}, 7, "pooling_mode must be cls, max"),
    (modules(*MODULES), {"pooling_mode": 3}, 7, "got 3"),
    (modules(*MODULES), [1], 7, "must be a JSON object, got list"),
    (modules(*MODULES), POOLED, "x", "max_seq_length must be a whole number"),
    (modules(*MODULES), POOLED, 0, "max_seq_length must be a whole number"),
    (modules(*MODULES, paths=("", "../x", "n")), {}, 7, "must be in the same folder, got '../x'"),
    (modules(*MODULES, paths=("", 3, "n")), {}, 7, "[1].path must be a text, got 3"),
    ([{"path": "", "type": "custom.Transformer"}], {}, 7, "own, got 'custom.Transformer'"),
    ({}, {}, 7, "must be a list of modules with type and path, got dict"),
    ([], {}, 7, "got none"),
    ([1], {}, 7, "[0] must be a JSON object, got 1"),
    ([{"path": ""}], {}, 7, "[0].type must be a text, got nothing"),
]


def write(folder, content, pooling, length=7):
    (folder / "modules.json").write_text(json.dumps(content))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    change_json(folder / "sentence_bert_config.json", max_seq_length=length)


@pytest.mark.full
@pytest.mark.parametrize(("content", "pooling", "length", "said"), BAD)
def test_sentence_settings_that_are_not_computed_are_reported(
    folder, content, pooling, length, said
):
    """They block no other use of the model."""
    write(folder, content, pooling, length)
    found = kbert.inspect(folder)
    assert (found.sentence, found.problems) == (None, ())
    assert said in found.sentence_problem and "\n" not in found.sentence_problem
    assert found.sentence_problem in inspection_text(found)


@pytest.mark.full
def test_bad_sentence_settings_block_only_their_users(folder, tmp_path):
    write(folder, *BAD[1][:2])
    with logged("pooling", "LSTM"):
        bert = kbert.load(folder, head="encoder")
    for call in (
        lambda: kbert.embed(bert, "cat"),
        lambda: kbert.search(bert, "cat", ["dog"]),
        lambda: kbert.evaluate(bert, "embed", [("cat", "dog"), ("sun", "moon")]),
    ):
        with raises(ValueError, "pooling", "LSTM"):
            call()
    assert kbert.embed(bert, "cat", pooling="mean").shape == (24,)
    with logged("BertModel", "pooling"):
        kbert.save(bert, tmp_path / "out")
    assert kbert.load(tmp_path / "out").sentence_problem is None


ROWS = [
    row
    for row in setting_keys()
    if row.handling == "refused" and row.file.startswith(("sentence_", "config_s", "1_", "2_"))
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.file}-{row.key}")
def test_each_key_that_is_refused(small, tmp_path, row):
    """The table's rows: the values that change nothing are taken, another is named."""
    layers = (SentenceDense(np.ones((24, 5), "float32")),)
    settings = SentenceSettings("mean", True, dense=layers)
    write_sentence_settings(settings, small, tmp_path)
    file = tmp_path / row.file.replace("2_Normalize", "3_Normalize")
    file.parent.mkdir(exist_ok=True)
    for value in row.allowed:
        change_json(file, **{row.key: value})
        found, problem = read_sentence_settings(tmp_path, tmp_path, small)
        assert problem is None and (found is None) == (value == "CrossEncoder")
    for value in ({"odd": 1}, "odd"):
        change_json(file, **{row.key: value})
        found, problem = read_sentence_settings(tmp_path, tmp_path, small)
        assert found is None and file.name in problem and row.key in problem


IGNORED = [
    row
    for row in setting_keys()
    if row.handling == "ignored" and row.file.startswith(("modules", "sentence_", "config_s", "1_"))
]


@pytest.mark.parametrize("row", IGNORED, ids=lambda row: f"{row.file}-{row.key}")
def test_each_key_that_is_ignored(small, tmp_path, row):
    """The table's rows: another value changes no setting."""
    settings = SentenceSettings("cls", True, 7)
    write_sentence_settings(settings, small, tmp_path)
    file = tmp_path / row.file
    values = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    for entry in values if isinstance(values, list) else [values]:
        entry[row.key] = "odd"
    file.write_text(json.dumps(values), encoding="utf-8")
    assert read_sentence_settings(tmp_path, tmp_path, small) == (settings, None)


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        ({"pooling_mode": "cls", "embedding_dimension": 24, "include_prompt": True}, "cls"),
        ({"pooling_mode": ["max"], "embedding_dimension": 24}, "max"),
        ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}, "mean"),
        ({"pooling_mode": ["lasttoken", "cls"]}, ("lasttoken", "cls")),
        ({"pooling_mode_mean_tokens": False}, "mean"),
    ],
)
def test_the_keys_of_old_and_new_sentence_transformers(folder, pooling, expected):
    """As sentence-transformers 2 to 4 and 6.2 write them; 6.2 has the tokenizer's length."""
    (folder / "modules.json").write_text(json.dumps(modules("Transformer", "Pooling")))
    change_json(folder / "1_Pooling" / "config.json", **pooling)
    change_json(folder / "sentence_bert_config.json", transformer_task="feature-extraction")
    change_json(folder / "tokenizer_config.json", model_max_length=13)
    change_json(folder / "config_sentence_transformers.json", default_prompt_name="query")
    found = kbert.inspect(folder).sentence
    assert (found.pooling, found.normalize, found.max_length) == (expected, False, 13)
    assert (found.default_prompt_name, found.default_prompt) == ("query", "")
    change_json(folder / "sentence_bert_config.json", max_seq_length=11)
    assert kbert.inspect(folder).sentence.max_length == 11
