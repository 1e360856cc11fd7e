"""The page's own forward pass, in V8 without a browser: tensors and outputs are kbert's."""

import base64
import json

import numpy as np
import pytest
from helpers.errors import check_named, raises

import kbert

pytest.importorskip("py_mini_racer", reason="pip install -e '.[test]': an engine of JavaScript")
from helpers.live_pages import Page, write_live_checkpoint
from py_mini_racer import JSEvalException

from kbert.show.explorer import writing
from kbert.show.explorer.live.packing import pack_weights
from kbert.show.explorer.live.tracing import Tracer
from kbert.show.explorer.weights import open_model

TEXT = "The cat [MASK] on the mats, xyz."
NO_WEBASSEMBLY = "var WebAssembly = undefined;"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return write_live_checkpoint(tmp_path_factory.mktemp("live") / "model")


@pytest.fixture(scope="module")
def html(checkpoint):
    return kbert.explore(checkpoint, weights="float32").html


@pytest.fixture(scope="module")
def page(html):
    return Page(html)


def softmax(logits):
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


@pytest.mark.full
def test_every_step_follows_from_the_step_before_it(page, checkpoint):
    """The paper's formulas, on the page's tensors and the checkpoint's file."""
    from safetensors.numpy import load_file

    weights = load_file(checkpoint / "model.safetensors")
    trace = page.run(TEXT, "A dog walking")
    ids = [token["id"] for token in trace["tokens"]]
    embedded = page.tensor("Embedding-Token")
    np.testing.assert_array_equal(embedded, weights["embeddings.word_embeddings.weight"][ids])
    total = embedded + page.tensor("Embedding-Segment") + page.tensor("Embedding-Position/position")
    np.testing.assert_allclose(page.tensor("Embedding-Position"), total, atol=1e-6)
    before = page.tensor("Encoder-1-FeedForward-Norm")
    attention, layer = "Encoder-2-MultiHeadSelfAttention", "encoder.layer.1"
    projected = {}
    for part in ("query", "key", "value"):
        kernel = weights[f"{layer}.attention.self.{part}.weight"]
        projected[part] = before @ kernel.T + weights[f"{layer}.attention.self.{part}.bias"]
        projected[part] = projected[part].reshape(len(ids), 2, 12)
        np.testing.assert_allclose(page.tensor(f"{attention}/{part}"), projected[part], atol=1e-5)
    scores = np.einsum("iad,jad->aij", projected["query"], projected["key"]) / np.sqrt(12)
    np.testing.assert_allclose(page.tensor(f"{attention}/scores"), scores, atol=1e-5)
    np.testing.assert_allclose(page.tensor(f"{attention}/probs"), softmax(scores), atol=1e-5)
    context = np.einsum("aij,jad->iad", softmax(scores), projected["value"])
    np.testing.assert_allclose(page.tensor(f"{attention}/context"), context, atol=1e-5)
    kernel = weights[f"{layer}.attention.output.dense.weight"]
    mixed = context.reshape(len(ids), 24) @ kernel.T
    mixed += weights[f"{layer}.attention.output.dense.bias"]
    np.testing.assert_allclose(page.tensor(attention), mixed, atol=1e-5)
    np.testing.assert_allclose(page.tensor(f"{attention}-Add"), mixed + before, atol=1e-5)


@pytest.mark.parametrize(
    "before",
    [
        pytest.param("", id="webassembly"),
        pytest.param(NO_WEBASSEMBLY, id="plain", marks=pytest.mark.full),
    ],
)
def test_hidden_states_are_those_of_the_model(html, checkpoint, before):
    page = Page(html, before)
    bert = kbert.load(checkpoint)
    encoding = bert.tokenizer.encode(TEXT, "A dog walking")
    trace = page.run(TEXT, "A dog walking")
    assert [token["id"] for token in trace["tokens"]] == encoding.ids
    assert [(token["start"], token["end"]) for token in trace["tokens"]] == encoding.offsets
    model = kbert.build_hidden_states(bert.model)
    ids = [np.array([numbers], "int32") for numbers in (encoding.ids, encoding.segment_ids)]
    for block, state in enumerate(model.predict(ids, verbose=0)):
        name = f"Encoder-{block}-FeedForward-Norm" if block else "Embedding-Norm"
        np.testing.assert_allclose(page.tensor(name), state[0], atol=1e-5)
    filled = kbert.fill_mask(bert, TEXT, top_k=10)
    (mask,) = page.run(TEXT)["outputs"]["mlm"]
    assert len(mask["blocks"]) == 3 and mask["candidates"] == mask["blocks"][-1]
    assert_same_candidates(mask["candidates"], filled)


