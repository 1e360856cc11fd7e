"""Presets and live models of KerasHub give its numbers, and it reads what kbert writes."""

import functools
import json
import re
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
from helpers.errors import logged
from helpers.marks import full, nightly
from helpers.peer_outputs import compute, run_peer
from numpy.testing import assert_allclose, assert_array_equal

import kbert

PRESETS = ("backbone", "masked_lm", "classifier", "embedder")
HEADS = ("encoder", "pretraining", "classifier", "encoder")
LINES = [
    "The quick brown fox jumped over the lazy dog.",
    "Café, naïve! Dogs - foxes?",
    "the [MASK] jumps over  the dog's 東京 , xyz7",
    "",
]  # as the peer's


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """Presets that KerasHub wrote, with what it computes."""
    folder = tmp_path_factory.mktemp("keras_hub")
    run_peer("peer_keras_hub:write", folder)
    return folder


@pytest.fixture(scope="module")
def written(out):
    """The presets that kbert wrote from KerasHub's."""
    for name in PRESETS:
        kbert.save(load(out / name), out / "kbert" / name, format="keras_hub")
    return out / "kbert"


@pytest.fixture(scope="module")
def computed(out, written):
    """What KerasHub computes with what kbert wrote."""
    for step in ("read", "live"):
        compute(f"peer_keras_hub:{step}", out, KERAS_BACKEND="jax")
    return written


load = functools.cache(kbert.load)  # of folders and models that no test changes


def inputs(out, name="backbone"):
    ids = np.load(out / "ids.npz")
    token_ids = np.where(ids["padding_mask"] == 0, 3 * (name == "other_padding"), ids["token_ids"])
    return token_ids, ids["segment_ids"], ids["padding_mask"]


def outputs_of(bert, out, name="backbone"):
    token_ids, segment_ids, _ = inputs(out, name)
    return list(kbert.predict(bert.model, token_ids, segment_ids).values())


def expected(out, name):
    return list(np.load(out / f"{name}.npz").values())


@pytest.mark.full
@pytest.mark.parametrize("name", [full("backbone"), full("masked_lm"), "classifier", "embedder"])
def test_keras_file_of_keras_hub_equals_its_preset(out, name):
    """What `backbone.save` and `task.save` write: the same weights, tokenizer and settings."""
    preset, file = load(out / name), kbert.load(out / f"{name}.keras")
    assert (file.config, file.head, file.sentence) == (preset.config, preset.head, preset.sentence)
    assert file.report.initialized == preset.report.initialized
    assert set(file.report.assigned) == set(preset.report.assigned)
    for one, other in zip(preset.model.weights, file.model.weights, strict=True):
        if not one.path.startswith("NSP/"):  # which neither has
            assert_array_equal(one.numpy(), other.numpy())
    words = [bert.tokenizer and bert.tokenizer.encode(LINES[1]).ids for bert in (preset, file)]
    assert words[0] == words[1]


@pytest.mark.parametrize(
    "name",
    [*map(full, ["backbone", "sharded", "float16"]), "bfloat16", "classifier", "other_padding"],
)
def test_a_preset_gives_keras_hubs_numbers(out, name):
    bert = load(out / name)
    assert bert.report.initialized == bert.report.ignored == ()
    theirs = expected(out, "backbone" if name == "sharded" else name)
    for value, wanted in zip(outputs_of(bert, out, name), theirs, strict=True):
        assert_allclose(value, wanted, atol=1e-5)


@pytest.mark.full
def test_an_embedder_brings_its_sentence_vector(out):
    bert = load(out / "embedder")
    assert bert.sentence == kbert.checkpoints.sentence_settings.SentenceSettings("max", False, 13)
    sequence, _ = outputs_of(bert, out)
    real = inputs(out)[2][:, :, None] == 1
    found = np.where(real, sequence, -np.inf).max(axis=1)
    assert_allclose(found, expected(out, "embedder")[0], atol=1e-5)


@pytest.mark.full
def test_mlm_head_differs_in_activation_and_epsilon_alone(out):
    from kbert.ops.activations import gelu

    with logged("MLM head", "erf GELU", "1e-5"):
        bert = kbert.load(out / "masked_lm")
    assert bert.report.initialized == ("NSP/kernel", "NSP/bias")
    (theirs,) = expected(out, "masked_lm")
    real = inputs(out)[2] == 1
    difference = np.abs(outputs_of(bert, out)[0] - theirs)[real].max()
    assert 1e-5 < difference < 1e-2
    bert = kbert.load(out / "masked_lm")
    bert.model.get_layer("MLM-Dense").activation = gelu
    bert.model.get_layer("MLM-Norm").epsilon = 1e-5
    assert_allclose(outputs_of(bert, out)[0][real], theirs[real], atol=1e-5)


