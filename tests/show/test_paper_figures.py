"""Figures for papers show the graph without its details, legibly, and the input of a text."""

import json
import re
import sys
import zlib
from itertools import pairwise

import numpy as np
import pytest
from helpers.diagram_readers import png_size
from helpers.errors import check_named, raises
from helpers.figure_readers import bounds, read_figure
from helpers.sizes import ROOT, SIZES

import kbert
from kbert.graph.spec import GraphSpec
from kbert.heads import HEADS

DISTILBERT = {"model_type": "distilbert", "vocab_size": 99, "dim": 24, "n_heads": 4}
# Figure 2 of Devlin et al. 2019: this text, in these pieces.
WORDS = ["[CLS]", "my", "dog", "is", "cute", "[SEP]", "he", "likes", "play", "##ing", "[SEP]"]


def draw(tmp_path, source="base", **options):
    return read_figure(kbert.plot(source, tmp_path / "a.svg", **{"style": "paper"} | options))


def spec_of(head: str, **options) -> GraphSpec:
    return GraphSpec.of("base", head, **options)


GRAPHS = {
    **{head: lambda head=head: spec_of(head) for head in HEADS},
    "gathered": lambda: spec_of("pretraining", max_predictions=20),
    "selected": lambda: spec_of("pretraining", max_predictions=20, selected_positions=True),
    "selected classifier": lambda: spec_of("classifier", selected_positions=True),
    "packed": lambda: spec_of("classifier", packed=True),
    "packed and selected": lambda: spec_of("classifier", packed=True, selected_positions=True),
    "packed documents": lambda: spec_of(
        "pretraining", max_predictions=20, packed=True, selected_positions=True
    ),
    "DistilBERT": lambda: GraphSpec(kbert.BertConfig.from_dict(DISTILBERT), "classifier"),
}


@pytest.mark.parametrize("collapse", [True, False])
def test_the_papers_boxes_stand_from_bottom_to_top(tmp_path, collapse):
    """Of Vaswani et al. 2017, figure 1, at the left, and Devlin et al. 2019: in and out."""
    block = [["Self-Attention"], ["Multi-Head"], ["Add & Norm"], ["Feed Forward"], ["Add & Norm"]]
    rows = draw(tmp_path, collapse=collapse).rows()
    below = [["Token ids", "Segment ids"], ["Embedding"] * 3, ["Token", "Segment", "Position"]]
    assert rows[:4] == [*below, ["Norm"]]
    assert rows[-5:] == [
        *(["Dense", "First Token"], ["Norm", "Dense"], ["Similarity", "Dense"], ["Masked", "Mask"]),
        ["Masked LM", "Next sentence"],
    ]
    blocks = [row for row in rows[4:-5] if not re.fullmatch(r"(12 ×|\d+)", row[0])]
    labels = [row[0] for row in rows[4:-5] if row not in blocks]
    assert blocks == block * (1 if collapse else 12)
    assert labels == (["12 ×"] if collapse else [str(n) for n in range(1, 13)])


@pytest.mark.parametrize("layout", ["tall", "wide"])
@pytest.mark.parametrize("name", GRAPHS)
def test_every_graph_is_drawn_legibly(tmp_path, name, layout):
    """Texts lie in their boxes and on the page, lines touch no box but at its edges."""
    figure = draw(tmp_path, GRAPHS[name](), layout=layout)
    text = " ".join(label.text for label in figure.labels)
    assert not re.search(r"dropout|Encoder|MLM-|NSP-|Embedding-", text, re.IGNORECASE)
    assert {size for label in figure.labels for size in label.sizes} == {8}

    width, height = figure.sides
    boxes = [box for box in figure.boxes if box[4] != "frame"]
    for label in figure.labels:
        left, top, right, bottom = bounds(label)
        assert left >= 0 and right <= width and top >= -1.5 and bottom <= height + 1.5, label
        for box in boxes:
            apart = right < box[0] or left > box[2] or bottom < box[1] or top > box[3]
            within = left >= box[0] + 2 and right <= box[2] - 2
            assert apart or within, label
    for line in figure.lines:
        for (x0, y0), (x1, y1) in pairwise(line):
            for left, top, right, bottom, _ in boxes:
                beside = max(x0, x1) <= left + 0.01 or min(x0, x1) >= right - 0.01
                above = max(y0, y1) <= top + 0.01 or min(y0, y1) >= bottom - 0.01
                assert beside or above, (line, (left, top, right, bottom))
    assert figure.labels and figure.lines