def assert_same_candidates(candidates, filled):
    (found,) = [one for one in filled] if len(filled) == 1 else [filled]
    assert [one["token"] for one in candidates] == [one.token for one in found]
    np.testing.assert_allclose(
        [one["prob"] for one in candidates], [one.probability for one in found], rtol=1e-4
    )


def test_switches_change_what_they_name(page):
    attention = "Encoder-2-MultiHeadSelfAttention"
    page.run(TEXT)
    plain, value = page.tensor(f"{attention}/context"), page.tensor("Embedding-Position")
    page.run(TEXT, off={"heads": [[2, 1]], "attention": [3], "positions": True})
    assert not page.tensor("Embedding-Position/position").any()
    assert not np.allclose(page.tensor("Embedding-Position"), value)
    context = page.tensor(f"{attention}/context")
    assert not context[:, 0].any() and context[:, 1].any() and plain[:, 0].any()
    assert not page.tensor("Encoder-3-MultiHeadSelfAttention").any()
    page.run(TEXT, off={"residuals": [f"{attention}-Add"]})
    np.testing.assert_array_equal(page.tensor(f"{attention}-Add"), page.tensor(attention))
    page.run(TEXT, temperature=2)
    expected = softmax(page.tensor(f"{attention}/scores") / 2)
    np.testing.assert_allclose(page.tensor(f"{attention}/probs"), expected, atol=1e-5)


def test_long_texts_are_cut_as_the_tokenizer_cuts_them(page, checkpoint):
    tokenizer = kbert.Tokenizer.load(checkpoint)
    long, short = "the cat sat " * 30, "a dog"
    for texts in ((long, None), (short, long), (long, short), (long, long)):
        trace = page.run(*texts)
        assert trace["truncated"]
        ids = [token["id"] for token in trace["tokens"]]
        assert ids == tokenizer.encode(*texts, max_length=40).ids
    assert not page.run(short)["truncated"]


@pytest.mark.full
@pytest.mark.parametrize(("precision", "bytes_per_weight"), [("float16", 2.6), ("int8", 2.0)])
def test_packed_weights_are_near_the_checkpoints(checkpoint, page, precision, bytes_per_weight):
    packed = Page(kbert.explore(checkpoint, weights=precision).html)
    assert packed.live["precision"] == precision
    assert packed.byte_count < page.byte_count / 4 * bytes_per_weight
    for one in (page, packed):
        one.run(TEXT)
    name = "Encoder-3-FeedForward-Norm"
    difference = np.abs(packed.tensor(name) - page.tensor(name)).max()
    assert (
        0 < difference < {"float16": 1e-3, "int8": 0.2}[precision] * np.abs(page.tensor(name)).max()
    )


def test_int8_numbers_are_within_half_a_step_of_their_group():
    array = np.random.default_rng(3).normal(0, [[1e-3], [1.0], [30.0]], (3, 70)).astype("float32")
    packed = pack_weights([("table", array)], "int8")
    scales = np.frombuffer(packed.data[:20], "<f2")[:9].reshape(3, 3).astype("float32")
    numbers = np.frombuffer(packed.data[20:], "i1")[:210].reshape(3, 70)
    steps = np.repeat(scales, 32, axis=1)[:, :70]
    assert (np.abs(numbers * steps - array) <= steps * 0.57).all()
    assert np.abs(numbers).max() == 127


def test_the_assembled_module_is_its_source():
    wasmtime = pytest.importorskip("wasmtime", reason="pip install -e '.[test-full]'")
    source = writing.FOLDER / "live" / "products.wat"
    code = bytes(wasmtime.wat2wasm(source.read_text(encoding="utf-8")))
    assert code == (writing.FOLDER / "live" / "products.wasm").read_bytes()


def change_settings(folder, **values):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def run_both(folder, *texts, **request) -> tuple[Page, dict, dict]:
    """The page, what it computes, and what kbert computes: tokens and outputs."""
    page = Page(kbert.explore(folder, weights="float32").html)
    trace = Tracer(open_model(folder)).trace(
        dict(zip(("text", "pair"), texts, strict=False)) | request
    )
    found = page.run(*texts, **request)
    assert [token["id"] for token in found["tokens"]] == [token["id"] for token in trace.tokens]
    return page, found["outputs"], trace.outputs


