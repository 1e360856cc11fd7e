"""What an attention page holds: its bytes are the weights, it is whole, and says what it lacks."""

import html
import re

import numpy as np
import pytest
from helpers.attention_maps import facts_of, part_of, random_map
from helpers.page_elements import Elements
from numpy.testing import assert_allclose, assert_array_equal

from kbert.tasks.attention.attention_map import AttentionMap
from kbert.tasks.attention.page import writing
from kbert.tasks.attention.page.writing import write_page


@pytest.fixture
def many(monkeypatch):
    """A map of 87 tokens, of which a page has the largest weights only."""
    monkeypatch.setattr(writing, "WHOLE", 1000)
    return random_map(50, 34)


def test_page_holds_the_attention_weights():
    found = random_map(9, 4)
    text = write_page(found)
    facts = facts_of(text)
    steps = part_of(text, "weights", "<u2").reshape(found.weights.shape)
    assert facts["steps"]["weight"] == 65_535 and facts["largest"] is None
    assert_allclose(steps / 65_535, found.weights, rtol=0, atol=0.51 / 65_535)
    assert (facts["tokens"], facts["layers"], facts["heads"]) == (found.tokens, [2, 3], [1, 2, 5])
    assert facts["special"] == [0, 10, 15] and sum(facts["segments"]) == 5
    assert facts["notes"] == []
    figures = [(one.entropy, one.distance) for one in found.statistics()]
    shown = [(one["entropy"], one["distance"]) for one in facts["figures"]]
    assert_allclose(shown, figures, atol=1e-4)


def test_queries_and_keys_are_quantized_to_half_a_step():
    found = random_map(9, 4, width=11)
    found.keys[1, 2, 3] = 0
    text = write_page(found)
    assert facts_of(text)["vector_size"] == 11
    for name, wanted in (("queries", found.queries), ("keys", found.keys)):
        steps = part_of(text, name, "i1").reshape(wanted.shape)
        scales = part_of(text, f"{name[0]}-scales", "<f4").reshape(wanted.shape[:-1])
        assert_allclose(scales, np.abs(wanted).max(-1) / 127, rtol=1e-6)
        error = np.abs(steps * scales[..., None] - wanted)
        assert (error <= 0.501 * scales[..., None]).all()


def test_page_of_many_tokens_keeps_largest_of_each_row(many):
    text = write_page(many)
    facts = facts_of(text)
    shape = (*many.weights.shape[:3], 16)
    columns = part_of(text, "columns", "<u2").reshape(shape)
    steps = part_of(text, "weights", "<u2").reshape(shape)
    wanted = np.sort(many.weights, -1)[..., :-17:-1]
    assert_allclose(steps / 65_535, wanted, rtol=0, atol=0.51 / 65_535)
    assert_array_equal(np.take_along_axis(many.weights, columns.astype(int), -1), wanted)
    assert all(len(set(row)) == 16 for row in columns.reshape(-1, 16))
    (note,) = facts["notes"]
    assert (facts["largest"], facts["side"]) == (16, 64)
    assert note.startswith("87 tokens are many: here are the 16 largest weights of each row, ")
    assert f"{wanted.sum(-1).mean():.0%} of the attention" in note


