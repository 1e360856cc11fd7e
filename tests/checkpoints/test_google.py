"""Google's release opens, whatever a training run left in it, and is saved bit for bit."""

import json
import re
import shutil
import zipfile

import numpy as np
import pytest
from helpers.damaged_checkpoints import load_error
from helpers.errors import collected_logs, logged, raises
from helpers.google_release import (
    CLASSIFIER,
    MLM,
    NSP,
    SPECIAL,
    SQUAD,
    random_arrays,
    released,
    with_training,
    write_checkpoint,
    write_release,
)
from helpers.marks import full
from helpers.sizes import SIZES
from numpy.testing import assert_allclose, assert_array_equal

import kbert
from kbert.checkpoints import formats

tf = pytest.importorskip("tensorflow", reason="only TensorFlow reads Google's checkpoints")


def read_all(folder):
    reader = tf.train.load_checkpoint(str(folder / "bert_model.ckpt"))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


@pytest.fixture(scope="module")
def arrays():
    """The weights of a small model with both pretraining heads."""
    return random_arrays(released(SIZES, MLM, NSP))


@pytest.fixture(scope="module")
def release(arrays, tmp_path_factory):
    """A release with Adam's and LAMB's slots in it, and 99 tokens that do not say their casing."""
    folder = tmp_path_factory.mktemp("google") / "uncased_L-3_H-24_A-4"
    vocabulary = SPECIAL + [f"t{place}" for place in range(94)]
    slots = {f"bert/pooler/dense/bias/lamb_{slot}": np.float32([1]) for slot in "mv"}
    return write_release(folder, with_training(arrays) | slots, vocabulary)


def test_base_has_the_206_released_names():
    base = SIZES | {"num_hidden_layers": 12}
    assert len(released(base, MLM, NSP)) == 206


def test_round_trip_is_bit_equal_under_the_released_names(release, arrays, tmp_path):
    bert = kbert.load(release)
    assert (bert.head, bert.report.initialized, bert.report.ignored) == ("pretraining", (), ())
    assert bert.config == kbert.BertConfig(**SIZES)
    kbert.save(bert, tmp_path / "out", format="google")
    written = read_all(tmp_path / "out")
    assert set(written) == set(arrays)
    for name, array in arrays.items():
        assert_array_equal(written[name], array, strict=True)
    again = kbert.load(tmp_path / "out")
    assert (again.config, again.tokenizer.lowercase) == (bert.config, True)
    assert again.tokenizer.tokens == bert.tokenizer.tokens
    config = json.loads((tmp_path / "out" / "bert_config.json").read_text())
    assert {"model_type", "architectures", "layer_norm_eps"} & set(config) == set()


def test_google_to_transformers_is_transformers_conversion(release, arrays, tmp_path):
    """Renamed and transposed as transformers' load_tf_weights_in_bert did."""
    from safetensors.numpy import load_file

    kbert.save(kbert.load(release), tmp_path)
    saved = load_file(tmp_path / "model.safetensors")
    assert len(saved) == len(arrays)
    for name, array in arrays.items():
        array = array.T if name.endswith("kernel") else array
        name = re.sub(r"layer_(\d+)", r"layer.\1", name.replace("/", "."))
        name = re.sub(r"_embeddings$", "_embeddings.weight", name)
        name = re.sub(r"(kernel|gamma|output_weights)$", "weight", name)
        name = re.sub(r"(beta|output_bias)$", "bias", name)
        assert_array_equal(saved[name], array, strict=True)


def test_optimizer_slots_are_left_out_and_named(release):
    with formats.open_checkpoint(release) as checkpoint:
        assert {"global_step", "beta1_power", "output_bias"} & set(checkpoint.tensors) == set()
        assert len(checkpoint.left_out) == 2 * len(checkpoint.tensors) + 7
        for slot in ("Adam_1", "lamb_m", "lamb_v"):
            assert f"bert/pooler/dense/bias/{slot}" in checkpoint.left_out
        tensor = checkpoint.tensors["cls/seq_relationship/output_weights"]
        assert (tensor.shape, tensor.dtype) == ((2, 24), "float32")


