"""Masks, labels, answers and maps, beside the same computed from kbert.predict."""

import dataclasses
import re

import numpy as np
import pytest
from helpers.errors import raises
from helpers.marks import full
from numpy.testing import assert_allclose, assert_array_equal

import kbert
from kbert.tasks.attention.inference import AttentionMap, attention


@pytest.fixture
def bert(berts):
    return berts["encoder"]


@pytest.mark.full
def test_a_model_of_few_predictions_fills_masks_too(berts, small):
    gathered = kbert.build_bert(small, seq_len=None, max_predictions=3)
    gathered.set_weights(berts["pretraining"].model.get_weights())
    other = dataclasses.replace(berts["pretraining"], model=gathered)
    text = "cat [MASK] sun"
    for one, same in zip(
        kbert.fill_mask(other, text)[0], kbert.fill_mask(berts["pretraining"], text)[0], strict=True
    ):
        assert one.token == same.token
        assert_allclose(one.probability, same.probability, atol=1e-6)


def test_classify_with_own_labels_and_multi_label(berts, small):
    bert = berts["classifier"]
    (logits,) = kbert.predict(bert.model, [bert.tokenizer.encode("cat").ids])["Classifier"]
    each = kbert.classify(bert, "cat", multi_label=True)
    assert_allclose(
        sorted(one.probability for one in each), np.sort(1 / (1 + np.exp(-logits))), atol=1e-6
    )
    assert {one.label for one in each} == {f"LABEL_{n}" for n in range(5)}
    named = dataclasses.replace(bert, labels=("a", "b", "c", "d", "e"))
    assert kbert.classify(named, "cat")[0].label == "abcde"[logits.argmax()]


@pytest.mark.full
def test_attention_map_between_tokens(bert):
    found = attention(bert, "cat sees dog", "dog")
    assert found.weights.shape == (2, 4, 7, 7)
    assert found.between("cat", "sees", layer=2, head=3) == found.weights[1, 2, 1, 2]
    assert_allclose(found.between(1, 3, layer=2), found.weights[1, :, 1, 3].mean(), rtol=1e-6)
    assert_allclose(found.mean(head=4), found.weights[:, 3].mean(0), rtol=1e-6)
    one = attention(bert, "cat sees dog", "dog", layer=2, head=2)
    assert_array_equal(one.weights, found.weights[1:, 1:2])
    assert one.between("cat", "sees", layer=2) == found.weights[1, 1, 1, 2]
    for token, says in (("dog", ("[3, 5]",)), ("tree", ("none",)), (7, ("0 … 6",))):
        with raises(ValueError, *says):
            found.between(token, "cat")
    with raises(ValueError, "layer", "2 … 2", "got 1"):
        one.mean(layer=1)


@pytest.mark.parametrize(
    ("ending", "begins"),
    [("svg", b"<?xml"), full("png", b"\x89PNG"), full("pdf", b"%PDF")],
)
def test_heat_map_files_are_reproducible(bert, tmp_path, ending, begins):
    found = attention(bert, "cat $ee$ 中 dog")
    first, second = (found.plot(tmp_path / f"{n}.{ending}", layer=1) for n in "ab")
    assert first.read_bytes().startswith(begins)
    assert first.read_bytes() == second.read_bytes()
    if ending == "svg":
        text = first.read_text(encoding="utf-8")
        for token in found.tokens:
            assert f">{token}</text>" in text
        assert "layer 1, mean of 4 heads" in text and ">cat $ee$ 中 dog</text>" in text
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"a.{ending}", f"b.{ending}"]


def texts_of(path) -> list[str]:
    """What stands in a picture."""
    return re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text(encoding="utf-8"))


@pytest.fixture
def sink():
    """A map in which [CLS] draws nearly all of the attention, as in real checkpoints."""
    tokens = ["[CLS]", "a", "cat", "sat", "[SEP]"]
    weights = np.full((5, 5), 0.01, "float32")
    weights[:, 0], weights[1, 2], weights[3, 3] = 0.96, 0.25, 0.05
    return AttentionMap(tokens, weights[None, None], (4,), (2,), "A cat sat", (0, 4))


