"""Recordings in a page: what they keep, how exact it is, and what a page's scripts make of it."""

import base64
import json
import re

import numpy as np
import pytest
from helpers.errors import raises
from helpers.small_berts import small_bert
from numpy.testing import assert_allclose

import kbert
from kbert.graph import names
from kbert.show.explorer.live import recording
from kbert.show.explorer.live.difference import read_texts
from kbert.show.explorer.live.packing import pack_weights, unpack_weights
from kbert.show.explorer.live.tracing import Tracer
from kbert.show.explorer.weights import open_model
from kbert.show.explorer.writing import engine_script, live_scripts

TEXT, PAIR = "the dog sees [MASK].", ("moon", "it was big")


def live_of(page: str) -> dict | None:
    """DATA.live of a page."""
    data = json.loads(re.search(r"^const DATA = (.*);$", page, re.MULTILINE)[1])
    return data.get("live")


def read_recording(live: dict, number: int = 0) -> dict[str, np.ndarray]:
    """The tensors that a recording keeps, read without kbert."""
    row = live["recordings"][number]
    dtype = {"float16": "<f2", "float32": "<f4"}[live["precision"]]
    numbers = np.frombuffer(base64.b64decode(row["data"]), dtype).astype("float32")
    tensors, start = {}, 0
    for name, shape in row["tensors"]:
        tensors[name] = numbers[start : start + np.prod(shape)].reshape(shape)
        start += int(np.prod(shape))
    assert start == len(numbers)
    return tensors


@pytest.fixture(scope="module")
def bert(small):
    return small_bert(small, "pretraining")


@pytest.fixture(scope="module")
def folder(bert, tmp_path_factory):
    path = tmp_path_factory.mktemp("recorded") / "model"
    kbert.save(bert, path)
    return path


@pytest.fixture(scope="module")
def model(folder):
    return open_model(folder)


def test_recordings_are_within_the_difference_that_the_page_states(model):
    live = recording.record_model(model, [TEXT, PAIR])
    assert live["place"] == "recorded" and live["precision"] == "float16"
    assert live["sentences"] == [TEXT, "moon\tit was big"] and live["leftOut"] == []
    assert live["difference"]["texts"] == 2 and 0 < live["difference"]["hidden"] < 0.05
    largest = 0.0
    for number, (text, pair) in enumerate([(TEXT, None), PAIR]):
        trace = Tracer(model).trace({"text": text, "pair": pair})
        kept = read_recording(live, number)
        assert live["recordings"][number]["request"]["pair"] == pair
        assert live["recordings"][number]["outputs"]["nsp"] == trace.outputs["nsp"]
        for name, tensor in kept.items():
            difference = np.abs(tensor - trace.tensors[name]).max()
            assert difference <= 2**-11 * np.abs(trace.tensors[name]).max()
            if name.endswith("-Norm"):
                largest = max(largest, difference)
        assert not any("/probs" in name or name.endswith("-Add") for name in kept)
    assert live["difference"]["hidden"] == pytest.approx(largest)


def test_scripts_complete_a_recording_to_the_whole_trace(model):
    MiniRacer = pytest.importorskip("py_mini_racer").MiniRacer
    live = recording.record_model(model, [PAIR])
    kept = read_recording(live)
    row = {key: value for key, value in live["recordings"][0].items() if key != "data"}
    request = row["request"] | {"off": row["request"]["off"] | {"heads": [[2, 3]]}}
    request["off"]["residuals"] = ["Encoder-1-FeedForward-Add"]
    request["temperature"] = 2
    context = MiniRacer()
    context.eval(engine_script(live))
    numbers = np.concatenate([tensor.ravel() for tensor in kept.values()]).tolist()
    context.eval(
        f"const trace = makeEngine().readTrace({json.dumps(row | {'request': request})}, "
        f"new Float32Array({json.dumps(numbers)}), {json.dumps(live['config'])});"
        "const found = [...trace.tensors].map(([name, tensor]) =>"
        " [name, tensor.shape, [...tensor.data]]);"
    )
    found = {
        name: np.array(data, "float32").reshape(shape)
        for name, shape, data in json.loads(context.eval("JSON.stringify(found)"))
    }
    from kbert.show.explorer.live.tracing import read_changes

    changes = read_changes(model.spec.config, request)
    expected = recording.complete_tensors(model.spec.config, kept, changes)
    assert found.keys() == expected.keys() == Tracer(model).trace({"text": "a"}).tensors.keys()
    for name, tensor in expected.items():
        assert_allclose(found[name], tensor, atol=2e-6, err_msg=name)
    assert not found["Encoder-2-MultiHeadSelfAttention/context"][:, 2].any()


