"""Presets that are damaged, of another model or cannot be written are one line each."""

import dataclasses
import json

import h5py
import numpy as np
import pytest
from helpers.damaged_checkpoints import load_error
from helpers.errors import check_named, collected_logs, logged, raises
from helpers.small_berts import small_bert

import kbert
from kbert.data.tokenization.vocabulary import SPECIAL_TOKENS

CONFIG, TOKENIZER, TASK = "config.json", "tokenizer.json", "task.json"
PREPROCESSOR = "preprocessor.json"
WEIGHTS = "model.weights.h5"


def small_preset(small, head="encoder", names=SPECIAL_TOKENS, **changes):
    config = small.replace(**{"hidden_act": "gelu_new", "num_hidden_layers": 1} | changes)
    tokens = [*names.values(), *(f"token{n}" for n in range(94))]
    tokenizer = kbert.Tokenizer.from_vocab(tokens, lowercase=True, special_tokens=names)
    return dataclasses.replace(small_bert(config, head), tokenizer=tokenizer)


@pytest.fixture
def preset(small, tmp_path):
    """A preset, its files as text to be edited, and a shorthand for the error of loading it."""
    folder = tmp_path / "preset"
    kbert.save(small_preset(small, "classifier"), folder, format="keras_hub")
    return folder


def edit(file, change) -> None:
    values = json.loads(file.read_text())
    change(values)
    file.write_text(json.dumps(values))


def edit_tokenizer(preset, **arguments) -> None:
    """Change the tokenizer's arguments in each file that has them."""
    edit(preset / TOKENIZER, lambda values: values["config"].update(arguments))
    edit(preset / PREPROCESSOR, lambda values: tokenizer_in(values).update(arguments))
    edit(
        preset / TASK,
        lambda values: tokenizer_in(values["config"]["preprocessor"]).update(arguments),
    )


def tokenizer_in(preprocessor: dict) -> dict:
    return preprocessor["config"]["tokenizer"]["config"]


def error_of(folder) -> str:
    return load_error(folder, folder.name)


QUANTIZED = {"class_name": "DTypePolicyMap", "config": {}}
CONFIGS = [  # config.json, or changes of the sizes in it; what the line must say
    ([1], "list"),
    ({}, "class_name"),
    ({"class_name": "RobertaBackbone", "config": {}}, "RobertaBackbone"),
    ({"class_name": "BertBackbone"}, "nothing"),
    ({"num_layers": None}, "num_layers"),
    ({"num_layers": 1, "num_heads": 5}, "hidden_size"),
    ({"dtype": QUANTIZED}, "DTypePolicyMap: quantized"),
]


@pytest.mark.full
@pytest.mark.parametrize(("values", "said"), CONFIGS)
def test_unusable_configuration_is_one_line(preset, values, said):
    if values and "class_name" not in values and isinstance(values, dict):
        config = json.loads((preset / CONFIG).read_text())
        sizes = {key: size for key, size in (config["config"] | values).items() if size is not None}
        values = config | {"config": sizes}
    (preset / CONFIG).write_text(json.dumps(values))
    assert said in error_of(preset)


def test_numbers_that_are_cut_off(preset):
    """Chunked data whose check sum is wrong: noticed only when they are read."""
    with h5py.File(preset / WEIGHTS, "a") as file:
        array = file["layers/dense/vars/0"][()]
        del file["layers/dense/vars/0"]
        file.create_dataset("layers/dense/vars/0", data=array, chunks=(6, 24), fletcher32=True)
        place = file["layers/dense/vars/0"].id.get_chunk_info(2).byte_offset
    content = bytearray((preset / WEIGHTS).read_bytes())
    content[place] ^= 255
    (preset / WEIGHTS).write_bytes(content)
    assert "HDF5" in error_of(preset)


def test_tensors_that_are_missing_or_too_many(preset):
    with h5py.File(preset / WEIGHTS, "a") as file:
        del file["layers/dense/vars/1"]
        file["layers/extra/vars/0"] = np.zeros(3)
    text = error_of(preset)
    assert "2 problems" in text
    assert "missing: pooled_dense/bias" in text and "unexpected: layers/extra/vars/0" in text


