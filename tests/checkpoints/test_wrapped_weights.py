"""Weights as people's training code writes them: wrapped names, checkpoints with more in them."""

import collections
import json

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kbert

transformers = pytest.importorskip("transformers", reason="whose models and numbers these are")
torch = pytest.importorskip("torch", reason="which writes the files")

SIZES = {"vocab_size": 13, "hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 3}
SIZES |= {"intermediate_size": 20, "max_position_embeddings": 9}
IDS = [[2, 7, 5, 3]]


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(3)
    config = transformers.BertConfig(**SIZES, num_labels=4)
    return transformers.BertForSequenceClassification(config).eval()


@pytest.fixture
def folder(model, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(model.config.to_dict()))
    return tmp_path


def check_same(bert, model):
    """The logits, or of an encoder the hidden states, of transformers."""
    ids = torch.tensor(IDS)
    with torch.no_grad():
        if bert.head == "classifier":
            wanted = model(ids).logits
        else:
            wanted = model.bert(ids).last_hidden_state
    found = next(iter(kbert.predict(bert.model, np.array(IDS), np.zeros((1, 4), int)).values()))
    assert bert.report.initialized == ()
    assert_allclose(found, wanted.numpy(), atol=1e-5)


@pytest.mark.parametrize("wrapper", ["module.", "_orig_mod.", "model.", "module._orig_mod.model."])
@pytest.mark.parametrize("bare", [True, False])
def test_prefix_of_all_names_is_removed(folder, model, wrapper, bare):
    inner = model.bert if bare else model
    state = {wrapper + name: tensor for name, tensor in inner.state_dict().items()}
    torch.save(state, folder / "pytorch_model.bin")
    if bare:
        (folder / "config.json").rename(folder / "bert_config.json")  # pytorch-pretrained-bert's
        config = transformers.BertConfig(**SIZES).to_dict()
        (folder / "bert_config.json").write_text(json.dumps(config))
    bert = kbert.load(folder)
    assert bert.head == ("encoder" if bare else "classifier")
    check_same(bert, model)
    assert f"without {wrapper.rstrip('.')!r} before" in " ".join(kbert.inspect(folder).notes)


def test_a_compiled_part_of_a_model_opens(folder, model):
    """torch.compile(model.bert) alone: the head has no prefix."""
    state = {
        name.replace("bert.", "bert._orig_mod.", 1): tensor
        for name, tensor in model.state_dict().items()
    }
    torch.save(state, folder / "pytorch_model.bin")
    check_same(kbert.load(folder), model)


@pytest.mark.parametrize(
    ("name", "key"),
    [("last.ckpt", "state_dict"), ("best.pt", "model_state_dict"), ("best.pth", "model")],
)
def test_a_training_checkpoint_opens_beside_its_configuration(folder, model, name, key):
    optimizer = torch.optim.AdamW(model.parameters())
    state = collections.OrderedDict(
        (f"model.{name}", tensor) for name, tensor in model.state_dict().items()
    )
    others = {"epoch": 3, "optimizer": optimizer.state_dict(), "loops": {"fit": [1]}}
    torch.save({key: state} | others, folder / name)
    with pytest.raises(FileNotFoundError, match=f"give the path of one file, .*{name}"):
        kbert.load(folder)
    check_same(kbert.load(folder / name), model)
    (folder / "config.json").unlink()
    with pytest.raises(ValueError, match=r"must have a config\.json beside it, got none"):
        kbert.load(folder / name)
    check_same(kbert.load(folder / name, config=kbert.BertConfig(**SIZES)), model)


def test_two_models_in_a_file_are_refused_and_other_layers_named(folder, model):
    plain = model.state_dict()
    two = {
        f"{who}.{name}": value for who in ("student", "teacher") for name, value in plain.items()
    }
    torch.save(two, folder / "pytorch_model.bin")
    with pytest.raises(ValueError, match=r"one model, got several: student.bert., teacher.bert."):
        kbert.load(folder)
    torch.save({"state_dict": plain, "model": plain}, folder / "pytorch_model.bin")
    with pytest.raises(ValueError, match=r"one model, got several: state_dict, model"):
        kbert.load(folder)
    own = {f"net.{name}": value for name, value in model.bert.state_dict().items()}
    own["classifier.weight"] = torch.ones(5, 12)
    torch.save(own, folder / "last.ckpt")
    with pytest.raises(ValueError, match=r"unexpected: classifier.weight \(outside of net\)"):
        kbert.load(folder / "last.ckpt")
    bert = kbert.load(folder / "last.ckpt", ignore=["classifier.weight (outside of net)"])
    check_same(bert, model)