@pytest.mark.full
@pytest.mark.parametrize(
    ("parts", "head", "lacks"),
    [
        full((), "encoder", ()),
        ((CLASSIFIER,), "classifier", ()),
        full((SQUAD,), "qa", ()),
        ((MLM,), "pretraining", ("NSP",)),
        full((NSP,), "pretraining", ("MLM-Sim", "MLM-Dense", "MLM-Norm")),
    ],
)
def test_the_head_is_read_from_the_names(tmp_path, parts, head, lacks):
    arrays = random_arrays(released(SIZES, *parts))
    with collected_logs() as messages:
        bert = kbert.load(write_release(tmp_path / "in", arrays))
    assert (bert.head, bert.report.initialized_layers, bert.tokenizer) == (head, lacks, None)
    text = " ".join(messages)
    assert bool(lacks) == bool(text)
    assert all(name in text for name in bert.report.initialized)
    kbert.save(bert, tmp_path / "out", format="google")
    written = read_all(tmp_path / "out")
    kept = [name for name in arrays if head != "qa" or not name.startswith("bert/pooler")]
    assert bool(lacks) == (len(written) > len(kept))
    for name in kept:
        assert_array_equal(written[name], arrays[name], strict=True)
    if head == "classifier":
        assert bert.model.outputs[0].shape[-1] == 5


@pytest.mark.full
def test_checkpoint_file_names_the_checkpoint_to_read(arrays, tmp_path):
    folder = tmp_path / "run"
    other = {name: array + 1 for name, array in arrays.items()}
    write_release(folder, other, name="model.ckpt-1000")
    write_checkpoint(folder / "model.ckpt-1234", arrays)
    bias = arrays["bert/pooler/dense/bias"]

    def pooler_of(path):
        return kbert.load(path, tokenizer=False).model.get_layer("NSP-Dense").get_weights()[1]

    assert_array_equal(pooler_of(folder), bias)  # the Saver's own file `checkpoint` says so
    says = 'model_checkpoint_path: "/another/machine/model.ckpt-1000"\n'
    (folder / "checkpoint").write_text(says + 'all_model_checkpoint_paths: "model.ckpt-1234"\n')
    assert_array_equal(pooler_of(folder), bias + 1)
    (folder / "checkpoint").unlink()
    with raises(ValueError, "model.ckpt-1000", "model.ckpt-1234"):
        kbert.load(folder)
    assert_array_equal(pooler_of(folder / "model.ckpt-1234.index"), bias)
    write_checkpoint(folder / "bert_model.ckpt", {k: v + 2 for k, v in arrays.items()})
    assert_array_equal(pooler_of(folder), bias + 2)
    (folder / "checkpoint").write_text(says)  # a release, and a run that went on in its folder
    with raises(ValueError, "names model.ckpt-1000"):
        kbert.load(folder)
    index = folder / "bert_model.ckpt.index"
    assert_array_equal(pooler_of(index), bias + 2)
    report = kbert.inspect(index)
    assert set(report.other_files) == {"model.ckpt-1000.*", "model.ckpt-1234.*"}
    assert report.files == ("bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001")


OPTIMIZERS = {
    "RMSProp": {"momentum": 0.9, "centered": True},
    "Ftrl": {},
    "Adadelta": {},
    "Adagrad": {},
    "Momentum": {"momentum": 0.9},
    "Adam": {},
}


