"""TFBert files of transformers 4 open with their own numbers (helpers/peer_tf_bert.py)."""

import json
import shutil
import zipfile

import h5py
import numpy as np
import pytest
from helpers.command_line import kbert as command
from helpers.damaged_checkpoints import load_error
from helpers.errors import logged
from helpers.marks import full, nightly
from helpers.sizes import FILES
from numpy.testing import assert_allclose

import kbert

ARCHIVE = FILES / "tf_bert.zip"
# by folder: the head, the class's outputs in kbert's order, and how many weights the class lacks
FOLDERS = {
    "model": ("encoder", ["last_hidden_state", "pooler_output"], 0),
    "pretraining": ("pretraining", ["prediction_logits", "seq_relationship_logits"], 0),
    "masked": ("pretraining", ["logits", None], 4),
    "next": ("pretraining", [None, "logits"], 5),
    "classifier": ("classifier", ["logits"], 0),
    "tokens": ("tokens", ["logits"], 0),
    "qa": ("qa", ["start_logits", "end_logits"], 0),
    "shards": ("pretraining", ["prediction_logits", "seq_relationship_logits"], 0),
    "safe": ("pretraining", ["prediction_logits", "seq_relationship_logits"], 0),
    "safe_shards": ("pretraining", ["logits", None], 4),
}
BIAS = "mlm___cls/tf_bert_for_pre_training/mlm___cls/predictions/bias:0"
SHARED = "mlm___cls/tf_bert_for_pre_training/bert/embeddings/LayerNorm/beta:0"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """What the classes wrote."""
    folder = tmp_path_factory.mktemp("tf_bert")
    with zipfile.ZipFile(ARCHIVE) as archive:
        archive.extractall(folder)
    return folder


QUICK = ("pretraining", "qa", "shards", "safe")
EVERY = [n if n in QUICK else full(n) for n in FOLDERS]


@pytest.mark.full
@pytest.mark.parametrize("name", EVERY)
def test_every_class_gives_its_numbers(saved, name):
    head, outputs, lacks = FOLDERS[name]
    bert = kbert.load(saved / name)
    assert (bert.head, len(bert.report.initialized)) == (head, lacks)
    assert (bert.report.ignored, bert.report.not_finite) == ((), ())
    theirs = np.load(saved / name / "outputs.npz")
    token_ids = theirs["token_ids"]
    found = list(kbert.predict(bert.model, token_ids, theirs["segment_ids"]).values())
    for value, key in zip(found, outputs, strict=True):
        if key is not None:
            place = token_ids != 0 if value.shape[:2] == token_ids.shape else slice(None)
            assert_allclose(value[place], theirs[key][place], atol=1e-5, rtol=1e-5)


def test_inspect_counts_each_tensor_once(saved, capsys):
    done = command(capsys, "inspect", saved / "pretraining", "--format", "json")
    report = json.loads(done.out)
    with h5py.File(saved / "shards" / "tf_model-00001-of-00002.h5") as one:
        weights = list(one.attrs["layer_names"])
    with h5py.File(saved / "shards" / "tf_model-00002-of-00002.h5") as other:
        weights += list(other.attrs["layer_names"])
    assert (done.status, report["format"]) == (0, "transformers")
    assert len(report["tensors"]) == len(weights) == 46  # each once, though Keras wrote five twice


def edited(change):
    def damage(folder):
        with h5py.File(folder / "tf_model.h5", "a") as file:
            change(file)

    return damage


def cut(folder):
    file = folder / "tf_model.h5"
    file.write_bytes(file.read_bytes()[:70_000])


def set_shared(file):
    file[SHARED][3] = 7.0


def rename(file):
    file.move(BIAS, BIAS.replace("bias", "offset"))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (cut, "tf_model.h5 must be a whole HDF5 file, got"),
        (edited(lambda file: file.pop(BIAS)), "1 problem: missing: cls.predictions.bias"),
        (edited(rename), "unexpected: cls.predictions.offset"),
        (edited(set_shared), f"{SHARED} must equal bert/tf_bert_for_pre_training/bert/embeddings/"),
        (lambda f: (f / "config.json").unlink(), "no config.json beside the weights"),
    ],
)
def test_a_folder_that_is_not_right_is_one_line(saved, tmp_path, capsys, damage, said):
    folder = shutil.copytree(saved / "pretraining", tmp_path / "folder")
    damage(folder)
    done = command(capsys, "fill-mask", folder, "[MASK]")
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    assert said in done.err


def test_a_shard_alone_asks_for_its_folder(saved):
    load_error(saved / "shards/tf_model-00001-of-00002.h5", "tf_model-00001-of-00002.h5")


def keras_2_file(saved, path, name, whole: bool):
    """A Keras 2 model around a class: `save` has settings and an optimizer, `save_weights` not."""
    config = json.loads((saved / name / "config.json").read_text())
    with h5py.File(saved / name / "tf_model.h5") as source, h5py.File(path, "w") as file:
        weights = file.create_group("model_weights") if whole else file
        for group in source:
            source.copy(source[group], weights.require_group("tf_bert_model"), group)
        weights["dense/dense/kernel:0"] = np.ones((4, 2), "float32")
        if whole:
            file["optimizer_weights/adam/bert/word_embeddings/m:0"] = np.ones(3, "float32")
            layers = [{"class_name": "TFBertModel", "config": config}]
            model = {"class_name": "Functional", "config": {"layers": layers}}
            file.attrs["model_config"] = json.dumps(model)
    return path


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "whole"),
    [("model", True), ("tokens", False), nightly("model", False), nightly("tokens", True)],
)
def test_a_keras_2_model_around_a_class_opens(saved, tmp_path, name, whole):
    path = keras_2_file(saved, tmp_path / "mine.h5", name, whole)
    if not whole:
        load_error(path, path, "config.json")
        shutil.copy(saved / name / "config.json", tmp_path)
    with logged("Keras model", "dense"):
        bert = kbert.load(path)
    assert bert.report.initialized == ()
    theirs = np.load(saved / name / "outputs.npz")
    found = list(kbert.predict(bert.model, theirs["token_ids"], theirs["segment_ids"]).values())
    real = theirs["token_ids"] != 0
    assert_allclose(found[0][real], theirs[FOLDERS[name][1][0]][real], atol=1e-5, rtol=1e-5)
    assert "dense" in " ".join(kbert.inspect(path).notes)


def test_a_class_with_a_head_opens_under_any_name(saved, tmp_path):
    shutil.copy(saved / "classifier" / "tf_model.h5", tmp_path / "mine.h5")
    shutil.copy(saved / "classifier" / "config.json", tmp_path)
    assert kbert.load(tmp_path / "mine.h5").report.initialized == ()
