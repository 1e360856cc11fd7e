"""A SavedModel, an ONNX file and a LiteRT file give the model's numbers at any size.

Each head and each activation is exported in one format in the gate, in the others nightly.
"""

import dataclasses
import functools
import importlib
import importlib.util

import numpy as np
import pytest
from helpers.errors import logged, raises
from helpers.marks import full
from helpers.sizes import SIZES
from numpy.testing import assert_allclose

import kbert
from kbert.checkpoints.sentence_settings import SentenceDense
from kbert.exports import serving
from kbert.io import extras

SHAPES = [(13, 7), (1, 11), (5, 17), (2, 1)]  # batch, length; 17 are all positions
# Each head and each activation once; swish and gelu_pytorch_tanh are others' functions.
CASES = [
    ("pretraining", "gelu", {"blocks": 2}),  # a mask that gets lost shows from the second block on
    ("pretraining", "linear", {"max_predictions": 5}),
    ("encoder", "gelu_new", {}),
    ("classifier", "relu", {}),
    ("tokens", "silu", {}),
    ("qa", "tanh", {}),
]


def cases(*gated: str, first=pytest.mark.full):
    """All cases: the first in the round of the mark, those that are named in the full round."""
    params = []
    for place, (head, act, options) in enumerate(CASES):
        mark = pytest.mark.full if head in gated else pytest.mark.nightly
        marks = mark if place else first
        params.append(pytest.param(head, act, options, id=f"{head}-{act}", marks=marks))
    return pytest.mark.parametrize(("head", "hidden_act", "options"), params)


ON_TORCH = """
import sys
from checkpoints import test_exports as t
from kbert.exports import onnx
onnx.write(t.bert_of(*t.CASES[0][:2], **t.CASES[0][2])[0], {path!r})
try:
    onnx.write(t.bert_of(*t.CASES[1][:2], **t.CASES[1][2])[0], {path!r} + ".gathered")
except ValueError as error:
    print(error)
"""


@pytest.fixture(autouse=True)
def on_tensorflow():
    import keras

    if keras.backend.backend() != "tensorflow":
        pytest.skip("these are TensorFlow's; the others run in processes of their own")


@functools.cache
def bert_of(head="encoder", hidden_act="gelu", *, tokenizer=None, blocks=1, **options):
    """A Bert of fixed length, and a model of any length with the same odd weights."""
    from kbert.graph.spec import GraphSpec
    from kbert.model import builder

    config = kbert.BertConfig(**SIZES | {"hidden_act": hidden_act, "num_hidden_layers": blocks})
    fixed = builder.build(GraphSpec(config, head, num_labels=5, seq_len=11, **options))
    free = builder.build(GraphSpec(config, head, num_labels=5, seq_len=None, **options))
    random = np.random.default_rng(5)
    for one, other in zip(fixed.weights, free.weights, strict=True):
        value = one.path.endswith("gamma") + 0.2 * random.standard_normal(one.shape)
        one.assign(value)
        other.assign(value)
    return kbert.Bert(config, head, fixed, tokenizer), free


