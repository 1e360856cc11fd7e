"""A .keras goes out and comes back bit for bit, opens in plain Keras, and names what is wrong."""

import importlib.util
import json
import os
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from helpers.backends import environment_of, full_on, nightly_on
from numpy.testing import assert_allclose, assert_array_equal

import kbert
from kbert.checkpoints.keras import file as keras_file
from kbert.graph.spec import GraphSpec
from kbert.heads import HEADS
from kbert.model import builder

LABELS = ("no", "yes", "maybe", "so", "what")
SOME = {head: [pytest.mark.full] if head in ("encoder", "qa") else [] for head in HEADS}
LOAD = """
import sys
import numpy as np
import kbert, keras
model = keras.saving.load_model(sys.argv[1])
ids = np.load(sys.argv[2])
outputs = model.predict([ids[name] for name in ids.files], verbose=0)
weights = {weight.path: keras.ops.convert_to_numpy(weight) for weight in model.weights}
np.savez(sys.argv[3], mlm=outputs[0], nsp=outputs[1], **weights)
"""


@pytest.fixture(scope="session")
def tokenizer(small):
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = [f"word{number}" for number in range(small.vocab_size - len(special))]
    return kbert.Tokenizer.from_vocab([*special, *words], lowercase=True)


def model_of(config, head, **options):
    """A model of odd weights, none of them alike."""
    import keras

    model = builder.build(GraphSpec(config, head, num_labels=len(LABELS), **options))
    random = np.random.default_rng(5)
    for weight in model.weights:
        value = keras.ops.convert_to_numpy(weight)
        weight.assign(value + 0.3 * random.standard_normal(weight.shape))
    return model


def arrays_of(model):
    import keras

    return {weight.path: keras.ops.convert_to_numpy(weight) for weight in model.weights}


@pytest.fixture(scope="module")
def plain(small, tmp_path_factory):
    """A file that Keras wrote by itself."""
    path = tmp_path_factory.mktemp("plain") / "plain.keras"
    model_of(small, "pretraining", seq_len=11).save(path)
    return path


@pytest.mark.parametrize("head", [pytest.param(head, marks=SOME[head]) for head in HEADS])
def test_every_head_reloads_bit_equal(small, tokenizer, tmp_path, head):
    labels = LABELS if head in ("classifier", "tokens") else None
    model = model_of(small, head, seq_len=11)
    sentence = kbert.SentenceSettings("cls", True, 9)
    bert = kbert.Bert(small, head, model, tokenizer, labels=labels, sentence=sentence)
    keras_file.write(bert, tmp_path / "bert.keras")
    assert [file.name for file in tmp_path.iterdir()] == ["bert.keras"]
    expected = arrays_of(model)
    with keras_file.open_checkpoint(tmp_path / "bert.keras") as found:
        assert found.spec == model.spec
        assert found.spec.num_labels == len(labels or "ab"[: HEADS[head].num_outputs])
        assert (found.labels, found.sentence) == (labels, sentence)
        again = kbert.Tokenizer.load(found.vocabulary)
        assert again.encode("word7 word50").ids == tokenizer.encode("word7 word50").ids
        assert found.tensors.keys() == expected.keys()
        for name, tensor in found.tensors.items():
            assert_array_equal(tensor.read(), expected[name])
            assert (tensor.shape, tensor.dtype) == (expected[name].shape, "float32")
    assert not found.vocabulary.exists()


@pytest.mark.full
@nightly_on("jax", "torch")
def test_plain_keras_opens_the_file_on_another_backend(small, tokenizer, tmp_path, backend):
    other = {"tensorflow": "jax", "jax": "torch", "torch": "tensorflow"}[backend]
    if importlib.util.find_spec(other) is None:
        pytest.skip(f"{other} is not installed")
    model = model_of(small, "pretraining", seq_len=11)
    path, ids, out = (tmp_path / name for name in ("bert.keras", "ids.npz", "out.npz"))
    keras_file.write(kbert.Bert(small, "pretraining", model, tokenizer), path)
    random = np.random.default_rng(2)
    token_ids = random.integers(1, 99, (13, 11)).astype("int32")
    token_ids[::2, 7:] = 0
    inputs = [token_ids, token_ids % 3, token_ids % 2]
    np.savez(ids, *inputs)
    command = [sys.executable, "-c", LOAD, str(path), str(ids), str(out)]
    environment = os.environ | environment_of(other)
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    found = np.load(out)
    for name, value in arrays_of(model).items():
        assert_array_equal(found[name], value)
    for name, value in zip(("mlm", "nsp"), model.predict(inputs, verbose=0), strict=True):
        assert_allclose(found[name], value, atol=1e-5, rtol=1e-5)