@pytest.mark.parametrize(
    "name", ["pretraining", *(pytest.param(name, marks=pytest.mark.full) for name in GRAPHS)]
)
def test_every_layer_but_dropouts_and_inputs_has_its_box(tmp_path, name):
    """Counted in Keras's graph: an addition with its norm is one box, or a plus in a circle."""
    from kbert.model.builder import build

    spec = GRAPHS[name]()
    config = spec.config.replace(num_hidden_layers=2, vocab_size=99)
    small = GraphSpec(
        config,
        spec.head,
        seq_len=32,
        max_predictions=spec.max_predictions,
        selected_positions=spec.selected_positions,
        packed=spec.packed,
    )
    types = [type(layer).__name__ for layer in build(small).layers]
    boxes = [kind for kind in types if kind not in ("Dropout", "InputLayer", "Add")]
    figure = draw(tmp_path, small, collapse=False)
    assert len([box for box in figure.boxes if box[4] != "frame"]) == len(boxes)
    assert len([box for box in figure.boxes if box[4] == "frame"]) == 2


@pytest.mark.full
def test_figure_is_89_mm_wide_with_8_points_in_every_format(tmp_path):
    figure = draw(tmp_path)
    assert figure.width == 89
    assert figure.sides[0] * 25.4 / 72 == pytest.approx(89, abs=0.01)  # 8 units: 8 points
    pdf = kbert.plot("base", tmp_path / "a.pdf", style="paper").read_bytes()
    (box,) = re.findall(rb"/MediaBox \[ 0 0 ([\d.]+) ([\d.]+) \]", pdf)
    assert float(box[0]) * 25.4 / 72 == pytest.approx(89)
    streams = re.findall(rb"stream\r?\n(.*?)\r?\nendstream", pdf, re.DOTALL)
    pages = [zlib.decompress(one) for one in streams if one[:1] == b"x"]
    sizes = {float(size) for page in pages for size in re.findall(rb"/F\d+ ([\d.]+) Tf", page)}
    assert sizes == {8}
    png = kbert.plot("base", tmp_path / "a.png", style="paper").read_bytes()
    assert png_size(png)[0] == pytest.approx(89 / 25.4 * 600, abs=2)
    tex = kbert.plot("base", tmp_path / "a.tex").read_text(encoding="utf-8")
    assert r"\fontsize{8bp}" in tex and "papersize={252.28bp" in tex


@pytest.mark.full
def test_a_slide_is_16_to_9(tmp_path):
    for name, options in {"graph": {}, "text": {"text": "a dog"}}.items():
        source = "base" if name == "graph" else save_vocabulary(tmp_path)
        png = kbert.plot(source, tmp_path / "a.png", layout="wide", **options).read_bytes()
        assert png_size(png) == (1920, 1080)


