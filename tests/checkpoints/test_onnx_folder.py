"""The ONNX folder has transformers' names, and ONNX Runtime quantizes it to int8."""

import numpy as np
import pytest
from helpers import page_blocks
from helpers.command_line import kbert as run
from helpers.sizes import ROOT
from helpers.small_berts import TEXTS, small_berts
from numpy.testing import assert_allclose

import kbert
from kbert.checkpoints.exports import quantization

INPUTS = ["input_ids", "attention_mask", "token_type_ids"]


@pytest.fixture(autouse=True)
def packages(request):
    if request.node.get_closest_marker("full"):
        for package in ("tf2onnx", "onnxruntime"):
            pytest.importorskip(package, reason="writes and runs ONNX")


@pytest.fixture(scope="module")
def berts(small):
    import keras

    if keras.backend.backend() != "tensorflow":
        pytest.skip("written on TensorFlow here")
    return small_berts(small)


def session(folder):
    import onnxruntime

    path = str(folder / "onnx" / "model.onnx")
    found = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert [one.name for one in found.get_inputs()] == INPUTS
    assert {one.type for one in found.get_inputs()} == {"tensor(int64)"}
    return found


def run_onnx(folder, inputs) -> dict:
    opened = session(folder)
    names = [one.name for one in opened.get_outputs()]
    given = {name: np.asarray(inputs[name], "int64") for name in INPUTS}
    return dict(zip(names, opened.run(None, given), strict=True))


def inputs_of(seed=5):
    """Rows that are padded, one with a [PAD] that is attended to, as only a mask can say."""
    random = np.random.default_rng(seed)
    ids = random.integers(5, 99, (13, 7))
    mask = np.ones_like(ids)
    mask[::2, 4:] = 0
    ids[3, 2] = 0
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": ids % 3}


CLASSES = {
    "encoder": ("BertModel", ["last_hidden_state"]),
    "classifier": ("BertForSequenceClassification", ["logits"]),
    "pretraining": ("BertForMaskedLM", ["logits"]),
    "tokens": ("BertForTokenClassification", ["logits"]),
    "qa": ("BertForQuestionAnswering", ["start_logits", "end_logits"]),
}


@pytest.mark.full
@pytest.mark.parametrize(
    "head", ["encoder", "qa", pytest.param("pretraining", marks=pytest.mark.nightly)]
)
def test_the_file_in_a_folder_gives_transformers_numbers(berts, tmp_path, head):
    """The folder's own weights in torch, by transformers, under the same mask."""
    transformers = pytest.importorskip("transformers", reason="whose numbers these are")
    torch = pytest.importorskip("torch", reason="which transformers computes with")
    name, outputs = CLASSES[head]
    bert = berts[head]
    kbert.save(bert, tmp_path / "out", format="transformers_onnx", architecture=name)
    inputs = inputs_of()
    found = run_onnx(tmp_path / "out", inputs)
    model = getattr(transformers, name).from_pretrained(tmp_path / "out").eval()
    with torch.no_grad():
        wanted = model(**{key: torch.tensor(array) for key, array in inputs.items()})
    assert list(found) == outputs
    real = inputs["attention_mask"] == 1
    for key, array in found.items():
        expected = wanted[key].numpy()
        array, expected = array[real], expected[real]
        assert_allclose(array, expected, atol=1e-4)


@pytest.mark.full
@pytest.mark.parametrize(
    "quantize", ["int8", pytest.param("int8_dynamic", marks=pytest.mark.nightly)]
)
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


def feed_of(ids, segment_ids):
    return {"Input-Token": ids, "Input-Segment": segment_ids}


@pytest.mark.full
def test_what_comes_out_of_an_int8_product_is_float32(berts):
    from kbert.checkpoints.exports import onnx, serving

    bert = berts["encoder"]
    proto = onnx.convert_model(serving.free_model(bert), bert.config.positions)
    graph = quantization.quantize_graph(proto, bert, "int8", TEXTS, feed_of).graph
    products = {node.output[0] for node in graph.node if node.op_type == "MatMul"}
    rounded = {node.input[0] for node in graph.node if node.op_type == "QuantizeLinear"}
    assert products and rounded and not products & rounded


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"quantize": "int4"}, "quantize must be one of int8, int8_dynamic, got 'int4'"),
        ({"quantize": "int8"}, "needs calibration, a list of texts, got none"),
        ({"quantize": "int8_dynamic", "calibration": ["a"]}, "needs calibration"),
        ({"quantize": "int8", "calibration": "a text"}, "must be a list of texts"),
        ({"quantize": "int8", "calibration": []}, "must be a list of texts"),
    ],
)
def test_what_cannot_be_quantized_is_one_line(berts, tmp_path, options, said):
    with pytest.raises(ValueError, match=said) as raised:
        quantization.check(berts["encoder"], **{"calibration": None} | options)
    assert "\n" not in str(raised.value)
    with pytest.raises(ValueError, match="an option of the format onnx or transformers_onnx, got"):
        kbert.save(berts["encoder"], tmp_path / "out", **options)
    assert list(tmp_path.iterdir()) == []


def test_new_weights_leave_no_old_onnx_beside_them(berts, tmp_path):
    kbert.save(berts["encoder"], tmp_path / "out")
    (tmp_path / "out" / "onnx").mkdir()
    (tmp_path / "out" / "onnx" / "model.onnx").write_bytes(b"old")
    with pytest.raises(ValueError, match=r"got onnx/model\.onnx: choose another folder"):
        kbert.save(berts["encoder"], tmp_path / "out")


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