@pytest.mark.parametrize("half", [0x0001, 0x03FF, 0x0400, 0x3C00, 0x7BFF, 0x8000, 0xC123, 0x7C00])
def test_scripts_read_half_precision_as_numpy(half):
    pytest.importorskip("py_mini_racer")
    from helpers.live_pages import RECORDED, start_v8

    numbers = np.array([half, 0x3C00], "<u2")
    recording = {"request": {"text": "", "pair": None, "off": {"heads": [], "residuals": []}}}
    names = ("Embedding-Token", "Embedding-Position/position")
    recording |= {"outputs": {}, "tensors": [[name, [1]] for name in names]}
    recording["data"] = base64.b64encode(numbers.tobytes()).decode()
    live = {"recordings": [recording], "precision": "float16", "config": {"L": 0}}
    context = start_v8(live=RECORDED)
    context.eval(f"const {{ tensors }} = findRecording({json.dumps(live)}, {{ text: '' }});")
    found = context.eval("String(tensors.get('Embedding-Token').data[0])")
    assert float(found) == float(numbers[:1].view("float16")[0])


def test_large_recordings_leave_parts_out_and_say_so(model):
    def record(most: int) -> dict:
        return recording.record_model(model, [TEXT], most)

    whole = len(record(10**9)["recordings"][0]["data"])
    without_wide = record(whole - 1)
    assert f"Encoder-{{n}}-{names.FEED_FORWARD}/activation" in without_wide["leftOut"]
    assert f"Encoder-{{n}}-{names.FEED_FORWARD}/intermediate" in without_wide["leftOut"]
    assert len(without_wide["leftOut"]) == 2
    few = record(len(without_wide["recordings"][0]["data"]) - 1)
    kept = read_recording(few)
    assert "Encoder-1-MultiHeadSelfAttention/query" in kept
    assert "Encoder-1-FeedForward-Norm" in kept and "Encoder-1-FeedForward" not in kept
    left_out = {name.replace("{n}", "2") for name in few["leftOut"]}
    found = recording.complete_tensors(model.spec.config, kept)
    assert left_out == Tracer(model).trace({"text": TEXT}).tensors.keys() - found.keys() - {
        name.replace("{n}", n) for name in few["leftOut"] for n in "13"
    }
    with raises(ValueError, "MB"):
        record(100)


def test_explore_records_sentences(bert, folder, tmp_path):
    page = kbert.explore(bert, sentences=[TEXT, PAIR])
    live = live_of(page.html)
    assert live["place"] == "recorded" and len(live["recordings"]) == 2
    assert "kbert.explore(" in page._repr_html_().rpartition("</iframe>")[2]
    assert live_of(kbert.explore(folder, sentences=[TEXT]).html)["sentences"] == [TEXT]


@pytest.mark.full
def test_notebooks_have_a_recording_where_the_model_can(bert, small):
    wide = small_bert(small.replace(max_position_embeddings=64), "encoder")
    shown = kbert.explore(wide)
    assert live_of(shown.html)["sentences"] == [recording.SENTENCES[0]]
    assert len(shown._repr_html_()) < 4_000_000
    assert live_of(kbert.explore(bert).html) is None  # it has 17 positions
    assert live_of(kbert.explore(bert.model).html) is None  # it has no tokenizer


@pytest.mark.parametrize(
    ("sentences", "said"),
    [
        ("a text", ("list",)),
        ([], ("list",)),
        ([7], ("sentences[0]",)),
        ([("a", "b", "c")], ("sentences[0]",)),
        (["a", ""], ("sentence", "''")),
        ([("a", " ")], ("sentence", "' '")),
        (["dog " * 30], ("17",)),
    ],
)
def test_bad_sentences_are_refused(bert, sentences, said):
    with raises(ValueError, *said):
        kbert.explore(bert, sentences=sentences)


@pytest.mark.parametrize("source", ["tiny", kbert.BertConfig()])
def test_sentences_need_a_checkpoint(source):
    with raises(ValueError, "sentences", "checkpoint"):
        kbert.explore(source, sentences=["a"])