def inputs_of(model, batch, length):
    """Ids by input name, int32; every second sequence is padded."""
    random = np.random.default_rng(batch)
    token_ids = random.integers(1, 99, (batch, length))
    token_ids[1::2, length // 2 + 1 :] = 0
    inputs = [token_ids, random.integers(0, 3, token_ids.shape)]
    if len(model.inputs) == 3:
        width = model.inputs[2].shape[1]
        inputs.append(random.integers(0, 2 if width is None else length, (batch, width or length)))
    names = [tensor.name for tensor in model.inputs]
    return {name: ids.astype("int32") for name, ids in zip(names, inputs, strict=True)}


def expected(model, inputs):
    outputs = model(list(inputs.values()), training=False)
    outputs = outputs if isinstance(outputs, list) else [outputs]
    # transformers' and Google's names; keras_bert's are the graph's
    clear = {"Encoder-1-FeedForward-Norm": "sequence_output", "NSP-Dense": "pooled_output"}
    names = [clear.get(name, name) for name in model.output_names]
    return {name: value.numpy() for name, value in zip(names, outputs, strict=True)}


def with_identifiers(inputs):
    return {name.replace("-", "_"): ids for name, ids in inputs.items()}


def written(form, bert, path):
    module = importlib.import_module(f"kbert.exports.{form}")
    module.check(path)
    module.write(bert, path)
    return path


def compare(model, run):
    """One opened file against the model, at every shape; a SavedModel has names and no order."""
    for shape in SHAPES:
        inputs = inputs_of(model, *shape)
        found, wanted = run(inputs), expected(model, inputs)
        assert found.keys() == wanted.keys()
        assert not run.ordered or list(found) == list(wanted)
        for name, value in wanted.items():
            assert np.abs(value).max() > 0.1
            assert_allclose(found[name], value, atol=1e-5, rtol=1e-5)


def saved_model_runner(path):
    import tensorflow as tf

    loaded = tf.saved_model.load(str(path))
    serve = loaded.signatures["serving_default"]

    def run(inputs):
        tensors = {name: tf.constant(ids) for name, ids in with_identifiers(inputs).items()}
        return {name: value.numpy() for name, value in serve(**tensors).items()}

    run.ordered = False
    run.keep = loaded  # TensorFlow forgets the variables of what nobody holds
    return run


def onnx_runner(path):
    onnxruntime = pytest.importorskip(
        "onnxruntime", reason="runs ONNX: pip install -e '.[test-full]'"
    )
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    shapes = {tuple(value.shape[:1]) for value in session.get_inputs() + session.get_outputs()}
    assert shapes == {("batch",)}
    assert {value.type for value in session.get_inputs()} == {"tensor(int32)"}

    def run(inputs):
        return dict(zip(names, session.run(None, inputs), strict=True))

    run.ordered = True
    return run


def litert_interpreter(path):
    if importlib.util.find_spec("ai_edge_litert") is None:
        pytest.skip("ai-edge-litert runs LiteRT: pip install -e '.[test-full]'")
    from ai_edge_litert.interpreter import Interpreter

    return Interpreter(model_path=str(path))


def runner(form, path):
    """A function from inputs to outputs, each by name."""
    if form == "litert":
        signature = litert_interpreter(path).get_signature_runner("serving_default")

        def run(inputs):
            return signature(**with_identifiers(inputs))

        run.ordered = False
        return run
    return {"saved_model": saved_model_runner, "onnx": onnx_runner}[form](path)


def check_export(form, name, folder, capfd, head, hidden_act, options):
    """The file gives the model's numbers; nothing is printed, and nothing else is written."""
    bert, model = bert_of(head, hidden_act, **options)
    capfd.readouterr()
    path = written(form, bert, folder / name)
    assert capfd.readouterr() == ("", "")
    compare(model, runner(form, path))
    assert [file.name for file in folder.iterdir()] == [name]


@pytest.mark.full
@cases("tokens", first=())
def test_a_saved_model_gives_the_models_numbers(tmp_path, capfd, head, hidden_act, options):
    check_export("saved_model", "saved", tmp_path, capfd, head, hidden_act, options)


@cases("pretraining", "encoder")
def test_an_onnx_file_gives_the_models_numbers(tmp_path, capfd, head, hidden_act, options):
    pytest.importorskip("tf2onnx", reason="writes ONNX: pip install -e '.[onnx]'")
    check_export("onnx", "bert.onnx", tmp_path, capfd, head, hidden_act, options)


@cases("classifier", "qa")
def test_a_litert_file_gives_the_models_numbers(tmp_path, capfd, head, hidden_act, options):
    check_export("litert", "bert.tflite", tmp_path, capfd, head, hidden_act, options)
    # no operation that needs TensorFlow
    assert b"Flex" not in (tmp_path / "bert.tflite").read_bytes()


WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{n}" for n in range(94))]
DENSE = SentenceDense(np.random.default_rng(3).normal(0, 0.3, (24, 7)).astype("float32"))
OTHERS = {
    "encoder": {"sequence_output", "pooled_output"},
    "classifier": {"Classifier"},
    "pretraining": {"MLM", "NSP"},
    "qa": {"Span-Start", "Span-End"},
}
VECTORS = [
    (None, "encoder", kbert.SentenceSettings("mean", True)),
    (None, "classifier", kbert.SentenceSettings("pooler", False)),
    (None, "encoder", kbert.SentenceSettings("weightedmean", True, dense=(DENSE,))),
    (None, "pretraining", kbert.SentenceSettings("max", False)),
    (None, "qa", kbert.SentenceSettings(("lasttoken", "cls"), True, dimensions=5)),
    full("saved_model", "classifier", kbert.SentenceSettings("pooler", False)),
    full("onnx", "encoder", kbert.SentenceSettings("weightedmean", True, dense=(DENSE,))),
    full("litert", "qa", kbert.SentenceSettings(("lasttoken", "cls"), True, dimensions=5)),
]


@pytest.mark.full
@pytest.mark.parametrize(("form", "head", "sentence"), VECTORS)
def test_exported_sentence_vectors_equal_embed(tmp_path, form, head, sentence):
    """Without a format: of the model that all formats are made of."""
    if form == "onnx":
        pytest.importorskip("tf2onnx", reason="writes ONNX: pip install onnx tf2onnx")
    tokenizer = kbert.Tokenizer.from_vocab(WORDS, lowercase=True)
    bert = dataclasses.replace(bert_of(head)[0], tokenizer=tokenizer, sentence=sentence)
    texts = ["w3 w70 w9 w1", "w2", "", "w5 w6 w7 w8 w9 w10 w11"]
    wanted = kbert.embed(bert, texts)
    batch = tokenizer.encode_batch(texts)
    inputs = {"Input-Token": batch.token_ids, "Input-Segment": batch.segment_ids}
    if head == "pretraining":
        inputs["Input-Masked"] = np.zeros_like(batch.token_ids)
    if form is None:
        found = expected(serving.serving_model(bert, "a SavedModel"), inputs)
    else:
        found = runner(form, written(form, bert, tmp_path / "bert"))(inputs)
    assert_allclose(found["sentence_embedding"], wanted, atol=1e-5)
    assert set(found) == OTHERS[head] | {"sentence_embedding"}


WITH_PROMPT = kbert.SentenceSettings("mean", False, prompts={"query": "a "}, include_prompt=False)


@pytest.mark.parametrize(
    ("head", "changes", "named"),
    [
        ("encoder", {"sentence_problem": "an LSTM"}, "an LSTM"),
        ("encoder", {"sentence": WITH_PROMPT}, "prompt"),
        ("tokens", {"sentence": kbert.SentenceSettings("pooler", True)}, "pooler"),
    ],
)
def test_export_leaves_out_vectors_that_it_cannot_compute(head, changes, named):
    bert = dataclasses.replace(bert_of(head)[0], **changes)
    with logged("sentence_embedding", named):
        model = serving.serving_model(bert, "a SavedModel")
    assert "sentence_embedding" not in model.output_names


@pytest.mark.full
def test_a_litert_file_is_resized_without_its_signature(tmp_path):
    """By place: its inputs and outputs have the order of the graph."""
    bert, model = bert_of("qa", "gelu")
    interpreter = litert_interpreter(written("litert", bert, tmp_path / "bert.tflite"))

    def run(inputs):
        places = [one["index"] for one in interpreter.get_input_details()]
        places = dict(zip(with_identifiers(inputs), places, strict=True))
        for name, ids in with_identifiers(inputs).items():
            interpreter.resize_tensor_input(places[name], ids.shape)
        interpreter.allocate_tensors()
        for name, ids in with_identifiers(inputs).items():
            interpreter.set_tensor(places[name], ids)
        interpreter.invoke()
        outputs = [one["index"] for one in interpreter.get_output_details()]
        return {
            name: interpreter.get_tensor(output)
            for name, output in zip(model.output_names, outputs, strict=True)
        }

    run.ordered = True
    compare(model, run)


@pytest.mark.full
def test_torch_backend_writes_onnx(tmp_path, run_python):
    for package in ("torch", "onnxscript"):
        pytest.importorskip(package, reason="writes ONNX on torch: pip install -e '.[onnx,torch]'")
    path = str(tmp_path / "bert.onnx")
    done = run_python(ON_TORCH.format(path=path), backend="torch")
    assert "gathered MLM head must be written on the backend tensorflow" in done.stdout
    assert (done.stdout.count("\n"), done.stderr) == (1, "")
    _, model = bert_of(*CASES[0][:2], **CASES[0][2])
    compare(model, onnx_runner(path))


@pytest.mark.parametrize(
    ("form", "what"),
    [("saved_model", "a SavedModel"), ("onnx", "an ONNX file"), ("litert", "a LiteRT file")],
)
def test_export_on_jax_names_the_backend_to_set(tmp_path, monkeypatch, form, what):
    bert, _ = bert_of()
    monkeypatch.setattr("keras.backend.backend", lambda: "jax")
    with raises(ValueError, what, "backend tensorflow", "got jax", "KERAS_BACKEND=tensorflow"):
        written(form, bert, tmp_path / "bert")


@pytest.mark.full
def test_half_precision_is_exported_in_float32(tmp_path, monkeypatch):
    import keras

    policy = keras.config.dtype_policy()
    bert, _ = bert_of(dtype="mixed_bfloat16")
    _, model = bert_of()  # the same weights, computed in float32
    compare(model, saved_model_runner(written("saved_model", bert, tmp_path / "saved")))
    monkeypatch.setattr(keras.layers.Dense, "build", lambda self, input_shape: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        written("saved_model", bert, tmp_path / "failed")
    assert keras.config.dtype_policy() is policy


@pytest.mark.full
@pytest.mark.parametrize("form", ["saved_model", "onnx", "litert"])
def test_exported_model_never_computes_invalid_ids(tmp_path, form):
    if form == "onnx":
        pytest.importorskip("tf2onnx", reason="writes ONNX: pip install -e '.[onnx]'")
    bert, model = bert_of("classifier")
    path = written(form, bert, tmp_path / "bert")
    cases = [("Input-Token", 99, 7), ("Input-Token", -1, 7), ("Input-Segment", 3, 7)]
    for name, number, length in [*cases, ("Input-Segment", -1, 7), ("Input-Token", 1, 18)]:
        inputs = inputs_of(model, 2, length)
        inputs[name][0, 3] = number
        try:
            found = runner(form, path)(inputs)["Classifier"]
        except Exception as error:  # each runtime has its own
            assert not isinstance(error, (AssertionError, KeyError))
        else:
            assert length == 7 and np.isnan(found[0]).all() and np.isfinite(found[1]).all()


@pytest.mark.full
def test_a_saved_model_can_be_trained_where_it_is_loaded(tmp_path):
    import keras
    import tensorflow as tf

    bert, model = bert_of("classifier", "silu")
    path = str(written("saved_model", bert, tmp_path / "saved"))
    loaded = tf.saved_model.load(path)
    inputs = with_identifiers(inputs_of(model, 13, 7))
    layer = keras.layers.TFSMLayer(path, call_endpoint="serve")
    assert len(layer.trainable_weights) == len(model.trainable_weights)
    with tf.GradientTape() as tape:
        outputs = loaded.serve({name: tf.constant(ids) for name, ids in inputs.items()})
        loss = tf.reduce_sum(outputs["Classifier"] ** 2)
    gradients = tape.gradient(loss, loaded.trainable_variables)
    assert len(gradients) == len(model.trainable_weights)
    assert all(gradient is not None for gradient in gradients)


@pytest.mark.full
def test_a_saved_model_brings_its_tokenizer(tmp_path):
    tokenizer = kbert.Tokenizer.from_vocab(WORDS, lowercase=True)
    bert, _ = bert_of(tokenizer=tokenizer)
    path = written("saved_model", bert, tmp_path / "saved")
    again = kbert.Tokenizer.load(path / "tokenizer")
    assert again.encode("w3 w70 x").ids == tokenizer.encode("w3 w70 x").ids
    bert, _ = bert_of()
    assert not (written("saved_model", bert, path) / "tokenizer").exists()  # nothing old stays


def test_saved_model_replaces_nothing_else(tmp_path):
    bert, _ = bert_of()
    (tmp_path / "thesis.txt").write_text("mine")
    for path in (tmp_path, tmp_path / "thesis.txt"):
        with raises(ValueError, path):
            written("saved_model", bert, path)
    (tmp_path / "saved_model.pb").write_bytes(b"old")  # one of both: the thesis would be lost
    with raises(ValueError, "thesis.txt"):
        written("saved_model", bert, tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "mine"


@pytest.mark.full
def test_saved_model_leaves_the_files_of_others_in_its_folders(tmp_path):
    """As TensorFlow Serving's requests to warm up with."""
    bert, _ = bert_of(tokenizer=kbert.Tokenizer.from_vocab(WORDS, lowercase=True))
    path = written("saved_model", bert, tmp_path / "saved")
    files = [entry for entry in path.rglob("*") if entry.is_file()]
    mine = ("assets.extra/warmup", "assets/logo.txt", "variables/notes.txt", "tokenizer/my.md")
    for name in mine:
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_text("mine")
    (path / "variables" / "variables.data-00001-of-00002").write_text("old")
    written("saved_model", bert, path)
    left = {entry for entry in path.rglob("*") if entry.is_file()} - {*files}
    assert left == {path / name for name in mine}
    assert {file.read_text() for file in left} == {"mine"}


@pytest.mark.parametrize("form", ["onnx", "litert"])
def test_a_model_that_is_too_large_for_one_file_is_refused(tmp_path, monkeypatch, form):
    import keras

    bert, _ = bert_of()
    monkeypatch.setattr(keras.Model, "count_params", lambda model: 2**29)  # of 4 bytes
    monkeypatch.setattr(extras, "is_installed", lambda module: True)  # refused before any is used
    with raises(ValueError, "2 GiB", "SavedModel"):
        written(form, bert, tmp_path / "bert")


def test_export_refuses_a_model_not_built_by_kbert(tmp_path):
    import keras

    tokens = keras.Input((None, 3), name="tokens")
    model = keras.Model(tokens, keras.layers.Dense(2)(tokens))
    bert = kbert.Bert(kbert.BertConfig(**SIZES), "encoder", model, None)
    with raises(ValueError, "kbert", "tokens"):
        written("litert", bert, tmp_path / "bert.tflite")