@nightly_on("jax", "torch")
@pytest.mark.parametrize("hidden_act", ["gelu", "gelu_new", "silu", "swish", "linear"])
def test_configuration_is_inferred_from_a_plain_keras_file(small, tmp_path, hidden_act):
    config = small.replace(
        hidden_act=hidden_act,
        hidden_dropout_prob=0.2,
        attention_probs_dropout_prob=0.3,
        layer_norm_eps=1e-5,
        initializer_range=0.03,
        pad_token_id=4,
    )
    builder.build(GraphSpec(config)).save(tmp_path / "bert.keras")
    with keras_file.open_checkpoint(tmp_path / "bert.keras") as found:
        assert found.spec == GraphSpec(config, dtype="float32")
        assert (found.vocabulary, found.labels, found.sentence) == (None, None, None)


@pytest.mark.full
@pytest.mark.parametrize("rate", [None, 0.4])
@pytest.mark.parametrize("head", ["classifier", "tokens"])
def test_labels_and_dropout_are_inferred_from_a_classifier(small, tmp_path, head, rate):
    config = small.replace(classifier_dropout=rate)
    model_of(config, head, seq_len=11).save(tmp_path / "bert.keras")
    with keras_file.open_checkpoint(tmp_path / "bert.keras") as found:
        assert (found.spec.config, found.spec.head, found.spec.num_labels) == (config, head, 5)


@full_on("jax", "torch")
def test_optimizer_in_a_keras_file_is_left_out(small, tmp_path):
    import keras

    model = model_of(small, "encoder", seq_len=11)
    model.compile("adam", loss="mse")
    model.optimizer.build(model.trainable_variables)
    model.save(tmp_path / "bert.keras")
    with keras_file.open_checkpoint(tmp_path / "bert.keras") as found:
        assert found.tensors.keys() == arrays_of(model).keys()
        assert len(found.left_out) == len(model.optimizer.variables)
    graph = keras.Model(model.inputs, model.outputs)  # no BertModel, and the same layers
    graph.save(tmp_path / "graph.keras")
    with keras_file.open_checkpoint(tmp_path / "graph.keras") as found:
        assert found.spec == model.spec


@full_on("jax", "torch")
def test_gathered_mlm_head_is_recognized(small, tmp_path):
    model = model_of(small, "pretraining", seq_len=11, max_predictions=5)
    model.save(tmp_path / "bert.keras")
    with keras_file.open_checkpoint(tmp_path / "bert.keras") as found:
        assert found.tensors.keys() == arrays_of(model).keys()


@full_on("torch")
@nightly_on("jax")
def test_bfloat16_weights_are_read_as_bfloat16(small, tmp_path):
    import keras

    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("bfloat16")
    try:
        model = model_of(small, "encoder", seq_len=11)
    finally:
        keras.config.set_dtype_policy(policy)
    model.save(tmp_path / "bert.keras")
    with keras_file.open_checkpoint(tmp_path / "bert.keras") as found:
        tensor = found.tensors["NSP-Dense/kernel"]
        assert tensor.dtype == "bfloat16"
        expected = keras.ops.convert_to_numpy(model.get_layer("NSP-Dense").kernel)
        assert_array_equal(tensor.read().astype("float32"), expected.astype("float32"))


