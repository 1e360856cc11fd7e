"""keras_bert's files open with keras_bert's numbers, and it reads what kbert writes."""

import json
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
from helpers.command_line import kbert as command
from helpers.damaged_checkpoints import load_error
from helpers.errors import collected_logs
from helpers.marks import full
from helpers.page_blocks import blocks
from helpers.peer_keras_bert import SIZES
from helpers.peer_outputs import compute, run_peer
from helpers.sizes import ROOT
from helpers.small_berts import change_weights
from numpy.testing import assert_allclose

import kbert
from kbert.checkpoints import formats

PEER = "peer_keras_bert:run"
# keras_bert has two segments.
OURS = {
    "vocab_size": SIZES["token_num"],
    "hidden_size": SIZES["embed_dim"],
    "num_hidden_layers": SIZES["transformer_num"],
    "num_attention_heads": SIZES["head_num"],
    "intermediate_size": SIZES["feed_forward_dim"],
    "max_position_embeddings": SIZES["pos_num"],
    "type_vocab_size": 2,
}
CONFIG = kbert.BertConfig(
    **OURS, hidden_act="gelu_new", attention_probs_dropout_prob=0.0, layer_norm_eps=1e-14
)


TOLERANCE = {"atol": 1e-5, "rtol": 1e-5}


@pytest.fixture(scope="module")
def peer(tmp_path_factory):
    """The folder with all that keras_bert wrote."""
    out = tmp_path_factory.mktemp("keras_bert")
    run_peer(PEER, out)
    return out


def arrays_of(file):
    with np.load(file) as arrays:
        return dict(arrays)


def theirs(peer, name):
    return list(arrays_of(peer / f"{name}.npz").values())


def outputs_of(bert, peer):
    ids = arrays_of(peer / "ids.npz")
    return kbert.predict(bert.model, ids["token_ids"], ids["segment_ids"])


def real(peer):
    return arrays_of(peer / "ids.npz")["token_ids"] != 0


def softmax(logits):
    exponents = np.exp(logits - logits.max(-1, keepdims=True))
    return exponents / exponents.sum(-1, keepdims=True)


def check_google(folder, expected, peer, activation="gelu_new"):
    """Its gelu is the tanh form, kbert's gelu_new."""
    config = kbert.BertConfig(**OURS, hidden_act=activation)
    bert = kbert.load(folder, config=config)
    encoder = kbert.load(folder, config=config, head="encoder")
    found, where = outputs_of(bert, peer), real(peer)
    features = next(iter(outputs_of(encoder, peer).values()))
    assert_allclose(features[where], expected["features"][where], **TOLERANCE)
    assert_allclose(softmax(found["MLM"])[where], expected["MLM"][where], **TOLERANCE)
    assert_allclose(softmax(found["NSP"]), expected["NSP"], **TOLERANCE)
    assert np.ptp(expected["NSP"]) > 0.1  # the numbers are no constants


@pytest.mark.full
def test_googles_checkpoint_gives_keras_berts_numbers(peer):
    check_google(peer / "google", arrays_of(peer / "google.npz"), peer)


@pytest.mark.full
def test_keras_bert_reads_googles_format_from_kbert(peer, tmp_path):
    folders = [tmp_path / activation for activation in ("gelu", "relu")]
    for folder in folders:
        config = kbert.BertConfig(**OURS, hidden_act=folder.name)
        model = change_weights(kbert.build_bert(config, seq_len=None), 0.5)
        kbert.save(kbert.Bert(config, "pretraining", model), folder, format="google")
    compute(PEER, tmp_path, *map(str, folders))
    for folder, activation in zip(folders, ("gelu_new", "relu"), strict=True):
        check_google(folder, arrays_of(tmp_path / f"{folder.name}.npz"), peer, activation)


@pytest.mark.parametrize("name", ["both", full("relu"), "weights"])
def test_keras_bert_files_give_its_numbers(peer, name):
    bert = kbert.load(peer / f"{name}.h5", config=CONFIG if name == "weights" else None)
    assert (bert.head, bert.tokenizer) == ("pretraining", None)
    assert (bert.report.initialized, bert.report.ignored) == ((), ())
    found, where = outputs_of(bert, peer), real(peer)
    mlm, nsp = theirs(peer, "both" if name == "weights" else name)
    assert_allclose(softmax(found["MLM"])[where], mlm[where], **TOLERANCE)
    assert_allclose(softmax(found["NSP"]), nsp, **TOLERANCE)


@pytest.mark.parametrize("name", [full("encoder"), "several"])
def test_keras_bert_encoders_give_its_features(peer, name):
    with collected_logs() as messages:
        bert = kbert.load(peer / f"{name}.h5")
    assert bert.head == "encoder"
    assert bert.report.initialized == ("NSP-Dense/kernel", "NSP-Dense/bias")
    (expected,) = theirs(peer, name)
    if name == "several":  # the last blocks, joined
        assert any(f"{name}.h5" in text and "blocks" in text for text in messages)
        states = kbert.build_hidden_states(bert.model, layers=[-2, -1])
        ids = arrays_of(peer / "ids.npz")
        found = list(kbert.predict(states, ids["token_ids"], ids["segment_ids"]).values())
        found = np.concatenate(found, axis=-1)
    else:
        found = next(iter(outputs_of(bert, peer).values()))
    assert_allclose(found[real(peer)], expected[real(peer)], **TOLERANCE)


PAGE_COMMANDS = (
    "kbert convert model.h5 bert --vocab vocab.txt --uncased",
    'kbert fill-mask bert "The cat [MASK] here."',
)


