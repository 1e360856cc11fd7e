"""The ONNX folder has transformers' names and numbers, suits a server, and is quantized to int8."""

import dataclasses
import json

import keras
import numpy as np
import pytest
import tokenizers
from helpers import page_blocks
from helpers.command_line import kbert as run
from helpers.errors import raises
from helpers.marks import nightly
from helpers.sizes import ROOT
from helpers.small_berts import TEXTS, small_bert
from numpy.testing import assert_allclose

import kbert
from kbert.checkpoints.sentence_settings import SentenceSettings
from kbert.exports import quantization

INPUTS = ["input_ids", "attention_mask", "token_type_ids"]


@pytest.fixture(autouse=True)
def packages(request):
    if keras.backend.backend() != "tensorflow":
        pytest.skip("written on TensorFlow here")
    if request.node.get_closest_marker("full"):
        for package in ("tf2onnx", "onnxruntime"):
            pytest.importorskip(package, reason="writes and runs ONNX")


def session(folder):
    import onnxruntime

    path = str(folder / "onnx" / "model.onnx")
    found = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [one.name for one in found.get_inputs()]
    assert names == INPUTS[: len(names)] and len(names) > 1
    assert {one.type for one in found.get_inputs()} == {"tensor(int64)"}
    return found


def run_onnx(folder, inputs) -> dict:
    opened = session(folder)
    names = [one.name for one in opened.get_outputs()]
    given = {one.name: np.asarray(inputs[one.name], "int64") for one in opened.get_inputs()}
    return dict(zip(names, opened.run(None, given), strict=True))


def inputs_of(seed=5):
    """Rows that are padded, one with a [PAD] that is attended to, as only a mask can say."""
    random = np.random.default_rng(seed)
    ids = random.integers(5, 99, (13, 7))
    mask = np.ones_like(ids)
    mask[::2, 4:] = 0
    ids[3, 2] = 0
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": ids % 3}


ROBERTA = {"model_type": "roberta", "type_vocab_size": 1, "pad_token_id": 1}
DISTILBERT = {"model_type": "distilbert", "type_vocab_size": 1}
STATES, LOGITS, SPANS = ["last_hidden_state"], ["logits"], ["start_logits", "end_logits"]
CLASSES = [
    ("BertModel", "encoder", {}, STATES),
    ("BertForQuestionAnswering", "qa", {}, SPANS),
    nightly("BertForMaskedLM", "pretraining", {}, LOGITS),
    ("RobertaForMaskedLM", "pretraining", ROBERTA, LOGITS),
    nightly("RobertaModel", "encoder", ROBERTA, STATES),
    ("DistilBertForSequenceClassification", "classifier", DISTILBERT, LOGITS),
    nightly("DistilBertForQuestionAnswering", "qa", DISTILBERT, SPANS),
]


@pytest.mark.full
@pytest.mark.parametrize(("name", "head", "changes", "outputs"), CLASSES)
def test_the_file_in_a_folder_gives_transformers_numbers(
    small, tmp_path, name, head, changes, outputs
):
    """The folder's own weights in torch, by transformers, under the same mask."""
    transformers = pytest.importorskip("transformers", reason="whose numbers these are")
    torch = pytest.importorskip("torch", reason="which transformers computes with")
    bert = dataclasses.replace(small_bert(small.replace(**changes), head), tokenizer=None)
    kbert.save(bert, tmp_path / "out", format="transformers_onnx", architecture=name)
    inputs = inputs_of()
    found = run_onnx(tmp_path / "out", inputs)
    assert list(found) == outputs
    if changes:
        del inputs["token_type_ids"]
        assert len(session(tmp_path / "out").get_inputs()) == 2
    model = getattr(transformers, name).from_pretrained(tmp_path / "out").eval()
    with torch.no_grad():
        wanted = model(**{key: torch.tensor(array) for key, array in inputs.items()})
    real = inputs["attention_mask"] == 1
    for key, array in found.items():
        where = real if array.shape[:2] == real.shape else slice(None)
        assert_allclose(array[where], wanted[key].numpy()[where], atol=1e-4)
    assert kbert.load(tmp_path / "out").architecture == name


@pytest.mark.full
@pytest.mark.parametrize("quantize", ["int8", nightly("int8_dynamic")])
def test_int8_is_near_and_its_products_are_in_int8(berts, tmp_path, quantize):
    import onnx

    bert = berts["classifier"]
    calibration = TEXTS if quantize == "int8" else None
    options = {"quantize": quantize, "calibration": calibration}
    kbert.save(bert, tmp_path / "out", format="transformers_onnx", **options)
    graph = onnx.load(tmp_path / "out" / "onnx" / "model.onnx").graph
    floats = {one.name for one in graph.initializer if one.data_type == onnx.TensorProto.FLOAT}
    products = [node for node in graph.node if node.op_type in ("MatMul", "Gemm")]
    assert not [node.name for node in products if set(node.input) & floats]
    inputs = inputs_of()
    found = run_onnx(tmp_path / "out", inputs)["logits"]
    plain = kbert.save(bert, tmp_path / "plain", format="transformers_onnx")
    assert plain is None
    wanted = run_onnx(tmp_path / "plain", inputs)["logits"]
    assert 0 < np.abs(found - wanted).max() < 0.25 * np.ptp(wanted)


