"""A .keras goes out and comes back bit for bit, and names what is wrong."""

import errno
import json
import zipfile

import h5py
import keras
import numpy as np
import pytest
from helpers.backends import nightly_on
from helpers.errors import raises
from helpers.marks import full
from numpy.testing import assert_array_equal

import kbert
from kbert.checkpoints.keras import file as keras_file
from kbert.graph.spec import GraphSpec
from kbert.heads import HEADS, HEADS_WITH_LABELS
from kbert.model import builder
from kbert.model.layers import encoder

pytestmark = nightly_on("jax", "torch")  # test_saving opens files of each backend
# Keras warns of each layer that it leaves as it is.
KEEPS_LAYERS = pytest.mark.filterwarnings("ignore:Layer .* does not have a `quantize`:UserWarning")
LABELS = ("no", "yes", "maybe", "so", "what")
CONFIG, WEIGHTS, SETTINGS = "config.json", "model.weights.h5", "kbert/bert.json"


@pytest.fixture(scope="session")
def tokenizer(small):
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = [f"word{number}" for number in range(small.vocab_size - len(special))]
    return kbert.Tokenizer.from_vocab([*special, *words], lowercase=True)


def build_model(config, head, **options):
    """A model of odd weights, none of them alike."""
    spec = GraphSpec(config, head, num_labels=len(LABELS), seq_len=11, **options)
    model, random = builder.build(spec), np.random.default_rng(5)
    for weight in model.weights:
        value = keras.ops.convert_to_numpy(weight)
        weight.assign(value + 0.3 * random.standard_normal(weight.shape))
    return model


def arrays_of(model):
    return {weight.path: keras.ops.convert_to_numpy(weight) for weight in model.weights}


@pytest.fixture(scope="module")
def files(small, tokenizer, tmp_path_factory):
    """Files of one model by their writer, Keras by itself or kbert."""
    folder, model = tmp_path_factory.mktemp("files"), build_model(small, "pretraining")
    model.save(folder / "keras.keras")
    keras_file.write(kbert.Bert(small, "pretraining", model, tokenizer), folder / "kbert.keras")
    return {name: folder / f"{name}.keras" for name in ("keras", "kbert")}


@pytest.mark.full
@pytest.mark.parametrize(
    "head", [full(head) if head in ("encoder", "qa") else head for head in HEADS]
)
def test_every_head_reloads_bit_equal(small, tokenizer, tmp_path, head):
    labels = LABELS if head in HEADS_WITH_LABELS else None
    model, sentence = build_model(small, head), kbert.SentenceSettings("cls", True, 9)
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
@pytest.mark.parametrize("head", HEADS_WITH_LABELS)
def test_labels_and_dropout_are_inferred_from_a_classifier(small, tmp_path, head, rate):
    config = small.replace(classifier_dropout=rate)
    build_model(config, head).save(tmp_path / "bert.keras")
    with keras_file.open_checkpoint(tmp_path / "bert.keras") as found:
        assert (found.spec.config, found.spec.head, found.spec.num_labels) == (config, head, 5)


@pytest.mark.full
def test_optimizer_in_a_keras_file_is_left_out(small, tmp_path):
    """Of a model with the gathered MLM head too."""
    model = build_model(small, "pretraining", max_predictions=5)
    model.compile("adam", loss=["mse", "mse"])
    model.optimizer.build(model.trainable_variables)
    model.save(tmp_path / "bert.keras")
    with keras_file.open_checkpoint(tmp_path / "bert.keras") as found:
        assert found.tensors.keys() == arrays_of(model).keys()
        assert len(found.left_out) == len(model.optimizer.variables)
    encoder = build_model(small, "encoder")
    graph = keras.Model(encoder.inputs, encoder.outputs)  # no BertModel, and the same layers
    graph.save(tmp_path / "graph.keras")
    with keras_file.open_checkpoint(tmp_path / "graph.keras") as found:
        assert found.spec == encoder.spec


def test_bfloat16_weights_are_read_as_bfloat16(small, tmp_path):
    model = build_model(small, "encoder", dtype="bfloat16")
    model.save(tmp_path / "bert.keras")
    with keras_file.open_checkpoint(tmp_path / "bert.keras") as found:
        tensor = found.tensors["NSP-Dense/kernel"]
        assert tensor.dtype == "bfloat16"
        expected = keras.ops.convert_to_numpy(model.get_layer("NSP-Dense").kernel)
        assert_array_equal(tensor.read().astype("float32"), expected.astype("float32"))