@pytest.mark.full
@pytest.mark.parametrize("name", ["both", full("weights")])
def test_commands_of_the_page_open_a_keras_bert_file(peer, tmp_path, monkeypatch, capsys, name):
    """With the vocabulary that it lacks; the page's Python gives the same folder."""
    page = ROOT / "docs" / "how_to" / "coming_from.md"
    shell, python = (
        next(one.text for one in blocks(page) if one.kind == kind and "model.h5" in one.text)
        for kind in ("bash", "python")
    )
    assert shell.splitlines() == list(PAGE_COMMANDS)
    monkeypatch.chdir(tmp_path)
    shutil.copy(peer / f"{name}.h5", "model.h5")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "here", "."]
    words += [f"w{n}" for n in range(SIZES["token_num"] - len(words))]
    Path("vocab.txt").write_text("\n".join(words) + "\n")
    Path("bert_config.json").write_text(json.dumps(CONFIG.to_dict()))
    convert, fill = (shlex.split(line)[1:] for line in PAGE_COMMANDS)
    more = ["--config", "bert_config.json"] if name == "weights" else []
    assert command(capsys, *convert, *more).status == 0
    lines = command(capsys, *fill).out.splitlines()
    assert len(lines) == 5 and {line.split()[1] for line in lines} <= {*words}
    made = {file.name: file.read_bytes() for file in Path("bert").iterdir()}
    if name == "both":
        shutil.rmtree("bert")
        exec(python, {"kbert": kbert})
        assert {file.name: file.read_bytes() for file in Path("bert").iterdir()} == made


def test_configuration_is_read_from_a_whole_model(peer):
    assert kbert.load(peer / "both.h5").config == CONFIG.replace(layer_norm_eps=1e-7**2)
    relu = kbert.load(peer / "relu.h5").config
    assert (relu.hidden_act, relu.hidden_dropout_prob) == ("relu", 0.3)


def test_optimizer_weights_are_left_out(peer):
    with formats.open_checkpoint(peer / "both.h5") as checkpoint:
        assert checkpoint.left_out and not any("Adam" in name for name in checkpoint.tensors)
        tensor = checkpoint.tensors["Encoder-2-FeedForward/Encoder-2-FeedForward_W1"]
        assert (tensor.shape, tensor.dtype) == ((12, 17), "float32")


@pytest.mark.full
@pytest.mark.parametrize("name", ["fine_tuned", full("nested")])
def test_a_users_own_head_is_named_and_can_be_left_out(peer, name):
    said = load_error(peer / f"{name}.h5", "2 problems", "unexpected: Mine/")
    assert "unexpected: Mine/kernel" in said
    bert = kbert.load(peer / f"{name}.h5", ignore=["Mine/kernel", "Mine/bias"])
    assert bert.head == "encoder"
    lacks = () if name == "fine_tuned" else ("NSP-Dense",)
    assert bert.report.initialized_layers == lacks
    expected = theirs(peer, name)[0]
    outputs = list(outputs_of(bert, peer).values())
    if name == "nested":
        assert_allclose(outputs[0][real(peer)], expected[real(peer)], **TOLERANCE)
    else:  # their softmax of the head over the pooled output
        import h5py

        with h5py.File(peer / "fine_tuned.h5") as file:
            head = file["model_weights/Mine/Mine"]
            logits = outputs[1] @ head["kernel:0"][()] + head["bias:0"][()]
        assert_allclose(softmax(logits), expected, **TOLERANCE)


def damaged(peer, tmp_path, change):
    import h5py

    path = tmp_path / "model.h5"
    path.write_bytes((peer / "both.h5").read_bytes())
    with h5py.File(path, "r+") as file:
        change(file)
    return path


def with_config(pattern, replacement):
    def change(file):
        text = file.attrs["model_config"]
        assert pattern in text
        file.attrs["model_config"] = text.replace(pattern, replacement)

    return change


@pytest.mark.full
@pytest.mark.parametrize(
    ("change", "things"),
    [
        (with_config('"class_name"', "'class_name'"), ("model_config", "JSON")),
        (with_config('"activation": "gelu"', '"activation": "prelu"'), ("hidden_act", "prelu")),
        (with_config('"history_only": false', '"history_only": true'), ("history_only",)),
        (with_config('"head_num"', '"num_heads"'), ("keras_bert",)),
        (with_config('"units"', '"Units"'), ("FeedForward.units",)),
        (with_config('"head_num": 3', '"head_num": 5'), ("hidden_size",)),
        (lambda file: file["model_weights"].attrs.pop("layer_names"), ("HDF5",)),
        (lambda file: file["model_weights"].move("MLM-Sim", "MLM-Sim-Adapter"), ("use_adapter",)),
        (lambda file: file["model_weights/NSP/NSP"].pop("bias:0"), ("missing: NSP/bias",)),
        (
            lambda file: file["model_weights"].create_dataset(
                "x/y:0", (3,), "f4", external=[("/etc/passwd", 0, 12)]
            ),
            ("x/y:0",),
        ),
    ],
)
def test_damaged_file_is_one_line(peer, tmp_path, change, things):
    load_error(damaged(peer, tmp_path, change), *things)


@pytest.mark.parametrize(
    ("name", "things"),
    [
        ("weights", ("num_attention_heads", "hidden_act", "num_hidden_layers=2")),
        ("task", ("use_task_embed=True",)),
        ("tanh", ("'tanh'",)),
        ("other", ("Embedding-Token", "alone")),
    ],
)
def test_unsupported_keras_bert_models_are_named(peer, name, things):
    load_error(peer / f"{name}.h5", f"{name}.h5", *things)


def test_a_file_of_keras_3_is_named(small, tmp_path):
    model = kbert.build_encoder(small)
    model.save_weights(tmp_path / "bert.weights.h5")
    load_error(tmp_path / "bert.weights.h5", "bert.weights.h5", "Keras 3")