@pytest.mark.full
@pytest.mark.parametrize("name", ["RMSProp", *(full(n) for n in OPTIMIZERS if n != "RMSProp")])
def test_slots_of_tensorflows_optimizers_are_left_out(arrays, tmp_path, name):
    """The checkpoint that tf.train.Saver writes of every variable while the optimizer trains."""
    folder = write_release(tmp_path / "run", arrays)
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        variables = [
            v1.get_variable(key, initializer=tf.constant(array), use_resource=False)
            for key, array in arrays.items()
        ]
        loss = sum(tf.reduce_sum(variable) for variable in variables)
        optimizer = getattr(v1.train, f"{name}Optimizer")(0.1, **OPTIMIZERS[name])
        optimizer.minimize(loss, global_step=v1.train.create_global_step())
        session.run(v1.global_variables_initializer())
        v1.train.Saver().save(session, str(folder / "bert_model.ckpt"))
        slots = len(v1.global_variables()) - len(arrays)
    report = kbert.inspect(folder)
    assert report.problems == () and len(report.left_out) == slots > len(arrays)
    assert kbert.load(folder).report.initialized == ()


@pytest.mark.full
@pytest.mark.parametrize(
    "slots",
    [
        full(["/lamb_m", "/lamb_v"]),  # of NVIDIA's BERT
        full(["/LAMB", "/LAMB_1"]),  # of TensorFlow Addons
        full(["/Adafactor", "/Adafactor_1"]),  # of Tensor2Tensor
        ["_slot_vr", "_slot_vc", "_slot_m"],  # of Mesh TensorFlow
    ],
)
def test_slots_of_other_optimizers_are_left_out(arrays, tmp_path, slots):
    extra = {f"{key}{slot}": array for key, array in arrays.items() for slot in slots}
    folder = write_release(tmp_path / "run", arrays | extra)
    assert kbert.inspect(folder).problems == ()
    odd = write_release(tmp_path / "odd", arrays | {"bert/odd/LAMB": np.float32([1])})
    assert "bert/odd/LAMB" in load_error(odd, "unexpected")


def zipped(path, release, inside, junk=True):
    with zipfile.ZipFile(path, "w") as archive:
        for file in release.iterdir():
            archive.write(file, f"{inside}{file.name}")
        if junk:
            archive.writestr(f"__MACOSX/{inside}._vocab.txt", b"\0")
    return path


@pytest.mark.parametrize("inside", ["", "uncased_L-3_H-24_A-4/"])
def test_a_zip_opens_as_released(release, arrays, tmp_path, inside):
    """Base's has a folder inside, the miniatures' have none: the archive's name says the casing."""
    path = zipped(tmp_path / "uncased_L-3_H-24_A-4.zip", release, inside)
    bert = kbert.load(path)
    assert bert.tokenizer.lowercase
    assert_array_equal(bert.model.get_layer("NSP").get_weights()[1], arrays[f"{NSP.split()[2]}"])


@pytest.mark.parametrize(
    "name", ["../out.txt", "/out.txt", "a/../../out.txt", "C:\\out.txt", "link"]
)
def test_a_zips_members_cannot_leave_their_folder(release, tmp_path, name):
    path = zipped(tmp_path / "evil.zip", release, "", junk=False)
    member = zipfile.ZipInfo(name)
    member.external_attr = 0o120777 << 16 if name == "link" else 0
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(member, "/etc/passwd")
    load_error(path, path.name)


WORDS = [f"{a}{b}{c}" for a in "abcdefghij" for b in "klmnopqrst" for c in "uvwxyzaeio"]


@pytest.mark.parametrize(
    ("name", "words", "lowercase"),
    [
        ("uncased_L-12_H-768_A-12", ["Paris"], True),
        ("wwm_uncased_L-24_H-1024_A-16", [], True),
        ("cased_L-12_H-768_A-12", [], False),
        ("multi_cased_L-12_H-768_A-12", WORDS, False),
        ("multilingual_L-12_H-768_A-12", [], True),  # tokenization.py's list
        ("chinese_L-12_H-768_A-12", [], True),
        ("mine", [*WORDS, "Paris"], False),
        ("mine", ["##É"], False),
        ("mine", [*WORDS, "[unused1]"], True),
        ("mine", ["法", "国", "1", "paris"], None),
    ],
)
def test_casing_is_read_from_the_name_then_from_the_vocabulary(
    release, tmp_path, name, words, lowercase
):
    folder = tmp_path / name
    shutil.copytree(release, folder)
    (folder / "vocab.txt").write_text("\n".join(SPECIAL + words), encoding="utf-8")
    with formats.open_checkpoint(folder) as checkpoint:
        assert checkpoint.rules["lowercase"] is lowercase
        assert checkpoint.vocabulary == folder


