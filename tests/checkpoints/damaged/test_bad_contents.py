"""Tensors and configurations that do not fit are reported at once, and nothing is assigned."""

import json

import numpy as np
import pytest
from helpers.damaged_checkpoints import BIAS, VOCABULARY, change_json, change_tensors, put, refused
from helpers.errors import collected_logs, logged, raises

import kbert


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (put(BIAS, np.zeros((), "f4")), "expected (24,), found ()"),
        (put(BIAS, np.zeros(24, "bool")), "found BOOL"),
        (put("pooler.dense.bias", np.zeros(24, "f4")), "pooler.dense.bias beside bert.pooler"),
        (put("bert.pooler.gamma", np.zeros(24, "f4")), "unexpected: pooler.gamma"),
        (lambda tensors: tensors.clear(), "53 problems"),
        (
            put("cls.predictions.decoder.weight", np.zeros((99, 24), "f4")),
            "embeddings.word_embeddings.weight",
        ),
    ],
)
def test_a_tensor_that_does_not_fit(capsys, folder, change, said):
    change_tensors(folder, change)
    refused(capsys, folder, said)


def test_every_problem_is_in_one_line(capsys, folder):
    def change(tensors):
        del tensors["bert.encoder.layer.1.output.dense.bias"]
        tensors["bert.encoder.layer.3.extra"] = np.zeros(3, "f4")
        tensors[BIAS] = np.zeros(23, "f4")
        tensors["cls.predictions.bias"] = np.zeros(99, "i8")

    change_tensors(folder, change)
    change_json(folder / "config.json", vocab_size=98)
    message = refused(
        capsys,
        folder,
        "vocab_size is 98 in the configuration, 99 in the tensors",
        "missing: encoder.layer.1.output.dense.bias",
        "unexpected: encoder.layer.3.extra",
        "shape of pooler.dense.bias: expected (24,), found (23,)",
        "dtype of cls.predictions.bias",
        "at most 98 tokens",
    )
    assert message.startswith(str(folder)) and "8 problems" in message


@pytest.mark.parametrize(
    ("key", "says", "has", "lines"),
    [
        ("vocab_size", 105, 99, 2),
        ("hidden_size", 28, 24, 5 + 14 + 2 + 5),
        ("num_hidden_layers", 2, 3, 16),
        ("num_hidden_layers", 12, 3, 16),
    ],
)
def test_a_configuration_that_contradicts_the_tensors(capsys, folder, key, says, has, lines):
    change_json(folder / "config.json", **{key: says})
    message = refused(
        capsys, folder, f"problems: {key} is {says} in the configuration, {has} in the tensors; "
    )
    parts = message.split("; ")
    assert len(parts) == 1 + min(lines, 19) + (lines > 19)  # blocks are one line
    assert ("inspect` lists" in message) == (lines > 19)
    found = kbert.inspect(folder).problems  # which lists every one
    assert f", {len(found)} problems: {found[0]}; " in message


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ('{"vocab_size": 99,', "must be JSON"),
        ("null", "must be a JSON object, got NoneType"),
        ("{}", "must say vocab_size"),
        ({"num_attention_heads": 5}, "multiple of num_attention_heads, got 24 and 5"),
        ({"pad_token_id": 99}, "pad_token_id must be a token of the vocabulary"),
        ({"architectures": ["GPT2LMHeadModel"]}, "one of BertModel, BertForPreTraining"),
        ({"architectures": ["RobertaModel"]}, "got RobertaModel"),
        ({"architectures": "BertModel"}, "architectures must be class names, got 'BertModel'"),
        ({"architectures": 3}, "architectures must be class names, got 3"),
    ],
)
def test_unusable_configuration_is_named(capsys, folder, values, said):
    if isinstance(values, str):
        (folder / "config.json").write_text(values)
    else:
        change_json(folder / "config.json", **values)
    refused(capsys, folder, str(folder / "config.json"), said)


@pytest.mark.full
def test_every_key_that_transformers_writes_is_known(folder, small):
    transformers = pytest.importorskip("transformers", reason="pip install -e '.[test-full]'")
    config = transformers.BertConfig(**small.to_dict(), num_labels=5)
    values = json.loads(config.to_json_string(use_diff=False)) | config.to_dict()
    (folder / "config.json").write_text(json.dumps(values))
    assert kbert.load(folder).config == small