def luminance(colour: str) -> float:
    """Relative luminance of WCAG 2.2."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(np.multiply(linear, (0.2126, 0.7152, 0.0722)))


def test_boxes_differ_and_texts_are_readable_in_grey_print(tmp_path):
    text = kbert.plot("base", tmp_path / "a.svg", style="paper").read_text(encoding="utf-8")
    fills = dict(re.findall(r'<rect class="(\w+)"[^>]* fill="(#\w{6})"', text))
    (ink,) = re.findall(r'font-size="8" fill="(#\w{6})"', text)
    for fill in fills.values():
        assert (luminance(fill) + 0.05) / (luminance(ink) + 0.05) >= 7  # WCAG's AAA
    kinds = ("norm", "feedforward", "head", "attention")
    greys = sorted(luminance(fills[kind]) for kind in kinds)
    assert min(np.diff(greys)) > 0.04


@pytest.mark.full
@pytest.mark.parametrize("ending", ["svg", "pdf", "png", "tex"])
def test_built_model_draws_the_same_bytes_as_its_configuration(small, tmp_path, ending):
    paths = [tmp_path / f"{name}.{ending}" for name in "ab"]
    kbert.plot(small, paths[0], style="paper")
    kbert.plot(kbert.build_bert(small), paths[1], style="paper")
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_pictures_on_the_page_are_what_plot_draws(tmp_path, monkeypatch):
    """The tokens are those of bert-base-uncased, in which `playing` is one."""
    monkeypatch.syspath_prepend(ROOT / "docs")
    from from_code import paper_pictures

    paper_pictures.draw(save_vocabulary(tmp_path, tokens=["playing"]), tmp_path)
    for name in ("paper.svg", "slide.svg", "input.svg"):
        assert (tmp_path / name).read_bytes() == (paper_pictures.PAGES / name).read_bytes()


# The input of a text.


def save_vocabulary(folder, config=None, tokens=()):
    """Write a model's folder without weights."""
    words = [*dict.fromkeys(WORDS), "a", *tokens]
    tokens = ["[PAD]", "[UNK]", "[MASK]", *words]
    path = folder / "model"
    kbert.Tokenizer.from_vocab(tokens, lowercase=True).save(path)
    config = config or {"vocab_size": len(tokens), "max_position_embeddings": 16}
    (path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return path


def test_input_is_the_papers_figure_2(tmp_path):
    source = save_vocabulary(tmp_path)
    text = ("My dog is cute", "he likes playing")
    figure = draw(tmp_path, source, text=text)
    rows = [row for row in figure.rows() if len(row) >= 11]
    by_name = {row[0]: row[1:] for row in rows if len(row) == 12}
    positions, plus, segments, again, tokens = (row for row in rows if "Input" not in row)
    assert by_name["Input"] == WORDS
    assert tokens == [f"E{word}" for word in WORDS]
    assert segments == ["EA"] * 6 + ["EB"] * 5
    assert positions == [f"E{n}" for n in range(11)]
    assert plus == again == ["+"] * 11
    assert {size for label in figure.labels for size in label.sizes} == {8, 10}

    columns = {round((box[0] + box[2]) / 2, 1) for box in figure.boxes}
    assert (len(figure.boxes), len(columns)) == (44, 11)  # what is added stands in a column
    for label in figure.labels:
        left, _, right, _ = bounds(label)
        inside = [b for b in figure.boxes if b[0] < label.x < b[2] and b[1] < label.y < b[3]]
        assert all(left > box[0] + 2 and right < box[2] - 2 for box in inside), label


def test_a_model_without_segments_has_no_row_of_them(tmp_path):
    tokens = len(save_vocabulary(tmp_path / "other").joinpath("vocab.txt").read_text().split())
    source = save_vocabulary(tmp_path, DISTILBERT | {"vocab_size": tokens})
    figure = draw(tmp_path, source, text="my dog")
    text = " ".join(label.text for label in figure.labels)
    assert len(figure.boxes) == 3 * 4 and "EA" not in text and "Segment" not in text


def test_a_familys_first_position_is_its_own(tmp_path):
    """RoBERTa's positions begin after its padding token's id: at 2 (fairseq, transformers)."""
    tokenizer = kbert.Tokenizer.load(save_vocabulary(tmp_path))
    config = kbert.BertConfig(vocab_size=99, model_type="roberta", pad_token_id=1)
    bert = kbert.Bert(config, "encoder", None, tokenizer)
    text = " ".join(label.text for label in draw(tmp_path, bert, text="my dog").labels)
    assert re.findall(r"E(\d+)", text) == ["2", "3", "4", "5"]


def test_a_long_text_continues_in_bands_of_a_page(tmp_path):
    config = {"vocab_size": 99, "max_position_embeddings": 128}
    figure = draw(tmp_path, save_vocabulary(tmp_path, config), text="my dog is cute " * 25)
    assert figure.width <= 183
    text = [label.text for label in figure.labels]
    assert text.count("Input") > 2 and f"E{25 * 4 + 1}" in text
    wide = draw(tmp_path, tmp_path / "model", text="my dog is cute " * 25, layout="wide")
    assert wide.width / wide.height == pytest.approx(16 / 9, abs=0.001)


@pytest.mark.full
@pytest.mark.parametrize("ending", ["png", "pdf"])
def test_letters_that_no_font_has_are_said(tmp_path, messages, ending):
    source = save_vocabulary(tmp_path, tokens=["\N{EGYPTIAN HIEROGLYPH A001}"])
    kbert.plot(source, tmp_path / f"a.{ending}", text="my dog")
    assert not messages
    kbert.plot(source, tmp_path / f"a.{ending}", text="my \N{EGYPTIAN HIEROGLYPH A001}")
    (warning,) = messages
    check_named(warning, "font")


NO_VOCABULARY = {
    "preset": lambda folder: "base",
    "configuration": lambda folder: kbert.base,
    "folder": lambda folder: folder / "model",
    "model": lambda folder: GraphSpec.of("tiny"),
}


@pytest.mark.parametrize("source", NO_VOCABULARY)
def test_a_text_needs_a_vocabulary(tmp_path, source):
    for file in save_vocabulary(tmp_path).iterdir():
        if file.name != "config.json":
            file.unlink()
    with raises(ValueError, "vocabulary") as raised:
        kbert.plot(NO_VOCABULARY[source](tmp_path), tmp_path / "a.svg", text="a")
    assert "\n" not in str(raised.value) and not (tmp_path / "a.svg").exists()


def test_vocabulary_comes_with_a_checkpoint_of_another_format(tmp_path):
    tokens = save_vocabulary(tmp_path)
    config = kbert.BertConfig(**SIZES)
    tokenizer = kbert.Tokenizer.load(tokens)
    bert = kbert.Bert(config, "encoder", kbert.build_encoder(config), tokenizer)
    kbert.save(bert, tmp_path / "preset", format="keras_hub")
    paths = [tmp_path / f"{name}.svg" for name in "ab"]
    kbert.plot(tmp_path / "preset", paths[0], text="my dog", lowercase=True)
    kbert.plot(bert, paths[1], text="my dog")
    assert paths[0].read_bytes() == paths[1].read_bytes()


WRONG = {
    "style": ({"style": "papr"}, "a.svg", ["style", "paper", "'papr'"]),
    "layout": ({"layout": "broad"}, "a.svg", ["layout", "wide", "'broad'"]),
    "dot": ({"style": "paper"}, "a.dot", [".dot"]),
    "wide dot": ({"layout": "wide"}, "a.dot", ["wide"]),
    "full tex": ({"style": "full"}, "a.tex", ["paper"]),
    "too many": ({"text": ["a", "a", "a"]}, "a.svg", ["got 3"]),
    "too long": ({"text": "a " * 20}, "a.svg", ["16"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_options_of_a_figure_are_refused(tmp_path, name):
    options, output, says = WRONG[name]
    with raises(ValueError, *says):
        kbert.plot(save_vocabulary(tmp_path), tmp_path / output, **options)
    assert not (tmp_path / output).exists()


def test_another_functional_model_is_refused(tmp_path):
    import keras

    inputs = keras.Input((5,))
    model = keras.Model(inputs, keras.layers.Dense(3)(inputs))
    with raises(ValueError, "style"):
        kbert.plot(model, tmp_path / "a.svg", style="paper")


@pytest.mark.full
def test_paper_figures_need_no_graphviz(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pygraphviz", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    for ending in ("svg", "pdf", "png", "tex"):
        assert kbert.plot("tiny", tmp_path / f"a.{ending}", style="paper").stat().st_size > 0