@pytest.mark.full
@pytest.mark.parametrize(
    ("head", "problem"),
    [
        ("classifier", None),
        ("classifier", "multi_label_classification"),
        ("classifier", "regression"),
        ("tokens", None),
    ],
)
def test_labels_stand_in_kberts_order(head, problem, tmp_path):
    folder = write_live_checkpoint(tmp_path / "model", head)
    change_settings(folder, problem_type=problem, id2label={n: f"l{n}" for n in range(2)})
    _, found, expected = run_both(folder, "a dog 東 \U0001f600 sat")
    name = "tags" if head == "tokens" else "classes"
    both = [one[name] if head == "tokens" else [one[name]] for one in (found, expected)]
    for page, kberts in zip(*both, strict=True):
        assert [one["label"] for one in page] == [one["label"] for one in kberts]
        np.testing.assert_allclose(
            [one["prob"] for one in page], [one["prob"] for one in kberts], atol=1e-5
        )


@pytest.mark.full
def test_an_answer_is_of_the_second_text_alone(tmp_path):
    folder = write_live_checkpoint(tmp_path / "model", "qa")
    for texts in (("the dog", "it was \U0001f600 tired [MASK] mat"), ("a", "dog")):
        _, found, expected = run_both(folder, *texts)
        answer, wanted = found["answer"], expected["answer"]
        assert [answer[key] for key in ("text", "start", "end")] == [
            wanted[key] for key in ("text", "start", "end")
        ]
        assert answer["prob"] == pytest.approx(wanted["prob"], abs=1e-5)
    page, found, expected = run_both(folder, "the dog")
    assert "answer" not in found and "answer" not in expected
    assert page.tensor("Span").shape == (4, 2)


def test_a_multiple_choice_has_a_logit_and_no_label(tmp_path):
    page, found, expected = run_both(write_live_checkpoint(tmp_path / "model", "choice"), "a dog")
    assert found == expected == {} and page.tensor("Classifier").shape == (1,)


def test_candidates_are_tokens_of_the_vocabulary(tmp_path):
    folder = write_live_checkpoint(tmp_path / "model", vocab_size=200)
    _, found, expected = run_both(folder, "the [MASK]", None, positions=[1])
    for page, kberts in zip(found["mlm"], expected["mlm"], strict=True):
        tokens = [[one["token"] for one in row["candidates"]] for row in (page, kberts)]
        assert page["position"] == kberts["position"] and tokens[0] == tokens[1]


@pytest.mark.full
@pytest.mark.parametrize(
    ("sizes", "texts", "word"),
    [
        ({"type_vocab_size": 1}, ("a", "dog"), ("type_vocab_size",)),
        ({"vocab_size": 20}, ("a dog z",), ("vocab_size",)),
        ({"max_position_embeddings": 2}, ("a", "dog"), ("3",)),
        ({}, ("a [PAD] dog",), ("PAD",)),
    ],
)
def test_what_kbert_refuses_the_page_refuses(sizes, texts, word, tmp_path):
    folder = write_live_checkpoint(tmp_path / "model", **sizes)
    page = Page(kbert.explore(folder, weights="float32").html)
    request = dict(zip(("text", "pair"), texts, strict=False))
    with pytest.raises(ValueError):
        Tracer(open_model(folder)).trace(request)
    with raises(JSEvalException, *word):
        page.run(*texts)
    assert page.run("a")["tokens"][0]["text"] == "[CLS]"


@pytest.mark.full
@pytest.mark.parametrize("precision", ["int8", "float16", "float32"])
def test_weights_that_are_not_finite_are_refused_by_name(precision, tmp_path, messages):
    from safetensors.numpy import load_file, save_file

    folder = write_live_checkpoint(tmp_path / "model")
    path = folder / "model.safetensors"
    weights = load_file(path)
    name = next(name for name in weights if name.endswith("layer.1.intermediate.dense.weight"))
    weights[name][3, 5] = np.nan
    save_file(weights, path)
    with raises(ValueError, "Encoder-2-FeedForward/intermediate"):
        kbert.explore(folder, weights=precision)
    assert 'id="weights"' not in kbert.explore(folder, tmp_path / "page.html").html
    assert "--serve" not in "".join(messages)  # it would refuse them too
    weights[name][3, 5] = 1e6
    save_file(weights, path)
    if precision == "float16":
        with raises(ValueError, "float32"):
            kbert.explore(folder, weights=precision)