def test_non_finite_weights_are_warned_of_once(folder):
    def change(tensors):
        tensors[BIAS][3] = np.nan
        tensors["cls.predictions.bias"][7] = -np.inf
        tensors["cls.seq_relationship.bias"] = np.full(2, 1e300)  # float64, beyond float32

    change_tensors(folder, change)
    with collected_logs() as messages:
        bert = kbert.load(folder)
    names = ("cls.predictions.bias", "cls.seq_relationship.bias", "pooler.dense.bias")
    assert tuple(sorted(bert.report.not_finite)) == names
    (message,) = messages
    assert all(name in message for name in names)


@pytest.mark.parametrize(
    ("options", "things"),
    [
        ({"head": "nonsense"}, ("head", "pretraining", "encoder")),
        ({"format": "nonsense"}, ("format", "transformers")),
        ({"format": ["google"]}, ("format", "transformers")),
        ({"config": "base"}, ("config", "BertConfig", "'base'")),
        ({"seq_len": 18}, ("max_position_embeddings = 17", "18")),
        ({"ignore": "bert.more"}, ("ignore", "'bert.more'")),
        ({"allow_missing": 3}, ("allow_missing", "3")),
        ({"ignore": ["pooler.dense.bais"]}, ("pooler.dense.bais", "pooler.dense.bias")),
        ({"allow_missing": ["x", "y"]}, ("'x', 'y'",)),
    ],
)
def test_invalid_argument_of_load_is_named(capsys, good, options, things):
    refused(capsys, good, *things, **options)


def test_a_vocabulary_of_another_length(capsys, folder):
    """A longer one is refused, a shorter one is a warning."""
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").write_text("\n".join([*VOCABULARY, "x"]), encoding="utf-8")
    refused(capsys, folder, "at most 99 tokens", "100")
    assert kbert.load(folder, tokenizer=False).tokenizer is None
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY[:90]), encoding="utf-8")
    with logged("90 tokens", "99 rows"):
        assert kbert.load(folder).tokenizer.vocab_size == 90


@pytest.mark.parametrize("prefix", ["", "bert."])
def test_allow_missing_and_ignore_take_both_names(folder, prefix):
    """By the name in the table, which errors say, or the one in the file."""

    def change(tensors):
        del tensors[BIAS]
        tensors["bert.more"] = np.zeros(3, "f4")

    change_tensors(folder, change)
    lists = {"allow_missing": [f"{prefix}pooler.dense.bias"], "ignore": [f"{prefix}more"]}
    bert = kbert.load(folder, **lists)
    assert bert.report.initialized == ("pooler.dense.bias",)
    assert bert.report.ignored == ("more",)
    for left_out, named in (("allow_missing", "pooler.dense.bias"), ("ignore", "more")):
        with raises(ValueError, named):
            kbert.load(folder, **{key: value for key, value in lists.items() if key != left_out})


@pytest.mark.full
@pytest.mark.parametrize(
    ("names", "labels"),
    [
        ({"0": "a", "1": "b", "2": "c"}, ("a", "b", "c")),
        ({"0": "a", "1": "b", "3": "c"}, None),
        ({"0": "a", "1": "b"}, None),
        ({"0": "a", "1": "b", "2": "c", "3": "d"}, None),
        ({"0": "a", "1": "b", "2": 3}, None),
        (["a", "b", "c"], None),
    ],
)
def test_labels_are_those_of_every_output_or_none(small, tmp_path, names, labels):
    config = small.replace(num_hidden_layers=1)
    model = kbert.build_classifier(config, num_labels=3)
    kbert.save(kbert.Bert(config, "classifier", model), tmp_path / "bert")
    change_json(tmp_path / "bert" / "config.json", id2label=names)
    with collected_logs() as messages:
        assert kbert.load(tmp_path / "bert").labels == labels
    assert len(messages) == (labels is None)
    assert all("id2label" in text and "3" in text for text in messages)