@pytest.mark.full
@pytest.mark.parametrize("backend", ["jax", *(nightly(name) for name in ("torch", "tensorflow"))])
def test_a_live_model_gives_its_own_numbers(out, computed, backend):
    if backend != "jax":
        compute("peer_keras_hub:live", out, KERAS_BACKEND=backend)
    found = np.load(out / f"live_{backend}.npz")
    for name in ("backbone kbert 0", "backbone kbert 1", "classifier kbert 0"):
        assert_allclose(found[name], found[name.replace("kbert", "hub")], atol=1e-5)
    tokenizer = load(out / "classifier").tokenizer
    assert_array_equal(found["classifier ids"], tokenizer.encode(LINES[0]).ids)
    errors = json.loads((out / f"live_{backend}.json").read_text())
    assert [line.rsplit(", ", 1)[1] for line in errors] == ["got int", "got Dense"]
    assert all("KerasHub's BertBackbone" in line for line in errors)


def datasets(file: Path) -> dict[str, np.ndarray]:
    """Every number of an .h5 file but the optimizer's."""
    found = {}
    with h5py.File(file) as content:
        content.visititems(lambda n, x: found.update({n: x[()]} if hasattr(x, "dtype") else {}))
    return {name: array for name, array in found.items() if not name.startswith("optimizer")}


def json_of(file: Path):
    """The content without the numbers that Keras puts behind the names of further objects."""
    return json.loads(re.sub(r'("name": "bert_\w+?)_\d+"', r'\1"', file.read_text()))


@pytest.mark.full
@pytest.mark.parametrize(("name", "head"), list(zip(PRESETS, HEADS, strict=True)))
def test_saved_preset_files_equal_keras_hubs(out, written, name, head):
    ours = {file.name: file for file in (written / name).rglob("*") if file.is_file()}
    theirs = {file.name: file for file in (out / name).rglob("*") if file.is_file()}
    assert set(ours) == set(theirs)
    for file in ours:
        if file.endswith(".h5"):
            found, wanted = datasets(ours[file]), datasets(theirs[file])
            assert set(found) == set(wanted)
            for key, array in found.items():
                assert_array_equal(array, wanted[key], strict=True)
        elif file.endswith(".json"):
            found, wanted = (json_of(f[file]) for f in (ours, theirs))
            wanted.pop("date_saved", None)
            assert found == wanted
        else:
            assert ours[file].read_bytes() == theirs[file].read_bytes()
    again = kbert.load(written / name)
    assert (again.head, again.config) == (head, load(out / name).config)


@pytest.mark.full
@pytest.mark.parametrize("name", PRESETS[1:])
def test_keras_hubs_tokenizer_gives_kberts_ids(computed, name):
    tokenizer = load(computed / name).tokenizer
    ours = [encoding.ids for encoding in map(bare(tokenizer), LINES)]
    assert ours == json.loads((computed / f"{name}.ids.json").read_text())
    assert len(set(ours[0])) > 5 and tokenizer.mask_id in ours[2]


def bare(tokenizer):
    return lambda line: tokenizer.encode(line, add_special_tokens=False)


def test_presets_of_older_packages_open(out, tmp_path):
    """keras_nlp's names; Keras 2.13's group, a query's attribute and dropouts with their seeds."""
    shutil.copytree(out / "classifier", tmp_path / "old")
    for file in (tmp_path / "old").glob("*.json"):
        text = file.read_text().replace("keras_hub", "keras_nlp")
        file.write_text(text.replace("BertTextClassifier", "BertClassifier"))
    with h5py.File(tmp_path / "old" / "model.weights.h5", "a") as file:
        file.move("layers", "_layer_checkpoint_dependencies")
        layers = file["_layer_checkpoint_dependencies"]
        attention = layers["transformer_encoder_1/_self_attention_layer"]
        attention.move("query_dense", "_query_dense")
        layers["dropout/seed_generator/vars/0"] = np.zeros(2, "uint32")
    bert = kbert.load(tmp_path / "old")
    assert bert.report.initialized == bert.report.ignored == ()
    assert_allclose(outputs_of(bert, out)[0], expected(out, "classifier")[0], atol=1e-5)