@pytest.mark.full
def test_what_comes_out_of_an_int8_product_is_float32(berts):
    from kbert.exports import onnx, serving

    bert = berts["encoder"]
    proto = onnx.convert_model(serving.free_model(bert), bert.config.positions)
    graph = quantization.quantize_graph(proto, bert, "int8", TEXTS).graph
    products = {node.output[0] for node in graph.node if node.op_type == "MatMul"}
    rounded = {node.input[0] for node in graph.node if node.op_type == "QuantizeLinear"}
    assert products and rounded and not products & rounded


@pytest.mark.full
@pytest.mark.parametrize(
    ("options", "things"),
    [
        ({"quantize": "int4"}, ("quantize", "int8", "int8_dynamic", "'int4'")),
        ({"quantize": "int8"}, ("calibration", "none")),
        ({"quantize": "int8_dynamic", "calibration": ["a"]}, ("calibration",)),
        ({"quantize": "int8", "calibration": "a text"}, ("calibration",)),
        ({"quantize": "int8", "calibration": []}, ("calibration",)),
    ],
)
def test_what_cannot_be_quantized_is_one_line(berts, tmp_path, options, things):
    with raises(ValueError, *things) as raised:
        quantization.check(berts["encoder"], **{"calibration": None} | options)
    assert "\n" not in str(raised.value)
    with raises(ValueError, "onnx", "transformers_onnx"):
        kbert.save(berts["encoder"], tmp_path / "out", **options)
    assert list(tmp_path.iterdir()) == []


def test_new_weights_leave_no_old_onnx_beside_them(berts, tmp_path):
    kbert.save(berts["encoder"], tmp_path / "out")
    (tmp_path / "out" / "onnx").mkdir()
    (tmp_path / "out" / "onnx" / "model.onnx").write_bytes(b"old")
    with raises(ValueError, "onnx/model.onnx"):
        kbert.save(berts["encoder"], tmp_path / "out", overwrite=True)


@pytest.mark.full
def test_the_command_quantizes(capsys, berts, tmp_path):
    kbert.save(berts["encoder"], tmp_path / "in")
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    words = ["--to", "transformers_onnx", "--quantize", "int8"]
    out = tmp_path / "out"
    done = run(capsys, "convert", tmp_path / "in", out, *words)
    assert done.status == 2 and "give both, or --quantize int8_dynamic" in done.err
    assert not out.exists()
    done = run(
        capsys, "convert", tmp_path / "in", out, *words, "--calibration", tmp_path / "texts.txt"
    )
    assert done.status == 0, done.err
    assert session(out)


@pytest.mark.full
def test_serve_page_prints_what_it_shows(berts, tmp_path):
    for block, printed in page_blocks.run(ROOT / "docs" / "how_to" / "serve.md", tmp_path):
        assert block.shown is None or page_blocks.same(block.shown.text, printed), printed


@pytest.mark.full
@pytest.mark.parametrize("pooling", ["mean", nightly("cls")])
def test_a_server_gives_the_vectors_of_embed(berts, tmp_path, pooling):
    """By the rules of text-embeddings-inference, router/src/lib.rs, as of November 2025."""
    bert = dataclasses.replace(berts["encoder"], sentence=SentenceSettings(pooling, True, 6))
    kbert.save(bert, tmp_path, format="transformers_onnx")
    names = ("config.json", "1_Pooling/config.json", "sentence_bert_config.json")
    config, pool, sentence = (json.loads((tmp_path / name).read_text()) for name in names)
    for name in ("max_position_embeddings", "hidden_size", "num_hidden_layers", "pad_token_id"):
        assert type(config[name]) is int
    modes = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens")
    used = [mode for mode in modes if pool[f"pooling_mode_{mode}"]]
    assert used == [f"{pooling}_token" + "s" * (pooling == "mean")]
    tokenizer = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    tokenizer.enable_truncation(sentence["max_seq_length"])
    tokenizer.enable_padding(pad_id=config["pad_token_id"])
    found = tokenizer.encode_batch(TEXTS)
    parts = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
    inputs = {key: np.array([getattr(one, part) for one in found]) for key, part in parts.items()}
    states, mask = run_onnx(tmp_path, inputs)["last_hidden_state"], inputs["attention_mask"]
    mean = (states * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
    vectors = states[:, 0] if pooling == "cls" else mean
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    assert_allclose(vectors, kbert.embed(bert, TEXTS), atol=1e-5)