def test_casing_of_a_tokenizer_config_goes_first(release, tmp_path):
    shutil.copytree(release, tmp_path / "uncased")
    (tmp_path / "uncased" / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert kbert.load(tmp_path / "uncased").tokenizer.lowercase is False


DATA, INDEX = "bert_model.ckpt.data-00000-of-00001", "bert_model.ckpt.index"


@pytest.mark.parametrize(
    ("name", "change", "named"),
    [
        (DATA, lambda old: old[: len(old) // 2], "TensorFlow checkpoint"),
        (DATA, lambda old: b"", "TensorFlow checkpoint"),
        (DATA, lambda old: bytes(len(old)), "bert_model.ckpt"),
        (DATA, None, DATA),
        (INDEX, lambda old: old[: len(old) // 2], "TensorFlow checkpoint"),
        (INDEX, lambda old: b"", "TensorFlow checkpoint"),
        (INDEX, None, INDEX),
        ("bert_config.json", None, "bert_config.json"),
        ("bert_config.json", lambda old: b"{", "JSON"),
    ],
)
def test_a_damaged_release_is_one_line(release, tmp_path, name, change, named):
    folder = tmp_path / "uncased"
    shutil.copytree(release, folder)
    old = (folder / name).read_bytes()
    (folder / name).unlink()
    if change:
        (folder / name).write_bytes(change(old))
    assert "uncased" in load_error(folder, named)


def test_another_models_checkpoint_is_named(tmp_path):
    folder = write_release(tmp_path / "in", {"electra/embeddings/word_embeddings": np.eye(3)})
    load_error(folder, "electra/embeddings/word_embeddings")
    tf.train.Checkpoint(x=tf.Variable(1.0)).write(str(folder / "bert_model.ckpt"))
    load_error(folder, "object-based")


@pytest.mark.full
def test_google_format_refuses_or_warns_of_losses(small, tmp_path):
    tokens = kbert.Bert(small, "tokens", kbert.build_token_classifier(small))
    with raises(ValueError, "head tokens", "TokenClassifier/kernel"):
        kbert.save(tokens, tmp_path / "tokens", format="google")
    config = small.replace(hidden_act="gelu_new", layer_norm_eps=1e-5)
    bert = kbert.Bert(config, "classifier", kbert.build_classifier(config), labels=("a", "b"))
    with raises(ValueError, ".zip"):
        kbert.save(bert, tmp_path / "bert.zip", format="google")
    assert list(tmp_path.iterdir()) == []
    with (
        logged("format google", "labels", "a, b"),
        logged("hidden_act='gelu_new'", "layer_norm_eps=1e-05"),
    ):
        kbert.save(bert, tmp_path / "out", format="google")
    assert kbert.load(tmp_path / "out").config == config


ON_TORCH = """
import sys, numpy as np, kbert
sys.modules["tensorflow"] = None  # as where it is not installed
try:
    kbert.load({source!r})
except ImportError as error:
    print(error)
del sys.modules["tensorflow"]
bert = kbert.load({source!r})
print(type(bert.model.weights[0].value).__module__.split(".")[0])
np.savez({out!r}, **kbert.predict(bert.model, [[2, 7, 9, 3]]))
"""


@pytest.mark.full
def test_torch_backend_reads_google_by_tensorflow(release, run_python, tmp_path):
    pytest.importorskip("torch")
    out = tmp_path / "out.npz"
    done = run_python(ON_TORCH.format(source=str(release), out=str(out)), backend="torch")
    error, module = done.stdout.splitlines()
    assert str(release) in error and 'pip install ".[tensorflow]"' in error
    assert module == "torch"
    expected = kbert.predict(kbert.load(release).model, [[2, 7, 9, 3]])
    for name, value in np.load(out).items():
        assert_allclose(value, expected[name], atol=1e-5, rtol=1e-5)
