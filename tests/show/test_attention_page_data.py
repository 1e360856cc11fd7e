"""What the page of an attention map holds: its numbers are the weights; what it lacks."""

import base64
import html
import json
import re

import numpy as np
import pytest
from helpers.attention_maps import random_map
from helpers.errors import raises
from helpers.page_elements import Elements
from helpers.small_berts import small_bert
from numpy.testing import assert_allclose, assert_array_equal

import kbert
from kbert.graph import names
from kbert.show.explorer.explore import explore_recorded
from kbert.show.explorer.live import attention_weights, recording
from kbert.tasks.attention.attention_map import AttentionMap


def live_of(page: str) -> dict:
    """DATA of a page with recordings."""
    return json.loads(re.search(r"^const DATA = (.*);$", page, re.MULTILINE)[1])["live"]


def page_of(*maps) -> str:
    return kbert.explore(list(maps)).html


def read_numbers(text: str, dtype: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text, validate=True), dtype)


def run_scripts(live: dict, number: int = 0) -> dict[str, np.ndarray]:
    """The tensors that a page's scripts make of a recording."""
    pytest.importorskip("py_mini_racer")
    from helpers.live_pages import start_v8

    request = live["recordings"][number]["request"]
    context = start_v8(live=live)
    context.eval(
        f"const {{ tensors }} = findRecording({json.dumps(live)}, {json.dumps(request)});"
        "const found = [...tensors].map(([name, tensor]) =>"
        " [name, tensor.shape, [...tensor.data]]);"
    )
    return {
        name: np.array(data, "float32").reshape(shape)
        for name, shape, data in json.loads(context.eval("JSON.stringify(found)"))
    }


@pytest.fixture
def many(monkeypatch):
    """A map of 87 tokens, of which a page has the largest weights only."""
    monkeypatch.setattr(attention_weights, "WHOLE", 1000)
    return random_map(50, 34)


def test_page_holds_the_attention_weights():
    found = random_map(9, 4)
    live = live_of(page_of(found))
    (row,) = live["recordings"]
    packed = row["attention"]
    steps = read_numbers(packed["weights"], "<u2").reshape(found.weights.shape)
    assert_allclose(steps / 65_535, found.weights, rtol=0, atol=0.51 / 65_535)
    assert (packed["blocks"], packed["heads"], packed["largest"]) == ([2, 3], [1, 2, 5], None)
    assert [one["text"] for one in row["tokens"]] == found.tokens
    assert [n for n, one in enumerate(row["tokens"]) if one["special"]] == [0, 10, 15]
    assert sum(one["segment"] for one in row["tokens"]) == 5
    assert live["note"] == "" and live["isSized"] is False


def test_scripts_read_weights_queries_and_keys():
    found = random_map(9, 4)
    tensors = run_scripts(live_of(page_of(found)))
    heads = [head - 1 for head in found.heads]
    for place, block in enumerate(found.layers):
        name = names.encoder(block, names.ATTENTION)
        assert_allclose(tensors[f"{name}/probs"][heads], found.weights[place], atol=1e-5)
        assert not tensors[f"{name}/probs"][[2, 3]].any()
        query, key = found.queries[place], found.keys[place]
        for part, array in (("query", query), ("key", key)):
            shown = tensors[f"{name}/{part}"][:, heads].swapaxes(0, 1)
            assert_allclose(shown, array, rtol=1e-3, atol=1e-6)
        scores = query @ key.swapaxes(1, 2) / np.sqrt(7)
        assert_allclose(tensors[f"{name}/scores"][heads], scores, rtol=0.01, atol=0.05)
    assert "Encoder-1-MultiHeadSelfAttention/probs" not in tensors


def test_page_of_many_tokens_keeps_largest_of_each_row(many):
    live = live_of(page_of(many))
    packed = live["recordings"][0]["attention"]
    shape = (*many.weights.shape[:3], 16)
    columns = read_numbers(packed["columns"], "<u2").reshape(shape).astype(int)
    steps = read_numbers(packed["weights"], "<u2").reshape(shape)
    wanted = np.sort(many.weights, -1)[..., :-17:-1]
    assert_allclose(steps / 65_535, wanted, rtol=0, atol=0.51 / 65_535)
    assert_array_equal(np.take_along_axis(many.weights, columns, -1), wanted)
    assert f"{wanted.sum(-1).mean():.0%} of the attention" in live["note"]
    shown = run_scripts(live)["Encoder-3-MultiHeadSelfAttention/probs"][1]
    assert_allclose(shown.sum(-1), 1, atol=1e-3)
    rest = many.weights[1, 1].copy()
    np.put_along_axis(rest, columns[1, 1], 0, -1)  # what is left out is even
    even = np.repeat(rest.sum(-1, keepdims=True) / (87 - 16), 87, axis=1)
    np.put_along_axis(even, columns[1, 1], wanted[1, 1], -1)
    assert_allclose(shown, even, atol=2e-5)