def test_heat_map_scale_leaves_special_tokens_out(sink, tmp_path, monkeypatch):
    """The picture's own pixels: a quarter is as dark as can be, and [CLS] is off the scale."""
    import matplotlib.image

    monkeypatch.setattr("kbert.tasks.attention.heat_map.BEYOND_SCALE", "#ff0000")
    shares = {}
    for special in ("clipped", "hidden", "whole"):
        pixels = matplotlib.image.imread(sink.plot(tmp_path / "map.png", special=special))
        pixels = pixels[..., :3].reshape(-1, 3)
        darkest = np.abs(pixels - np.array([10, 36, 80]) / 255).max(-1) < 0.02  # the scale's end
        red = np.abs(pixels - np.array([1, 0, 0])).max(-1) < 0.02
        shares[special] = darkest.mean(), red.mean()
    (clipped, off), (hidden, none), (whole, no) = shares.values()
    assert off > 0.05 and none == no == 0  # the column of [CLS]: a fifth of the square
    assert whole > 3 * clipped and hidden > clipped > 0


@pytest.mark.full
def test_heat_map_title_names_the_text_and_fits(sink, tmp_path):
    lines = texts_of(sink.plot(tmp_path / "map.svg", layer=4, head=2))
    assert "A cat sat" in lines and "layer 4, head 2" in lines
    assert any("grey: above 0.25, up to 0.96" in line for line in lines)
    assert {"[CLS]", "cat", "[SEP]"} <= set(lines)
    lines = texts_of(dataclasses.replace(sink, text="a\x1b[2J\ncat").plot(tmp_path / "c.svg"))
    assert any(line.startswith("a") and "[2J cat" in line and "\x1b" not in line for line in lines)
    long = dataclasses.replace(sink, text="a cat " * 99)
    (title,) = (line for line in texts_of(long.plot(tmp_path / "b.svg")) if "…" in line)
    assert title.startswith("a cat a cat") and len(title) < 99
    lines = texts_of(sink.plot(tmp_path / "map.svg", special="hidden"))
    assert "cat" in lines and not {"[CLS]", "[SEP]"} & set(lines)
    with raises(ValueError, "special", "clipped, hidden, whole", "'no'"):
        sink.plot(tmp_path / "map.svg", special="no")


@pytest.mark.parametrize(("count", "named"), [(7, 7), full(122, 61)])
def test_heat_map_text_grows_with_the_picture(count, named, tmp_path, monkeypatch):
    """Title and scale grow with the picture; of many tokens those are named that can be read."""
    monkeypatch.setattr("kbert.tasks.attention.heat_map.MOST_NAMED", 61)
    weights = np.random.default_rng(3).random((1, 1, count, count)).astype("float32")
    names = [f"w{n}" for n in range(count)]
    found = AttentionMap(names, weights, (1,), (1,), "some text", ())
    text = found.plot(tmp_path / "map.svg").read_text(encoding="utf-8")
    (width,) = map(float, re.findall(r'<svg [^>]*?width="([\d.]+)pt"', text))
    found = re.findall(r"font-size: ([\d.]+)px[^>]*>([^<]+)<", text)
    sizes = {name: float(size) for size, name in found}
    assert 1 / 120 < sizes["some text"] / width < 1 / 25
    assert sizes["attention weight"] == sizes["some text"] and sizes["w0"] >= 6
    assert len([name for name in sizes if name in names]) == named


def test_attention_map_keeps_its_text(bert):
    found = attention(bert, "cat sees dog", "dog")
    assert (found.text, found.special) == ("cat sees dog / dog", (0, 4, 6))


def test_bad_heat_map_path_is_refused(bert, tmp_path):
    found = attention(bert, "cat")
    with raises(ValueError, ".png, .svg, .pdf", "map.gif"):
        found.plot(tmp_path / "map.gif")
    with raises(FileNotFoundError, "nowhere"):
        found.plot(tmp_path / "nowhere" / "map.png")
