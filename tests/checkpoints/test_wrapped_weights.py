"""Weights open as people's training code saves them, with wrapped names and more content."""

import collections
import json
import shutil

import numpy as np
import pytest
from helpers.damaged_checkpoints import WEIGHTS, load_error
from helpers.small_berts import change_weights
from numpy.testing import assert_allclose
from safetensors.numpy import load_file

import kbert

torch = pytest.importorskip("torch", reason="which writes the files")

SIZES = {"vocab_size": 13, "hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 3}
SIZES |= {"intermediate_size": 20, "max_position_embeddings": 9}
CONFIG = kbert.BertConfig(**SIZES)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A classifier's folder, the tensors in it, and the outputs of its encoder and its head."""
    folder = tmp_path_factory.mktemp("plain") / "bert"
    model = change_weights(kbert.build_classifier(CONFIG, num_labels=4, seq_len=None))
    kbert.save(kbert.Bert(CONFIG, "classifier", model), folder)
    tensors = {name: torch.tensor(a) for name, a in load_file(folder / WEIGHTS).items()}
    encoder = kbert.load(folder, head="encoder").model
    return folder, tensors, {"classifier": outputs_of(model), "encoder": outputs_of(encoder)}


@pytest.fixture
def state(plain):
    return plain[1]


@pytest.fixture
def folder(plain, tmp_path):
    shutil.copy(plain[0] / "config.json", tmp_path)
    return tmp_path


def outputs_of(model) -> np.ndarray:
    ids = np.array([[2, 7, 5, 3]])
    return np.asarray(model([ids, np.zeros_like(ids)][: len(model.inputs)])[0])


def check_same(bert, plain):
    """The logits, or of an encoder the hidden states, are those of the plain checkpoint."""
    assert bert.report.initialized == ()
    assert_allclose(outputs_of(bert.model), plain[2][bert.head], atol=1e-6)


def inner(state) -> dict:
    """The encoder's weights, as `model.bert.state_dict()`."""
    named = {name: tensor for name, tensor in state.items() if name.startswith("bert.")}
    return {name.removeprefix("bert."): tensor for name, tensor in named.items()}


@pytest.mark.full
@pytest.mark.parametrize("wrapper", ["module.", "_orig_mod.", "model.", "module._orig_mod.model."])
@pytest.mark.parametrize("bare", [True, False])
def test_prefix_of_all_names_is_removed(folder, plain, state, wrapper, bare):
    wrapped = {wrapper + name: one for name, one in (inner(state) if bare else state).items()}
    torch.save(wrapped, folder / "pytorch_model.bin")
    if bare:
        (folder / "config.json").unlink()
        (folder / "bert_config.json").write_text(json.dumps(SIZES))  # pytorch-pretrained-bert's
    bert = kbert.load(folder)
    assert bert.head == ("encoder" if bare else "classifier")
    check_same(bert, plain)
    assert f"without {wrapper.rstrip('.')!r} before" in " ".join(kbert.inspect(folder).notes)


def test_a_compiled_part_of_a_model_opens(folder, plain, state):
    """torch.compile(model.bert) alone: the head has no prefix."""
    compiled = {name.replace("bert.", "bert._orig_mod.", 1): one for name, one in state.items()}
    torch.save(compiled, folder / "pytorch_model.bin")
    check_same(kbert.load(folder), plain)


@pytest.mark.parametrize(
    ("name", "key"),
    [("last.ckpt", "state_dict"), ("best.pt", "model_state_dict"), ("best.pth", "model")],
)
@pytest.mark.full
def test_a_training_checkpoint_opens_beside_its_configuration(folder, plain, state, name, key):
    parameter = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.AdamW([parameter])
    parameter.sum().backward()
    optimizer.step()
    wrapped = collections.OrderedDict((f"model.{name}", one) for name, one in state.items())
    others = {"epoch": 3, "optimizer": optimizer.state_dict(), "loops": {"fit": [1]}}
    torch.save({key: wrapped} | others, folder / name)
    load_error(folder, name)
    check_same(kbert.load(folder / name), plain)
    (folder / "config.json").unlink()
    load_error(folder / name, "config.json")
    check_same(kbert.load(folder / name, config=CONFIG), plain)


def test_two_models_in_a_file_are_refused_and_other_layers_named(folder, plain, state):
    two = {f"{who}.{name}": one for who in ("student", "teacher") for name, one in state.items()}
    torch.save(two, folder / "pytorch_model.bin")
    load_error(folder, "student.bert.", "teacher.bert.")
    torch.save({"state_dict": state, "model": state}, folder / "pytorch_model.bin")
    load_error(folder, "state_dict, model")
    own = {f"net.{name}": one for name, one in inner(state).items()}
    own["classifier.weight"] = torch.ones(5, 12)
    torch.save(own, folder / "last.ckpt")
    load_error(folder / "last.ckpt", "unexpected: classifier.weight (outside of net)")
    bert = kbert.load(folder / "last.ckpt", ignore=["classifier.weight (outside of net)"])
    check_same(bert, plain)