@nightly_on("jax", "torch")
def test_compressed_keras_file_is_read(plain, tmp_path):
    with (
        zipfile.ZipFile(plain) as old,
        zipfile.ZipFile(tmp_path / "new.keras", "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            new.writestr(name, old.read(name))
    with (
        keras_file.open_checkpoint(plain) as a,
        keras_file.open_checkpoint(tmp_path / "new.keras") as b,
    ):
        for name, tensor in a.tensors.items():
            assert_array_equal(b.tensors[name].read(), tensor.read())


def refused(path, *parts):
    """One line that says each of the parts."""
    with pytest.raises(ValueError) as raised, keras_file.open_checkpoint(path) as found:
        for tensor in found.tensors.values():
            tensor.read()
    message = str(raised.value)
    assert "\n" not in message and str(path) in message
    for part in parts:
        assert part in message


@nightly_on("jax", "torch")
def test_a_damaged_file_is_refused(plain, tmp_path):
    content = plain.read_bytes()
    path = tmp_path / "damaged.keras"
    for cut in (len(content) // 2, len(content) - 9, 11, 0):
        path.write_bytes(content[:cut])
        refused(path, "must be a whole .keras file")
    place = content.index(b"\x89HDF")
    path.write_bytes(content[:place] + b"\0\0\0\0" + content[place + 4 :])
    refused(path, "must be a whole .keras file")


@nightly_on("jax", "torch")
def test_a_changed_bit_is_found_when_weights_are_read(small, tmp_path):
    model = model_of(small, "encoder", seq_len=11)
    path = tmp_path / "bert.keras"
    model.save(path)
    content = bytearray(path.read_bytes())
    table = arrays_of(model)["Embedding-Token/embeddings"].tobytes()
    content[content.index(table) + 77] ^= 1
    path.write_bytes(content)
    with keras_file.open_checkpoint(path) as found:
        assert len(found.tensors) == len(model.weights)  # names alone: nothing is read
        with pytest.raises(ValueError, match="wrong check sum"):
            found.tensors["NSP-Dense/kernel"].read()


def rewritten(source, target, **members):
    """A copy of the file with members replaced; `None` leaves one out."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in [*old.namelist(), *(name for name in members if name not in old.namelist())]:
            value = members.get(name, old.read(name) if name in old.namelist() else None)
            if value is not None:
                new.writestr(name, value)
    return target


@nightly_on("jax", "torch")
@pytest.mark.parametrize(
    ("members", "parts"),
    [
        ({"config.json": None}, ["must be a .keras file with config.json"]),
        ({"model.weights.h5": None}, ["must be a .keras file with model.weights.h5"]),
        ({"config.json": b"{"}, ["config.json must be JSON"]),
        ({"config.json": b"\xff"}, ["config.json must be UTF-8 text in JSON"]),
        ({"config.json": b"[]"}, ["config.json must be a JSON object, got list"]),
        ({"config.json": b'{"class_name": "X", "config": {"layers": 3}}'}, ["got a X"]),
        ({"kbert/bert.json": b"[]"}, ["kbert/bert.json must be a JSON object, got list"]),
        ({"kbert/bert.json": b'{"head": "qa", "config": {"vocab_size": 0}}'}, ["_size must be"]),
        (
            {"kbert/bert.json": b'{"head": "qa", "config": {"vocab_size": 99}}'},
            ["got another", "no Encoder-3"],
        ),
    ],
)
def test_missing_or_wrong_member_is_named(plain, tmp_path, members, parts):
    refused(rewritten(plain, tmp_path / "wrong.keras", **members), *parts)


@nightly_on("jax", "torch")
@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"head": "encoder"}, "the head that the graph has, pretraining, got 'encoder'"),
        ({"labels": ["a", "b", "c"]}, "must have 2 labels"),
        ({"sentence": {"pool": 1}}, "must be an object with pooling, normalize, max_length"),
    ],
)
def test_settings_that_contradict_the_graph_are_refused(small, tmp_path, change, part):
    path = tmp_path / "bert.keras"
    keras_file.write(kbert.Bert(small, "pretraining", model_of(small, "pretraining")), path)
    with zipfile.ZipFile(path) as archive:
        settings = json.loads(archive.read("kbert/bert.json")) | change
    members = {"kbert/bert.json": json.dumps(settings)}
    refused(rewritten(path, tmp_path / "wrong.keras", **members), part)


@nightly_on("jax", "torch")
def test_members_cannot_leave_the_vocabulary_folder(small, tokenizer, tmp_path):
    path = tmp_path / "bert.keras"
    keras_file.write(kbert.Bert(small, "encoder", model_of(small, "encoder"), tokenizer), path)
    members = {"../evil.txt": b"!", "kbert/../../evil.txt": b"!", "/tmp/evil.txt": b"!"}
    with keras_file.open_checkpoint(rewritten(path, tmp_path / "evil.keras", **members)) as found:
        names = sorted(file.name for file in found.vocabulary.iterdir())
        assert names == ["tokenizer.json", "tokenizer_config.json", "vocab.txt"]
        assert not (found.vocabulary.parent / "evil.txt").exists()


@nightly_on("jax", "torch")
def test_weights_in_an_external_file_are_refused(plain, tmp_path):
    import h5py

    with zipfile.ZipFile(plain) as archive:
        (tmp_path / "weights.h5").write_bytes(archive.read("model.weights.h5"))
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(24 * 24 * 4))
    with h5py.File(tmp_path / "weights.h5", "a") as file:
        del file["layers/dense/vars/0"]
        file["layers/dense/vars"].create_dataset(
            "0", (24, 24), "float32", external=[(str(secret), 0, 24 * 24 * 4)]
        )
    members = {"model.weights.h5": (tmp_path / "weights.h5").read_bytes()}
    refused(rewritten(plain, tmp_path / "linked.keras", **members), "must hold its own numbers")


@nightly_on("jax", "torch")
def test_file_of_another_model_names_that_model(small, tmp_path):
    import keras

    layers = [keras.Input((3,)), keras.layers.Dense(5, name="scores")]
    keras.Sequential(layers, name="other").save(tmp_path / "other.keras")
    refused(tmp_path / "other.keras", "got a Sequential", "scores (Dense)")
    bert = model_of(small, "encoder", seq_len=11)
    ids = [keras.Input((11,), dtype="int32") for _ in range(2)]
    keras.Model(ids, bert(ids)[1]).save(tmp_path / "bigger.keras")
    refused(tmp_path / "bigger.keras", "around one", "model.get_layer('bert_encoder').save(…)")
    more = keras.layers.Dense(3, name="more")(bert.outputs[1])
    keras.Model(bert.inputs, more).save(tmp_path / "more.keras")
    refused(tmp_path / "more.keras", "more (Dense) added")
    kbert.build_hidden_states(bert, blocks=[1]).save(tmp_path / "part.keras")
    refused(tmp_path / "part.keras", "got another")


@nightly_on("jax", "torch")
@pytest.mark.parametrize(
    ("layer", "key", "value"),
    [
        ("Encoder-2-FeedForward", "hidden_act", "relu"),
        ("Encoder-2-FeedForward-Norm", "epsilon", 1e-5),
        ("Encoder-2-MultiHeadSelfAttention", "attention_axes", [2]),
        ("Encoder-2-FeedForward-Dropout", "rate", 0.5),
        ("MLM-Dense", "activation", "relu"),
        ("NSP-Dense", "activation", "linear"),
        ("Extract", "index", 1),
    ],
)
def test_layer_with_other_settings_is_named(plain, tmp_path, layer, key, value):
    with zipfile.ZipFile(plain) as archive:
        values = json.loads(archive.read("config.json"))
    (found,) = (part for part in values["config"]["layers"] if part["name"] == layer)
    found["config"][key] = value
    members = {"config.json": json.dumps(values)}
    refused(rewritten(plain, tmp_path / "set.keras", **members), f"{layer} has {key} {value!r}")


@nightly_on("jax", "torch")
def test_layer_with_other_inputs_is_named(plain, tmp_path):
    with zipfile.ZipFile(plain) as archive:
        text = archive.read("config.json").decode()
    old, new = '"Encoder-2-FeedForward-Norm", 0, 0', '"Encoder-1-FeedForward-Norm", 0, 0'
    members = {"config.json": text.replace(old, new, 1)}
    path = rewritten(plain, tmp_path / "connected.keras", **members)
    refused(path, "is connected to Encoder-1-FeedForward-Norm")


@pytest.mark.full
@nightly_on("jax", "torch")
@pytest.mark.parametrize(
    ("layer", "part"),
    [
        ("NSP-Dense", "dtype policy QuantizedDTypePolicy"),
        ("intermediate", "intermediate/kernel must be in one of float32"),
    ],
)
def test_a_quantized_model_is_refused(small, tmp_path, layer, part):
    model = model_of(small, "encoder", seq_len=11)
    model.quantize("int8", filters=layer)
    model.save(tmp_path / "int8.keras")
    refused(tmp_path / "int8.keras", part)


@nightly_on("jax", "torch")
def test_failed_save_keeps_the_old_file(small, tmp_path):
    class Full:
        def save(self, folder, **_):
            raise OSError(28, "No space left on device", str(folder))

    path = tmp_path / "bert.keras"
    path.write_bytes(b"old")
    bert = kbert.Bert(small, "encoder", model_of(small, "encoder"), Full())
    with pytest.raises(OSError, match="No space left on device") as raised:
        keras_file.write(bert, path)
    assert raised.value.filename == str(path)
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [(path.name, b"old")]
    with pytest.raises(ValueError, match=r"must end in \.keras"):
        keras_file.write(bert, tmp_path / "bert.h5")