@pytest.mark.full
def test_recorded_page_of_a_model_has_its_attention(small, tmp_path):
    bert = small_bert(small, "pretraining")
    texts = ["the dog sees [MASK].", ("moon", "it was big"), "the dog " * 30]
    page = explore_recorded(bert, texts, tmp_path / "page.html", title="small", start="encoder")
    live = live_of(page.html)
    assert live["place"] == "recorded" and page.path.read_text(encoding="utf-8") == page.html
    for number, text in enumerate(texts):
        found = kbert.attention(bert, *([text] if isinstance(text, str) else text))
        row = live["recordings"][number]
        assert [one["text"] for one in row["tokens"]] == found.tokens
        assert row["truncated"] == found.truncated == (number == 2)
        numbers = read_numbers(row["data"], "<f2").astype("float32")
        start = 0
        for name, shape in row["tensors"]:
            part = numbers[start : start + np.prod(shape)].reshape(shape)
            start += int(np.prod(shape))
            block = names.block_of(name)
            for end, arrays in (("/query", found.queries), ("/key", found.keys)):
                if name.endswith(end):
                    assert_allclose(part.swapaxes(0, 1), arrays[block - 1], rtol=2e-3, atol=2e-3)


@pytest.mark.full
def test_a_text_of_several_lines_is_one_line_on_a_page(small, tmp_path):
    """A tab divides two texts in a page's sentences, and its field drops line ends."""
    bert = small_bert(small, "encoder")
    page = explore_recorded(bert, ["the\tred\ncat"], tmp_path / "x.html", title="x").html
    for shown in (page, kbert.explore(kbert.attention(bert, "the\tred\r\ncat")).html):
        live = live_of(shown)
        (row,) = live["recordings"]
        assert [row["request"]["text"], live["sentences"]] == ["the red cat", ["the red cat"]]


@pytest.mark.full
def test_a_long_text_has_the_weights_alone(small, tmp_path, monkeypatch):
    monkeypatch.setattr(recording, "MOST_VIEW_BYTES", 12_000)
    bert = small_bert(small, "encoder")
    page = explore_recorded(bert, ["the dog " * 30], tmp_path / "page.html", title="small")
    live = live_of(page.html)
    assert live["leftOut"] == [attention_weights.ALONE] and live["difference"] is None
    tensors = run_scripts(live)
    found = kbert.attention(bert, "the dog " * 30)
    assert len(tensors) == len(found.layers)
    for block, weights in enumerate(found.weights, 1):
        assert_allclose(
            tensors[f"Encoder-{block}-MultiHeadSelfAttention/probs"], weights, atol=2e-5
        )
    monkeypatch.setattr(recording, "MOST_VIEW_BYTES", 10)
    with raises(ValueError, "MB"):
        explore_recorded(bert, ["the dog"], tmp_path / "none.html", title="small")
    assert not (tmp_path / "none.html").exists()


@pytest.mark.full
def test_a_page_of_base_and_512_tokens_is_under_ten_megabytes(tmp_path):
    numbers = tuple(range(1, 13))
    one = random_map(300, 209, layers=(1,), heads=(1,))
    weights = np.broadcast_to(one.weights, (12, 12, 512, 512))
    queries = np.broadcast_to(np.float32(1), (12, 12, 512, 64))
    found = AttentionMap(
        one.tokens, weights, numbers, numbers, special=one.special, queries=queries, keys=queries
    )
    path = found.save(tmp_path / "long.html")
    assert 5e6 < path.stat().st_size < 10e6
    live = live_of(path.read_text(encoding="utf-8"))
    assert "16 largest weights" in live["note"] and live["recordings"][0]["tensors"] == []


NASTY = "</script><script>alert(1)</script><!-- <b>&amp; \u2028 \x1b[2J"


def test_a_page_asks_for_nothing_and_no_text_ends_a_script():
    plain, nasty = random_map(), random_map(text=NASTY)
    nasty.tokens[1] = NASTY
    one, other = Elements(page_of(plain)), Elements(page_of(nasty))
    assert [tag for tag, _ in one.found] == [tag for tag, _ in other.found]
    assert live_of(other.text)["recordings"][0]["tokens"][1]["text"] == NASTY