@pytest.mark.full
def test_page_runs_its_recordings(model, browser_page):
    live = recording.record_model(model, [TEXT, PAIR])
    script = "\n".join([*live_scripts(live), f"const live = {json.dumps(live)};"])
    browser_page.add_script_tag(content=script)
    found = browser_page.evaluate(
        """async () => {
          const model = await openModel(live);
          const [text, pair] = live.sentences[1].split("\\t");
          const first = await model.run({ text: live.sentences[0], pair: null });
          const second = await model.run({ text, pair });
          const refused = await model.run({ text: "other", pair: null }).catch((e) => e.message);
          return [model.canType, [...first.tensors.get("Encoder-2-FeedForward-Norm").data],
            second.tokens.map(({ text }) => text), second.request.pair, refused];
        }"""
    )
    can_type, numbers, tokens, pair, refused = found
    kept = read_recording(live)
    assert not can_type and "no recording" in refused and pair == PAIR[1]
    assert_allclose(numbers, kept["Encoder-2-FeedForward-Norm"].ravel())
    assert tokens == ["[CLS]", "moon", "[SEP]", "it", "was", "big", "[SEP]"]


@pytest.fixture
def browser_page(browser):
    """An empty page of Chromium."""
    page = browser.new_page()
    yield page
    page.close()


@pytest.mark.full
def test_byte_level_checkpoints_are_recorded(tmp_path, small):
    transformers = pytest.importorskip("transformers")
    from helpers.peer_family import bpe

    size, _ = bpe(["a cat sat on the mat", "dogs see it", "it rained", "a b c"] * 3, tmp_path)
    config = transformers.RobertaConfig(
        **{"vocab_size": size, "hidden_size": 24, "num_hidden_layers": 2, "pad_token_id": 1},
        **{"num_attention_heads": 4, "intermediate_size": 37, "max_position_embeddings": 40},
    )
    transformers.RobertaForMaskedLM(config).save_pretrained(tmp_path / "bpe")
    page = kbert.explore(tmp_path / "bpe", tmp_path / "x.html", sentences=["a cat<mask> sat"])
    live = live_of(page.html)
    assert live["place"] == "recorded" and "RoBERTa" in page.title
    bert = kbert.load(tmp_path / "bpe")
    expected = kbert.fill_mask(bert, "a cat<mask> sat", top_k=10)[0]
    candidates = live["recordings"][0]["outputs"]["mlm"][0]["candidates"]
    assert [one["token"] for one in candidates] == [one.token for one in expected]


@pytest.mark.full
def test_difference_is_that_of_keras_models_with_both_weights(small, tmp_path):
    """The stated difference, computed again by Keras with the packed weights loaded into it."""
    import keras

    from kbert.model.probes import build_attention_maps, build_hidden_states
    from kbert.show.explorer.live.difference import measure_difference

    bert = small_bert(small.replace(max_position_embeddings=150, type_vocab_size=2), "encoder")
    kbert.save(bert, tmp_path / "model")
    model = open_model(tmp_path / "model")
    before = {name: np.asarray(read(), "float32") for name, read in model.readers.items()}
    after = unpack_weights(pack_weights(before.items(), "int8"))
    found = measure_difference(model, before, after)

    packed = kbert.build_bert(bert.config, head="encoder", seq_len=None)
    for layer in packed.layers:
        values = []
        for weight in layer.weights:
            rows = after[f"{layer.name}/{weight.path.rpartition(layer.name + '/')[2]}"]
            is_matrix = weight.path.endswith("kernel")
            values.append((rows.T if is_matrix else rows).reshape(weight.shape))
        layer.set_weights(values)
    hidden = attention = 0.0
    cosines = []
    for encoding in bert.tokenizer.encode_batch(read_texts()):
        inputs = [np.array([encoding.ids]), np.array([encoding.segment_ids])]
        for build in (build_hidden_states, build_attention_maps):
            pair = [build(one)(inputs, training=False) for one in (bert.model, packed)]
            arrays = [[keras.ops.convert_to_numpy(x) for x in one] for one in pair]
            largest = max(np.abs(a - b).max() for a, b in zip(*arrays, strict=True))
            if build is build_hidden_states:
                hidden = max(hidden, largest)
                a, b = (one[-1][0].mean(axis=0) for one in arrays)
                cosines.append(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
            else:
                attention = max(attention, largest)
    assert found["texts"] == len(read_texts()) == 26
    assert_allclose([found["hidden"], found["attention"]], [hidden, attention], rtol=1e-3)
    assert found["cosine"] == pytest.approx(min(cosines), abs=1e-6) and hidden > 1e-3