def test_shards_that_are_missing_or_elsewhere(preset):
    (preset / WEIGHTS).rename(preset / "model_00000.weights.h5")
    index = preset / "model.weights.json"
    index.write_text('{"weight_map": {"/layers/dense/vars": ["model_00001.weights.h5"]}}')
    assert "shard" in error_of(preset)
    for name in ("../model.weights.h5", "", "..", "/etc/passwd", 3):
        index.write_text(json.dumps({"weight_map": {"/layers/dense/vars": name}}))
        assert "shard" in error_of(preset)
    index.write_text('{"metadata": {}}')
    assert "weight_map" in error_of(preset)


def test_a_task_that_kbert_does_not_know_is_named(preset):
    edit(preset / TASK, lambda values: values.update(class_name="BertNerTagger"))
    with logged("BertNerTagger", "encoder"):
        assert kbert.load(preset).head == "encoder"


def test_an_activation_of_the_classifier_is_said(preset):
    edit(preset / TASK, lambda values: values["config"].update(activation="softmax"))
    with logged("activation", "logits"):
        assert kbert.load(preset).model.output_shape == (None, 5)


def test_a_tokenizer_that_is_not_berts_is_left_out(preset):
    edit_tokenizer(preset, split=False)
    with logged("split=False"):
        assert kbert.load(preset).tokenizer is None


def test_the_casing_is_the_tokenizers(preset):
    assert kbert.load(preset).tokenizer.lowercase is True
    edit_tokenizer(preset, lowercase=False)
    assert kbert.load(preset).tokenizer.lowercase is False
    (preset / TOKENIZER).unlink()
    with raises(ValueError, "lowercase"):
        kbert.load(preset)
    assert kbert.load(preset, tokenizer=False).tokenizer is None


@pytest.mark.parametrize("head", ["tokens", "qa"])
def test_heads_that_keras_hub_lacks_are_refused(small, tmp_path, head):
    with raises(ValueError, "classifier", f"got {head}"):
        kbert.save(small_preset(small, head), tmp_path / "new", format="keras_hub")
    assert list(tmp_path.iterdir()) == []


def test_unsupported_configurations_are_refused(small, tmp_path):
    names = SPECIAL_TOKENS | {"pad": "<pad>"}
    cases = (
        (("hidden_act", "gelu_new", "relu"), small_preset(small, hidden_act="relu")),
        (("special tokens", "<pad>"), small_preset(small, names=names)),
    )
    for things, bert in cases:
        with raises(ValueError, *things):
            kbert.save(bert, tmp_path / "new", format="keras_hub")
    with raises(ValueError, "new.zip"):
        kbert.save(small_preset(small), tmp_path / "new.zip", format="keras_hub")
    assert list(tmp_path.iterdir()) == []


def test_save_warns_once_of_differences_and_of_losses(small, tmp_path):
    changes = {"hidden_act": "gelu", "layer_norm_eps": 1e-5, "attention_probs_dropout_prob": 0.2}
    bert = small_preset(small, "pretraining", **changes)
    with collected_logs() as messages:
        kbert.save(bert, tmp_path, format="keras_hub")
    differs, lost = messages
    check_named(differs, "hidden_act=gelu", "1e-12", "1e-05", "MLM head")
    check_named(lost, "NSP", "attention_probs_dropout_prob=0.2")


def test_files_of_another_preset_are_not_left_beside(small, preset):
    before = (preset / CONFIG).read_bytes()
    with raises(ValueError, "preprocessor.json", "task.json", "task.weights.h5"):
        kbert.save(small_preset(small), preset, format="keras_hub", overwrite=True)
    assert (preset / CONFIG).read_bytes() == before
    overwritten = small_preset(small, "classifier")
    kbert.save(overwritten, preset, format="keras_hub", overwrite=True)  # the same files