@pytest.mark.full
def test_a_notebook_gets_one_frame_with_the_whole_page():
    found = random_map()
    (frame,) = Elements(found._repr_html_()).found
    assert frame[0] == "iframe"
    assert frame[1]["srcdoc"] == kbert.explore(found, start=found.address()).html
    assert frame[1]["title"] == "Attention of 11 tokens"
    page = re.sub(r"<script.*</script>", "", html.unescape(found._repr_html_()), flags=re.DOTALL)
    assert "require" not in page


def test_attention_page_opens_on_a_head_with_a_clear_target():
    found = random_map(9)
    size = len(found.tokens)  # 11: [CLS], nine words, [SEP]
    found.weights[:] = 0
    found.weights[..., 0] = 1  # all of it to [CLS]
    first = "Encoder-2-MultiHeadSelfAttention/head-1"
    assert found.address() == f"{first}&token=1&special=hidden&heads=all"
    found.weights[0, 0, 4, 6] = 0.3  # the token that looks most at another one
    found.weights[0, 0, 2, 3] = 0.2
    assert found.address() == f"{first}&token=4&special=hidden&heads=all"
    found.weights[0, 2, :, 0] = 0.2
    found.weights[0, 2] += 0.8 * np.eye(size)  # to itself, mostly
    assert found.address().startswith("Encoder-2-MultiHeadSelfAttention/head-5&")
    found.weights[1, 1] = np.eye(size, k=1)  # to the next token, in full
    assert found.address().startswith("Encoder-3-MultiHeadSelfAttention/head-2&")
    assert found.address(head=1).startswith("Encoder-2-MultiHeadSelfAttention/head-1&")
    assert found.address(layer=2).startswith("Encoder-2-MultiHeadSelfAttention/head-5&")
    given = found.address(3, 5, special="whole")
    assert given == "Encoder-3-MultiHeadSelfAttention/head-5&heads=all"
    assert "special" not in random_map(0).address()  # there is nothing else

    found.weights[:] = 0
    found.weights[..., 0] = 1  # all of it to [CLS], but for a head without any target
    found.weights[1, 0] = 1 / size
    assert found.address().startswith("Encoder-3-MultiHeadSelfAttention/head-1&")


def test_saved_attention_map_is_read_back(tmp_path):
    found = random_map(9, 4)
    first, second = (found.save(tmp_path / f"{name}.npz") for name in "ab")
    assert first.read_bytes() == second.read_bytes()
    with np.load(first, allow_pickle=False) as arrays:
        assert arrays["tokens"].tolist() == found.tokens
        for name in ("weights", "layers", "heads", "special", "segments", "queries", "keys"):
            assert_array_equal(arrays[name], getattr(found, name))
        again = AttentionMap(
            **{name: arrays[name] for name in ("weights", "queries", "keys")},
            **{name: arrays[name].tolist() for name in ("tokens", "layers", "heads", "special")},
        )
    packed = [live_of(page_of(one))["recordings"][0]["attention"] for one in (found, again)]
    assert packed[0] == packed[1]
    with np.load(random_map(queries=None, keys=None).save(first)) as arrays:
        assert "queries" not in arrays


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("map.gif", {}, ("path", ".html, .npz", "map.gif")),
        ("map.html", {"layer": 4}, ("layer", "2 … 3", "got 4")),
        ("map.html", {"head": 0}, ("head", "1 … 5", "got 0")),
        ("map.html", {"special": "no"}, ("special", "clipped, hidden, whole", "'no'")),
    ],
)
def test_bad_attention_page_options_are_refused(tmp_path, name, options, says):
    with raises(ValueError, *says):
        random_map().save(tmp_path / name, **options)
    with raises(FileNotFoundError, "nowhere"):
        random_map().save(tmp_path / "nowhere" / "map.html")
    assert list(tmp_path.iterdir()) == []


def test_attention_maps_that_no_page_can_show_are_refused(tmp_path):
    found = random_map()
    with raises(ValueError, "sentences", "weights", "beside"):
        kbert.explore(found, sentences=["a"])
    with raises(ValueError, "one model"):
        kbert.explore([found, random_map(layers=(1,))])
    found.weights[1, 0, 3, 2] = np.nan
    with raises(ValueError, "NaN"):
        found.save(tmp_path / "map.html")
    assert list(tmp_path.iterdir()) == []