@pytest.mark.parametrize("name", ["thumbnails", "plain-thumbnails"])
def test_thumbnail_pixel_is_largest_weight_of_its_block(many, name):
    pixels = part_of(write_page(many), name, "u1").reshape(2, 3, 64, 64)
    weights = many.weights.copy()
    if name == "plain-thumbnails":
        for place in many.special:
            weights[:, :, place] = weights[..., place] = 0
    owner = [max(n for n in range(64) if n * 87 // 64 <= token) for token in range(87)]
    wanted = np.zeros(pixels.shape)
    for (layer, head, row, column), weight in np.ndenumerate(weights):
        where = layer, head, owner[row], owner[column]
        wanted[where] = max(wanted[where], weight)
    assert_allclose(pixels / 255, np.sqrt(wanted), rtol=0, atol=0.51 / 255)


@pytest.mark.full
def test_a_page_of_base_and_512_tokens_is_under_ten_megabytes(tmp_path):
    numbers = tuple(range(1, 13))
    one = random_map(300, 209, layers=(1,), heads=(1,))
    weights = np.broadcast_to(one.weights, (12, 12, 512, 512))
    vectors = np.broadcast_to(np.float32(1), (12, 12, 512, 64))
    found = AttentionMap(
        one.tokens, weights, numbers, numbers, special=one.special, queries=vectors, keys=vectors
    )
    path = found.save(tmp_path / "long.html")
    assert 5e6 < path.stat().st_size < 10e6
    notes = facts_of(path.read_text(encoding="utf-8"))["notes"]
    assert "512 tokens are many" in notes[0]
    assert notes[1:] == [
        "Queries and keys are left out: 9.4 MB. A page of one layer (layer=3, --layer 3) has them."
    ]


def test_page_says_what_it_leaves_out(monkeypatch):
    monkeypatch.setattr(writing, "MAX_QUERY_BYTES", 300)
    found = random_map(9, truncated=True)  # 2 × 2 × 3 × 11 × 7 numbers
    assert facts_of(write_page(found))["notes"] == [
        "The text is longer: it was cut to 11 tokens, as the model reads it.",
        "Queries and keys are left out: 0.0 MB. "
        "A page of one head (layer=3, head=5; --layer 3 --head 5) has them.",
    ]
    (note,) = facts_of(write_page(random_map(queries=None, keys=None)))["notes"]
    assert note.endswith("kbert.attention(…, vectors=True) keeps them.")


NASTY = "</script><script>alert(1)</script><!-- <b>&amp; \u2028 \x1b[2J \ud800"


def test_a_page_asks_for_nothing_and_no_text_ends_a_script(monkeypatch):
    monkeypatch.setattr(writing, "WHOLE", 1000)
    plain, nasty = random_map(), random_map(text=NASTY)
    nasty.tokens[1] = NASTY
    one, other = Elements(write_page(plain)), Elements(write_page(nasty))
    assert [tag for tag, _ in one.found] == [tag for tag, _ in other.found]
    for tag, attributes in other.found:
        assert tag not in ("link", "img", "object", "embed", "base", "form")
        assert not {"src", "href", "action", "srcset", "data"} & set(attributes)
        assert not [name for name in attributes if name.startswith("on")]
    assert not re.search(
        r"@import|url\(|https?://(?!www\.w3\.org/2000/svg)|fetch\(|XMLHttp|require\(", other.text
    )
    policy = [a["content"] for t, a in other.found if t == "meta" and "http-equiv" in a]
    assert policy and policy[0].startswith("default-src 'none'")
    token = facts_of(write_page(nasty))["tokens"][1]
    assert token.startswith("</script><script>alert(1)") and token.endswith("\\u001b[2J \\ud800")


def test_a_notebook_gets_one_frame_with_the_whole_page():
    found = random_map()
    (frame,) = Elements(found._repr_html_()).found
    assert frame[0] == "iframe" and frame[1]["srcdoc"] == write_page(found)
    assert frame[1]["sandbox"] == "allow-scripts" and frame[1]["title"] == "Attention of 11 tokens"
    assert "require" not in html.unescape(found._repr_html_())


def test_attention_page_opens_on_a_head_that_relates_words():
    found = random_map(9)
    size = len(found.tokens)  # 11: [CLS], nine words, [SEP]
    found.weights[:] = 0
    found.weights[..., 0] = 1  # all of it to [CLS]
    found.weights[0, 1] = np.eye(size, k=-1)  # to the token before, in full
    found.weights[0, 2] = np.eye(size)  # to itself
    found.weights[1, 0, :, 10] = 1  # to [SEP]
    found.weights[1, 1, 4, 9] = found.weights[1, 0, 4, 9] = 0.3
    found.weights[1, 1, 7, 2] = 0.2
    found.weights[0, 1, 0, 5] = 0.9  # of [CLS], which is no word
    assert facts_of(write_page(found))["start"] == {"layer": 1, "head": 1, "special": False}
    assert facts_of(write_page(found, head=1))["start"]["layer"] == 1
    assert facts_of(write_page(found, layer=2))["start"]["layer"] == 0
    given = facts_of(write_page(found, 3, 5, special=True))["start"]
    assert given == {"layer": 1, "head": 2, "special": True}
    assert facts_of(write_page(random_map(0)))["start"] == {"layer": 0, "head": 0, "special": True}
    assert facts_of(write_page(random_map(2)))["start"] == {"layer": 0, "head": 0, "special": False}


def test_saved_attention_map_is_read_back(tmp_path):
    found = random_map(9, 4)
    first, second = (found.save(tmp_path / f"{name}.npz") for name in "ab")
    assert first.read_bytes() == second.read_bytes()
    with np.load(first, allow_pickle=False) as arrays:
        assert arrays["tokens"].tolist() == found.tokens
        for name in ("weights", "layers", "heads", "special", "segments", "queries", "keys"):
            assert_array_equal(arrays[name], getattr(found, name))
    with np.load(random_map(queries=None, keys=None).save(first)) as arrays:
        assert "queries" not in arrays


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("map.gif", {}, r"path must end in \.html, \.npz, got '.*map\.gif'"),
        ("map.html", {"layer": 4}, "layer must be one of 2 … 3, got 4"),
        ("map.html", {"head": 0}, "head must be one of 1 … 5, got 0"),
        ("map.html", {"special": "no"}, "special must be one of clipped, hidden, whole, got 'no'"),
    ],
)
def test_bad_attention_page_options_are_refused(tmp_path, name, options, says):
    with pytest.raises(ValueError, match=says):
        random_map().save(tmp_path / name, **options)
    with pytest.raises(FileNotFoundError, match="no such folder"):
        random_map().save(tmp_path / "nowhere" / "map.html")
    assert list(tmp_path.iterdir()) == []


def test_attention_weights_that_are_nan_are_refused(tmp_path):
    found = random_map()
    found.weights[1, 0, 3, 2] = np.nan
    with pytest.raises(ValueError, match=r"finite for a page, got NaN .*: load a model"):
        found.save(tmp_path / "map.html")
    assert list(tmp_path.iterdir()) == []