def read_members(path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_members(path, members: dict, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def test_compressed_keras_file_is_read(files, tmp_path):
    new = write_members(tmp_path / "a.keras", read_members(files["keras"]), zipfile.ZIP_DEFLATED)
    with (
        keras_file.open_checkpoint(files["keras"]) as one,
        keras_file.open_checkpoint(new) as other,
    ):
        for name, tensor in one.tensors.items():
            assert_array_equal(other.tensors[name].read(), tensor.read())


def refused(path, *parts):
    """One line that says each of the parts."""
    with pytest.raises(ValueError) as raised, keras_file.open_checkpoint(path) as found:
        for tensor in found.tensors.values():
            tensor.read()
    message = str(raised.value)
    assert "\n" not in message and str(path) in message
    for part in parts:
        assert part in message


def test_a_damaged_file_is_refused(files, tmp_path):
    content, path = files["keras"].read_bytes(), tmp_path / "damaged.keras"
    place = content.index(b"\x89HDF")
    cuts = [content[:cut] for cut in (len(content) // 2, len(content) - 9, 11, 0)]
    for damaged in (*cuts, content[:place] + b"\0\0\0\0" + content[place + 4 :]):
        path.write_bytes(damaged)
        refused(path, "must be a whole .keras file")


def test_a_changed_bit_is_found_when_weights_are_read(small, tmp_path):
    model, path = build_model(small, "encoder"), tmp_path / "bert.keras"
    model.save(path)
    content = bytearray(path.read_bytes())
    table = arrays_of(model)["Embedding-Token/embeddings"].tobytes()
    content[content.index(table) + 77] ^= 1
    path.write_bytes(content)
    with keras_file.open_checkpoint(path) as found:
        assert len(found.tensors) == len(model.weights)  # names alone: nothing is read
        with raises(ValueError, path.name, "model.weights.h5"):
            found.tensors["NSP-Dense/kernel"].read()


def set_of_layer(layer: str, key: str, value):
    """Change a layer's setting in the text of a graph."""

    def change(text: bytes) -> str:
        graph = json.loads(text)
        (found,) = (one for one in graph["config"]["layers"] if one["name"] == layer)
        found["config"][key] = value
        return json.dumps(graph)

    return CONFIG, change, [f"{layer} has {key} {value!r}"]


def set_of_model(part: str, **values):
    """Change kbert's settings of a model."""
    return SETTINGS, lambda text: json.dumps(json.loads(text) | values), [part]


def connect_otherwise(text: bytes) -> bytes:
    return text.replace(b'"Encoder-2-FeedForward-Norm", 0', b'"Encoder-1-FeedForward-Norm", 0', 1)


OTHER_SIZES = b'{"head": "qa", "config": {"vocab_size": 99}}'
# a member of the file, what it is replaced by (or a function of it; None: it is left out), words
CHANGES = [
    (CONFIG, None, ["must be a .keras file with config.json"]),
    (WEIGHTS, None, ["must be a .keras file with model.weights.h5"]),
    (CONFIG, b"{", ["config.json must be JSON"]),
    (CONFIG, b"\xff", ["config.json must be UTF-8 text in JSON"]),
    (CONFIG, b"[]", ["config.json must be a JSON object, got list"]),
    (CONFIG, b'{"class_name": "X", "config": {"layers": 3}}', ["got a X"]),
    (CONFIG, connect_otherwise, ["is connected to Encoder-1-FeedForward-Norm"]),
    (SETTINGS, b"[]", ["kbert/bert.json must be a JSON object, got list"]),
    (SETTINGS, b'{"head": "qa", "config": {"vocab_size": 0}}', ["_size must be"]),
    (SETTINGS, OTHER_SIZES, ["got another", "no Encoder-3"]),
    set_of_model("the head that the graph has, pretraining, got 'encoder'", head="encoder"),
    set_of_model("must have 2 labels", labels=["a", "b", "c"]),
    set_of_model("an object with pooling, normalize, max_length", sentence={"pool": 1}),
    set_of_layer("Encoder-2-FeedForward", "hidden_act", "relu"),
    set_of_layer("Encoder-2-FeedForward-Norm", "epsilon", 1e-5),
    set_of_layer("Encoder-2-MultiHeadSelfAttention", "attention_axes", [2]),
    set_of_layer("Encoder-2-FeedForward-Dropout", "rate", 0.5),
    set_of_layer("MLM-Dense", "activation", "relu"),
    set_of_layer("NSP-Dense", "activation", "linear"),
    set_of_layer("Extract", "index", 1),
]


@pytest.mark.parametrize(("member", "change", "parts"), CHANGES)
def test_a_changed_member_is_refused_with_its_name(files, tmp_path, member, change, parts):
    members = read_members(files["kbert" if member == SETTINGS else "keras"])
    content = change(members[member]) if callable(change) else change
    members = {name: one for name, one in members.items() if name != member}
    members |= {} if content is None else {member: content}
    refused(write_members(tmp_path / "changed.keras", members), *parts)


def test_members_cannot_leave_the_vocabulary_folder(files, tmp_path):
    evil = {"../evil.txt": b"!", "kbert/../../evil.txt": b"!", "/tmp/evil.txt": b"!"}
    path = write_members(tmp_path / "evil.keras", read_members(files["kbert"]) | evil)
    with keras_file.open_checkpoint(path) as found:
        names = sorted(file.name for file in found.vocabulary.iterdir())
        assert names == ["tokenizer.json", "tokenizer_config.json", "vocab.txt"]
        assert not (found.vocabulary.parent / "evil.txt").exists()


def test_weights_in_an_external_file_are_refused(files, tmp_path):
    members, weights = read_members(files["keras"]), tmp_path / "weights.h5"
    weights.write_bytes(members[WEIGHTS])
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(24 * 24 * 4))
    with h5py.File(weights, "a") as file:
        del file["layers/dense/vars/0"]
        file["layers/dense/vars"].create_dataset(
            "0", (24, 24), "float32", external=[(str(secret), 0, 24 * 24 * 4)]
        )
    members[WEIGHTS] = weights.read_bytes()
    refused(write_members(tmp_path / "linked.keras", members), "must hold its own numbers")


def test_file_of_another_model_names_that_model(small, tmp_path):
    bert = build_model(small, "encoder")
    ids = [keras.Input((11,), dtype="int32") for _ in range(2)]
    more = keras.layers.Dense(3, name="more")(bert.outputs[1])
    layers = [keras.Input((3,)), keras.layers.Dense(5, name="scores")]
    for model, parts in (
        (keras.Sequential(layers), ["got a Sequential", "scores (Dense)"]),
        (
            keras.Model(ids, bert(ids)[1]),
            ["around one", "model.get_layer('bert_encoder').save(…)"],
        ),
        (keras.Model(bert.inputs, more), ["more (Dense) added"]),
        (kbert.build_hidden_states(bert, layers=[1]), ["got another"]),
    ):
        model.save(tmp_path / "other.keras")
        refused(tmp_path / "other.keras", *parts)


@pytest.mark.full
@pytest.mark.parametrize(
    ("layer", "part"),
    [
        ("NSP-Dense", "dtype policy QuantizedDTypePolicy"),
        ("intermediate", "intermediate/kernel must be in one of float32"),
    ],
)
def test_a_quantized_file_is_refused(small, tmp_path, monkeypatch, layer, part):
    """A file of an older kbert, which saved it."""
    monkeypatch.setattr(encoder, "refuse_quantized", lambda layers: None)
    model = build_model(small, "encoder")
    model.quantize("int8", filters=layer)
    model.save(tmp_path / "int8.keras")
    refused(tmp_path / "int8.keras", part)


@pytest.mark.full
@KEEPS_LAYERS
@pytest.mark.parametrize("mode", ["int8", "int4", "float8", "gptq"])
def test_quantized_model_is_not_saved(small, tmp_path, mode):
    """Keras writes a file that it cannot open again: nothing is written, old files stay."""
    model = build_model(small, "encoder")
    if mode == "gptq":  # Keras changes the layers before it asks for their order
        config = keras.quantizers.GPTQConfig(dataset=["a"], tokenizer=str.split)
        with raises(ValueError, "structure"):
            model.quantize(config=config)
    else:
        model.quantize(mode)
    around = keras.Model(model.inputs, keras.layers.Dense(2)(model.outputs[1]))
    bert = kbert.Bert(small, "encoder", model)
    for name in ("old.keras", "old.h5"):
        (tmp_path / name).write_bytes(b"old")
    for save in (
        lambda: model.save(tmp_path / "old.keras"),
        lambda: model.save(tmp_path / "old.h5"),
        lambda: kbert.save(bert, tmp_path / "old.keras", overwrite=True),
        lambda: kbert.save(bert, tmp_path / "folder"),
        lambda: kbert.save(bert, tmp_path / "new.onnx"),
        lambda: keras.models.clone_model(around),
    ):
        with raises(ValueError, f"({mode})", "quantize="):
            save()
    files = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert files == {"old.keras": b"old", "old.h5": b"old"}


def test_failed_save_keeps_the_old_file(small, tmp_path):
    class Full:
        def save(self, folder, **_):
            raise OSError(errno.ENOSPC, "No space left on device", str(folder))

    path = tmp_path / "bert.keras"
    path.write_bytes(b"old")
    bert = kbert.Bert(small, "encoder", build_model(small, "encoder"), Full())
    with pytest.raises(OSError) as raised:
        keras_file.write(bert, path)
    assert (raised.value.errno, raised.value.filename) == (errno.ENOSPC, str(path))
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [(path.name, b"old")]
    with raises(ValueError, ".keras", "bert.h5"):
        keras_file.write(bert, tmp_path / "bert.h5")
