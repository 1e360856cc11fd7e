"""A transformers folder opens with transformers' numbers, and goes back out bit for bit."""

import json

import keras
import numpy as np
import pytest
from helpers.backends import full_on, nightly_on
from helpers.peer_bert import CLASSES
from helpers.peer_outputs import run_peer
from numpy.testing import assert_allclose, assert_array_equal
from safetensors.numpy import load_file

import kbert

LATER = [pytest.mark.full] if keras.backend.backend() == "jax" else []
FORMS = ("sharded", "pickled", "old", "float16", "bfloat16")


@pytest.fixture(scope="module")
def folders(small, tmp_path_factory):
    """What transformers wrote, and its inputs."""
    out = tmp_path_factory.mktemp("transformers")
    run_peer("peer_bert:write_checkpoints", out, small.to_dict())
    return out


def outputs_of(bert, folders):
    ids = np.load(folders / "ids.npz")
    return list(kbert.predict(bert.model, ids["token_ids"], ids["segment_ids"]).values())


def expected(folders, name):
    """transformers' outputs, in kbert's order; None for one that the class does not have."""
    arrays = list(np.load(folders / f"{name}.npz").values())
    if name == "BertForNextSentencePrediction":
        return [None, *arrays]
    return arrays if name != "BertForMaskedLM" else [*arrays, None]


@pytest.mark.parametrize("name", CLASSES)
def test_outputs_of_each_class_equal_transformers(folders, name):
    found = outputs_of(kbert.load(folders / name), folders)
    real = np.load(folders / "ids.npz")["token_ids"] != 0
    for value, wanted in zip(found, expected(folders, name), strict=True):
        if wanted is None:
            continue
        place = real if value.shape[:2] == real.shape else slice(None)
        assert_allclose(value[place], wanted[place], atol=1e-5, rtol=1e-5)


@pytest.fixture(scope="module")
def exact(folders):
    return outputs_of(kbert.load(folders / "BertForPreTraining"), folders)


@pytest.mark.full
@pytest.mark.parametrize(
    "form", [pytest.param(form, marks=[] if form == "bfloat16" else LATER) for form in FORMS]
)
def test_each_file_format_loads(folders, exact, form):
    bert = kbert.load(folders / form)
    assert bert.report.initialized == ()
    found = outputs_of(bert, folders)
    tolerance = {"float16": 2e-2, "bfloat16": 2e-1}.get(form, 0)
    real = np.load(folders / "ids.npz")["token_ids"] != 0
    assert_allclose(found[0][real], exact[0][real], atol=tolerance)
    if tolerance:
        assert np.abs(found[0][real] - exact[0][real]).max() > 0


@pytest.mark.full
@full_on("jax")
@pytest.mark.parametrize("name", CLASSES)
def test_saved_checkpoint_is_bit_equal_to_transformers(folders, name, tmp_path):
    bert = kbert.load(folders / name)
    kbert.save(bert, tmp_path)
    theirs, ours = (load_file(path / "model.safetensors") for path in (folders / name, tmp_path))
    copies = {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias"}  # tied: never kept
    assert set(theirs) - copies == set(ours)
    for key in ours:
        assert_array_equal(theirs[key], ours[key], strict=True)
    wrote = json.loads((folders / name / "config.json").read_text())
    saved = json.loads((tmp_path / "config.json").read_text())
    assert saved["architectures"] == wrote["architectures"] == [name]
    again = kbert.load(tmp_path)
    assert (again.config, again.head) == (bert.config, bert.head)
    assert again.report.initialized == bert.report.initialized


@nightly_on("jax", "torch")
@pytest.mark.parametrize(
    ("name", "head"),
    [("BertForSequenceClassification", "tokens"), ("BertForTokenClassification", "classifier")],
)
def test_sequence_and_token_classifiers_are_not_mixed_up(folders, name, head):
    """transformers calls both classifier.weight; the new head has the labels of config.json."""
    bert = kbert.load(folders / name, head=head)
    assert {"classifier.weight", "classifier.bias"} <= set(bert.report.initialized)
    assert {"classifier.weight", "classifier.bias"} <= set(bert.report.ignored)
    said = json.loads((folders / name / "config.json").read_text(encoding="utf-8"))
    assert bert.labels == tuple(said["id2label"].values())
    assert bert.model.outputs[0].shape[-1] == len(bert.labels)
    _, bias = bert.model.layers[-1].get_weights()
    assert not bias.any()  # its first weights