def test_long_sums_are_added_in_parts(tmp_path):
    """One chain of 4,096 sums in float32 is off by 1.7e-6 here, parts of 64 by 3e-7."""
    page = Page(kbert.explore(write_live_checkpoint(tmp_path / "m"), weights="float32").html)
    random = np.random.default_rng(3)
    x = random.uniform(0, 1, (5, 4096)).astype("float32")
    kernel = random.uniform(0, 1, (9, 4096)).astype("float32")
    page.context.eval(
        f"const x = Float32Array.from({x.ravel().tolist()});"
        f"const kernel = Float32Array.from({kernel.ravel().tolist()});"
    )
    found = page.context.eval("JSON.stringify([...multiply(x, 5, kernel, 9, 4096)])")
    exact = x.astype("float64") @ kernel.T.astype("float64")
    np.testing.assert_allclose(np.reshape(json.loads(found), (5, 9)), exact, rtol=7e-7)


@pytest.mark.full
def test_a_very_long_text_is_cut(page):
    for text in ("the cat " * 70_000, "x" * 150_000):
        trace = page.run(text)
        assert trace["tokens"][1]["end"] > 0 and len(trace["tokens"]) <= 40


@pytest.mark.full
@pytest.mark.parametrize("head", ["classifier", "tokens", "qa", "encoder"])
def test_heads_are_those_of_the_model(head, tmp_path):
    folder = write_live_checkpoint(tmp_path / "model", head)
    page = Page(kbert.explore(folder, weights="float32").html)
    bert = kbert.load(folder)
    text = "the cat sat on the mat."
    encoding = bert.tokenizer.encode(text)
    ids = [np.array([numbers], "int32") for numbers in (encoding.ids, encoding.segment_ids)]
    found = bert.model.predict(ids, verbose=0)
    outputs = page.run(text)["outputs"]
    if head == "classifier":
        probs = [one["prob"] for one in outputs["classes"]]
        np.testing.assert_allclose(probs, sorted(softmax(found[0]), reverse=True), atol=1e-5)
    elif head == "tokens":
        probs = [[one["prob"] for one in token] for token in outputs["tags"]]
        expected = np.sort(softmax(found[0]))[:, ::-1]
        np.testing.assert_allclose(probs, expected, atol=1e-5)
    elif head == "qa":
        for name, logits in zip(("Span-Start", "Span-End"), found, strict=True):
            np.testing.assert_allclose(page.tensor(name), logits[0], atol=1e-5)
    else:
        vector = kbert.embed(bert, text, pooling="mean", normalize=True, progress=False)
        np.testing.assert_allclose(outputs["vector"], vector, atol=1e-5)


@pytest.mark.full
def test_weights_beside_a_page_are_written_with_it(checkpoint, tmp_path):
    output = tmp_path / "page.html"
    beside = tmp_path / "page.weights.js"
    beside.write_text("mine")
    with raises(FileExistsError, "page.weights.js"):
        kbert.explore(checkpoint, output, beside=True)
    assert beside.read_text() == "mine" and not output.exists()
    beside.unlink()
    kbert.explore(checkpoint, output, beside=True)
    inside = kbert.explore(checkpoint, weights="int8").html
    assert 'id="weights"' not in output.read_text()
    parts = [line.strip('",\n') for line in beside.read_text().splitlines() if line.startswith('"')]
    weights = b"".join(map(base64.b64decode, parts))
    assert weights == base64.b64decode(Page(inside).weights)
    kbert.explore(checkpoint, output, beside=True)  # its own file is replaced


def test_impossible_weights_are_refused_by_name(checkpoint, tmp_path):
    with raises(ValueError, "int4"):
        kbert.explore(checkpoint, weights="int4")
    with raises(ValueError, "base"):
        kbert.explore("base", weights="int8")
    with raises(ValueError, "output"):
        kbert.explore(checkpoint, beside=True)
    (checkpoint / "vocab.txt").rename(checkpoint / "other.txt")
    try:
        with raises(ValueError, "vocabulary"):
            kbert.explore(checkpoint, weights="int8")
    finally:
        (checkpoint / "other.txt").rename(checkpoint / "vocab.txt")


def test_a_large_model_has_no_weights_unless_they_are_asked_for(
    checkpoint, tmp_path, monkeypatch, messages
):
    from kbert.show.explorer.live import weight_options

    monkeypatch.setattr(weight_options, "MOST_INSIDE", 1000)
    page = kbert.explore(checkpoint, tmp_path / "page.html")
    assert 'id="weights"' not in page.html
    (line,) = [line for line in messages if "--beside" in line]
    check_named(line, "--weights", "--serve")
    asked = kbert.explore(checkpoint, tmp_path / "page.html", weights="int8")
    assert 'id="weights"' in asked.html
