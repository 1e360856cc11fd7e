"""The explorer's page in a browser: what it draws, counts, opens, finds, saves and says."""

import csv
import importlib.util
import io
import re
import shutil
import struct
import zlib
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from helpers.explorer_pages import write_checkpoint
from helpers.marks import nightly

import kbert
from kbert.graph.closed_form import Row
from kbert.graph.reference import document_004
from kbert.io import row_formats
from kbert.show.explorer.weights import describe_layers
from kbert.show.explorer.writing import write_page

pytestmark = pytest.mark.full

STATES = {"closed": "", "first": "#&open=1", "middle": "#&open=7", "last": "#&open=12"}
STATES["attention"] = "#Encoder-7-MultiHeadSelfAttention/query"
STATES["gathered"] = "#Encoder-7-MultiHeadSelfAttention/head-3&M=76"


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return kbert.explore("base", tmp_path_factory.mktemp("explorer") / "base.html").path


def totals(page, column: str = "A") -> dict[str, int]:
    cells = page.locator(f"[data-total^='{column}-']").all()
    return {
        cell.get_attribute("data-total")[2:]: int(cell.get_attribute("data-exact"))
        for cell in cells
    }


def expected_totals(config, **options) -> dict[str, int]:
    account = kbert.account(config, **options)
    return {
        "params": account.params,
        "flops": account.flops,
        "training": account.training_flops_per_sequence,
        "kept": account.activation_bytes,
        "memory": account.memory.total,
    }


def test_block_7_opens_into_its_eight_rows(open_page, base):
    page = open_page(base)
    page.locator("[data-open='7']").click()
    drawn = page.locator("[data-layer^='Encoder-7-']")
    names = [one.get_attribute("data-layer") for one in drawn.all()]
    rows = {row.layer: row for row in document_004() if row.layer.startswith("Encoder-7-")}
    assert len(names) == 8 and set(names) == set(rows)
    for name, row in rows.items():
        told = page.locator(f"[data-id='{name}']").get_attribute("aria-label")
        assert row.output_shape in told and (not row.params or f"{row.params:,}" in told)
    assert page.locator("[data-layer^='Encoder-6-']").count() == 0
    page.locator("[data-act='attention']").first.click()
    parts = page.locator("[data-layer^='Encoder-7-MultiHeadSelfAttention/']")
    drawn = [one.get_attribute("data-layer").split("/")[1] for one in parts.all()]
    assert drawn == ["query", "key", "value", "heads", "attention_output"]
    assert page.locator("[data-head]").count() == 12
    page.locator("[data-head$='head-3']").click()
    assert "Columns 128 … 191 of W_Q" in page.locator("#panel").inner_text()
    page.locator("#fit").click()
    page.locator("[data-act='close']").click()
    assert page.locator("[data-layer='encoder']").count() == 1


def test_a_slider_and_a_field_recount_everything(open_page, base):
    page = open_page(base)
    assert totals(page) == expected_totals(kbert.base)
    page.locator("#slider-L").fill("900")
    page.locator("#A-B").fill("13")
    page.locator("#A-S").fill("301")
    page.locator("#A-M").fill("45")
    page.locator("#A-dtype").select_option("mixed_bfloat16")
    blocks = int(page.locator("#A-L").input_value())
    assert blocks != 12
    config = kbert.base.replace(num_hidden_layers=blocks)
    options = {"seq_len": 301, "batch_size": 13, "max_predictions": 45}
    assert totals(page) == expected_totals(config, **options, dtype="mixed_bfloat16")
    page.locator("#slider-H").fill("612")
    hidden, wide = (int(page.locator(f"#A-{name}").input_value()) for name in ("H", "FFD"))
    assert hidden != 768 and wide == 4 * hidden
    config = config.replace(hidden_size=hidden, intermediate_size=wide)
    assert totals(page) == expected_totals(config, **options, dtype="mixed_bfloat16")
    assert page.locator("#total").inner_text() == f"{totals(page)['params']:,}"


def test_header_has_the_chosen_measure_with_its_unit(open_page, base):
    """FLOPs in thousands, bytes in steps of 1024."""
    page, account = open_page(base), kbert.account("base")
    header = page.locator(".sum")
    assert header.inner_text() == f"{account.params:,} parameters"
    page.locator("input[value=flops]").check(force=True)
    assert header.inner_text() == f"{account.flops / 1e9:.0f} GFLOPs forward"
    page.locator("input[value=kept]").check(force=True)
    assert header.inner_text() == f"{account.activation_bytes / 2**20:.0f} MiB of activations"
    page.reload()
    assert header.inner_text() == f"{account.activation_bytes / 2**20:.0f} MiB of activations"


def test_bad_configuration_is_marked_in_its_field(open_page, base):
    with pytest.raises(ValueError) as refused:
        kbert.base.replace(num_attention_heads=11)
    page = open_page(base)
    before = totals(page)
    page.locator("#A-A").fill("11")
    assert page.locator("#A-A").get_attribute("aria-invalid") == "true"
    assert page.locator("#error-A").inner_text() == str(refused.value)
    assert totals(page) == before
    page.locator("#A-A").fill("six")
    assert "whole number" in page.locator("#error-A").inner_text()
    page.locator("#A-A").fill("16")
    assert page.locator("[aria-invalid='true']").count() == 0
    assert page.locator("#error-A").inner_text() == ""


def test_two_configurations_stand_side_by_side(open_page, base):
    page = open_page(base)
    page.locator("#compare").click()
    assert page.locator("#B-preset").input_value() == "large"
    side, sums = (page.locator(one).bounding_box() for one in (".side", "#sums table"))
    assert sums["y"] + sums["height"] < 400 and sums["width"] <= side["width"] - 32
    assert totals(page) == expected_totals(kbert.base)
    assert totals(page, "B") == expected_totals(kbert.large)
    page.locator("#B-S").fill("128")
    page.reload()
    assert totals(page, "B") == expected_totals(kbert.large, seq_len=128)
    page.locator("[data-column='1']").click()
    page.reload()
    assert page.locator("#total").inner_text() == f"{totals(page, 'B')['params']:,}"
    page.locator("#compare").click()
    assert page.locator("[id^='B-']").count() == 0


def test_a_page_names_the_configuration_that_it_shows(open_page, base):
    page = open_page(base)
    assert "base has 110M" in page.locator("#panel").inner_text()
    for letter, name in ((None, "base"), ("9", "base with L = 9"), ("large", "large")):
        if letter == "large":
            page.locator("#A-preset").select_option("large")
        elif letter:
            page.locator("#A-L").fill(letter)
            assert "110M" not in page.locator("#panel").inner_text()
        assert page.locator("#panel-title").inner_text() == name
        assert page.title().startswith(f"{name}: BERT with head pretraining, ")
    assert "340M" in page.locator("#panel").inner_text()
    page.locator("#downloads summary").click()
    with page.expect_download() as download:
        page.locator("[data-download='csv']").click()
    assert download.value.suggested_filename == "large.csv"


def test_open_block_measure_and_theme_survive_a_reload(open_page, base):
    page = open_page(base)
    page.locator("[data-open='7']").click()
    assert page.locator("#panel-title").inner_text() == "Encoder 7 of 12"
    page.locator("[data-act='attention']").first.click()
    page.locator("[name=measure][value=flops]").check(force=True)
    page.locator("#theme").click()
    page.reload()
    assert page.locator("[data-layer='Encoder-7-MultiHeadSelfAttention/query']").count() == 1
    assert page.locator("[name=measure]:checked").input_value() == "flops"
    assert "8.05 G" in page.locator("#drawing").text_content()
    assert page.locator("html").get_attribute("data-theme") == "dark"


def test_every_block_and_head_opens_by_pointer(open_page, base):
    page = open_page(base, "#&L=100&H=1280&A=128")
    page.locator("[data-open='77']").click()
    assert page.locator("#panel-title").inner_text() == "Encoder 77 of 100"
    page.locator("[data-act='attention']").first.click()
    page.locator("[data-head$='head-99']").click()
    assert page.locator("#panel-title").inner_text() == "Head 99 of 128"
    page.locator("#A-L").fill("1000")  # a mark per 8 blocks: of 78, 86, …
    page.locator("#fit").click()
    page.locator("[data-open='974']").click()
    assert page.locator("#panel-title").inner_text() == "Encoder 974 of 1000"


def test_the_table_comes_into_view_when_it_is_opened(open_page, base):
    page = open_page(base)
    page.locator("#table > summary").click()
    page.wait_for_function("scrollY > 300")
    assert page.locator("#rows tbody tr").nth(9).bounding_box()["y"] < 860


def test_texts_are_narrowed_and_never_stretched(open_page, base):
    """In letters of 8 pixels everything fits; in 15 much does not."""
    page = open_page(base, "#&open=7")
    assert page.evaluate(INSIDE)["wrong"] == []
    for size, narrowed in ((8, False), (15, True)):
        css = f"#drawing text, #drawing tspan {{ font-size: {size}px !important }}"
        page.add_style_tag(content=css)
        page.locator("[name=measure][value=flops]").check(force=True)
        page.locator("[name=measure][value=params]").check(force=True)
        assert bool(page.locator("#drawing [textLength]").count()) == narrowed


NAMES = {
    "bert/encoder/layer_6/intermediate/dense/kernel": "Encoder-7-FeedForward",
    "encoder.layer.11.attention.output.LayerNorm.weight": "Encoder-12-MultiHeadSelfAttention-Norm",
    "cls/predictions/output_bias": "MLM-Sim",
    "token_embedding/embeddings": "Embedding-Token",
    "embedding-tok": "Embedding-Token",
    "encoder-3 wq": "W_Q",
}


def test_search_finds_a_layer_by_any_of_its_names(open_page, base):
    page = open_page(base)
    for typed, layer in NAMES.items():
        page.keyboard.press("/")
        page.keyboard.insert_text(typed)
        page.keyboard.press("Enter")
        assert page.locator("#panel-title").inner_text() == layer
        page.locator("#fit").focus()
    page.keyboard.press("/")
    page.keyboard.insert_text("nothing like it")
    assert page.locator("#found").inner_text() == "Nothing of that name"


def test_connections_are_followed_and_the_address_goes_along(open_page, base):
    page = open_page(base, "#Encoder-7-FeedForward-Norm")
    page.get_by_role("button", name="Encoder-8-MultiHeadSelfAttention-Add").last.click()
    assert page.locator("#panel-title").inner_text() == "Encoder-8-MultiHeadSelfAttention-Add"
    assert page.url.endswith("#Encoder-8-MultiHeadSelfAttention-Add")
    read_from = "[document.activeElement.id, document.querySelector('#panel').scrollTop]"
    assert page.evaluate(read_from) == ["panel-title", 0]
    title = "#panel-title:text-is('{}')"
    page.go_back()
    page.locator(title.format("Encoder-7-FeedForward-Norm")).wait_for()
    page.go_forward()
    page.locator(title.format("Encoder-8-MultiHeadSelfAttention-Add")).wait_for()
    page.locator("#A-L").fill("9")
    page.reload()
    assert page.locator("#panel-title").inner_text() == "Encoder-8-MultiHeadSelfAttention-Add"
    assert page.locator("#A-L").input_value() == "9"
    assert page.locator("[data-layer^='Encoder-8-']").count() == 8


def test_pointed_at_layer_lights_its_inputs_and_outputs(open_page, base):
    page = open_page(base, "#&open=7")
    page.locator("[data-id='Encoder-7-MultiHeadSelfAttention-Norm']").hover()
    lit = {
        way: {one.get_attribute("data-layer") for one in page.locator(f".node.{way}").all()}
        for way in ("in", "out")
    }
    ends = "(all) => all.map((one) => [one.dataset.from, one.dataset.to])"
    own = "Encoder-7-MultiHeadSelfAttention-Norm"
    into, out = (page.eval_on_selector_all(f".edge.{way}", ends) for way in ("in", "out"))
    assert into == [["Encoder-7-MultiHeadSelfAttention-Add", own]]
    assert {target for source, target in out if source == own} == lit["out"] and len(out) == 2
    assert lit["in"] == {"Encoder-7-MultiHeadSelfAttention-Add"}
    assert lit["out"] == {"Encoder-7-FeedForward", "Encoder-7-FeedForward-Add"}


def test_the_keyboard_reaches_everything(open_page, base):
    page = open_page(base)
    page.locator("#fit").focus()
    page.keyboard.press("Tab")
    assert "node" in page.evaluate("document.activeElement.parentNode.className.baseVal")
    seen = set()
    for key in ["ArrowDown"] * 3 + ["ArrowUp"] * 12:
        page.keyboard.press(key)
        seen.add(page.evaluate("document.activeElement.dataset.id"))
    assert len(seen) > 8
    page.locator("[data-id='encoder']").focus()
    page.keyboard.press("Enter")
    page.locator("#open-number").fill("5")
    page.keyboard.press("Enter")
    assert page.locator("[data-layer^='Encoder-5-']").count() == 8
    page.keyboard.press("Escape")
    page.locator("#fit").focus()
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    assert page.locator("[data-layer='encoder']").count() == 1


INSIDE = """() => {
  const svg = document.querySelector("#drawing");
  const outer = svg.getBoundingClientRect();
  const out = (box, room, by) => box.left < room.left - by || box.right > room.right + by ||
    box.top < room.top - by || box.bottom > room.bottom + by;
  const wrong = [];
  let drawn = 0;
  for (const one of svg.querySelectorAll("rect, path, text, line")) {
    drawn += 1;
    if (out(one.getBoundingClientRect(), outer, 0.5)) wrong.push(one.outerHTML);
  }
  for (const node of svg.querySelectorAll(".node")) {
    const room = node.querySelector(".box").getBoundingClientRect();
    const texts = [...node.querySelectorAll("text")]
      .map((one) => [one, one.getBoundingClientRect()]);
    for (const [one, box] of texts) {
      if (out(box, room, 1)) wrong.push("leaves its box: " + one.textContent);
      for (const [other, far] of texts) {
        const apart = box.right <= far.left + 1 || far.right <= box.left + 1 ||
          box.bottom <= far.top + 3 || far.bottom <= box.top + 3;
        if (one !== other && !apart) wrong.push(one.textContent + " over " + other.textContent);
      }
    }
  }
  return { drawn, wrong };
}"""


@pytest.mark.parametrize(
    "state",
    [
        *("closed", "attention", "gathered"),
        *(nightly(name) for name in ("first", "middle", "last")),
    ],
)
def test_drawing_stays_in_viewbox_and_texts_in_boxes(open_page, base, state):
    page = open_page(base, STATES[state])
    for measure in ("params", "flops", "kept"):
        page.locator(f"[name=measure][value={measure}]").check(force=True)
        found = page.evaluate(INSIDE)
        assert found["drawn"] > 80 and found["wrong"] == []
    page.locator("#A-H").fill("122880")  # numbers as long as they get
    page.locator("#A-T").fill("2147483647")
    assert page.evaluate(INSIDE)["wrong"] == []


def downloaded(page, kind: str) -> bytes:
    page.locator("#downloads summary").click()
    with page.expect_download() as download:
        page.locator(f"[data-download='{kind}']").click()
    return Path(download.value.path()).read_bytes()


def test_downloads_are_complete(open_page, base, tmp_path):
    page = open_page(base, "#Encoder-7-FeedForward&L=9", scheme="dark")
    config = kbert.base.replace(num_hidden_layers=9)
    text = downloaded(page, "csv").decode()
    assert text == row_formats.to_csv(kbert.account(config).rows)
    assert len(list(csv.reader(io.StringIO(text)))) == 1 + 16 + 8 * 9
    (tmp_path / "bert_config.json").write_bytes(downloaded(page, "config"))
    assert kbert.BertConfig.from_json(tmp_path / "bert_config.json") == config
    svg = downloaded(page, "svg").decode()
    root = ElementTree.fromstring(svg)
    texts = {one.text for one in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"FeedForward", "4,722,432", "Encoder 7 of 9"} <= texts
    assert "class=" not in svg and "var(" not in svg and "style=" not in svg
    (tmp_path / "alone.svg").write_text(svg, encoding="utf-8")
    picture = downloaded(page, "png")
    sides = struct.unpack(">II", picture[16:24])
    assert sides == tuple(round(2 * float(root.get(side))) for side in ("width", "height"))
    assert len(colours(picture)) > 20


def colours(png: bytes, step: int = 97) -> set[bytes]:
    """The colours in every so many pixels, near enough: filters are left as they are."""
    parts, place = [], 8
    while place < len(png):
        (size,) = struct.unpack(">I", png[place : place + 4])
        if png[place + 4 : place + 8] == b"IDAT":
            parts.append(png[place + 8 : place + 8 + size])
        place += 12 + size
    raw = zlib.decompress(b"".join(parts))
    return {raw[place : place + 4] for place in range(0, len(raw) - 4, 4 * step)}


@pytest.mark.parametrize(
    ("scheme", "count"),
    [("light", 3), ("dark", 1), nightly("dark", 3)],
)
def test_axe_finds_nothing_serious(open_page, find_violations, base, scheme, count):
    states = ["", "#Encoder-7-MultiHeadSelfAttention/head-2&b.L=24&A=11&open=7", "#NSP-Dense"]
    for place, fragment in enumerate(states[:count]):
        page = open_page(base, fragment, scheme=scheme, width=[1280, 1280, 400][place])
        if place == 2:
            page.locator("#table > summary").click()
            page.locator("#rows table").wait_for()
        assert find_violations(page) == []


@pytest.mark.parametrize("width", [400, 1280, 1920, *(nightly(n) for n in (800, 2560))])
def test_a_page_of_any_width_scrolls_only_down(open_page, base, width):
    page = open_page(base, "#Encoder-7-FeedForward", width=width)
    assert page.evaluate("document.scrollingElement.scrollWidth") <= width
    figure = page.locator("#layers" if width == 400 else "#figure").bounding_box()
    assert figure["width"] > 0.3 * width and figure["height"] > 400


def test_there_is_text_where_there_are_no_fonts(open_page, launch, base, tmp_path):
    """With one font of mathematical signs, that is: with none at all Chromium does not start."""
    fonts = Path(importlib.util.find_spec("matplotlib").origin).parent / "mpl-data/fonts/ttf"
    shutil.copy(fonts / "cmex10.ttf", tmp_path)
    settings = tmp_path / "fonts.conf"
    settings.write_text(f"<fontconfig><dir>{tmp_path}</dir></fontconfig>", encoding="utf-8")
    page = open_page(base, browser=launch(FONTCONFIG_FILE=str(settings)))
    page.wait_for_function("document.fonts.status === 'loaded' && [...document.fonts].length")
    assert page.evaluate("[...document.fonts].map((one) => one.status)") == ["loaded"]
    for place in ("h1", "#panel-title", "[data-layer='NSP'] .name", "#A-L"):
        picture = page.locator(place).first.screenshot()
        assert len(colours(picture, 1)) > 40, place


def test_the_button_changes_light_and_dark(open_page, base):
    page = open_page(base)
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(paper)
    page.locator("#theme").click()
    dark = page.evaluate(paper)
    assert light == "rgb(255, 255, 255)" and dark != light
    page.emulate_media(color_scheme="dark")
    page.locator("#theme").click()
    assert page.evaluate(paper) == light


def test_it_prints_with_its_table(open_page, base):
    page = open_page(base)
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("#rows tbody tr").count() == 112
    assert not page.locator("#search").is_visible()
    figure, box = (page.locator(one).bounding_box() for one in ("#drawing", "[data-id='NSP']"))
    assert figure["height"] > 700 and figure["y"] < box["y"] < figure["y"] + figure["height"]
    assert len(re.findall(rb"/Type\s*/Page\b", page.pdf())) >= 3


def test_a_checkpoints_weights_are_shown(open_page, small, tmp_path):
    arrays = write_checkpoint(tmp_path / "saved", small, "encoder")
    path = kbert.explore(tmp_path / "saved", tmp_path / "weights.html").path
    page = open_page(path, "#NSP-Dense")
    text = page.locator("#panel").inner_text()
    for place, variable in ((0, "kernel"), (1, "bias")):
        numbers = arrays[f"NSP-Dense/{variable}"].astype("float64")
        shown = {"mean": numbers.mean(), "deviation": numbers.std()}
        for name, value in (shown | {"norm": np.linalg.norm(numbers)}).items():
            found = re.findall(rf"{name}\s+(\S+)", text)[place]
            assert float(found) == pytest.approx(value, rel=1e-3), name
    assert page.locator(".histogram rect").count() == 64
    page.locator("#table > summary").click()
    page.locator("#rows table").wait_for()  # its event comes after the click
    assert page.locator("#rows tbody tr").count() == 8 + 8 * 3 + 2


def test_another_model_is_drawn_as_it_is(open_page, tmp_path):
    rows = [
        Row("<b>given", "InputLayer", "(None, 7)", 0, ""),
        Row("wide & 'deep'", "Dense", "(None, 5)", 40, "<b>given[0][0]"),
        Row("other", "Dense", "(None, 5)", 40, "<b>given[0][0]"),
        Row("sum", "Add", "(None, 5)", 0, "wide & 'deep'[0][0], other[0][0]"),
    ]
    data = {"title": "</script>own", "origin": "a built model", **describe_layers(rows)}
    path = tmp_path / "own.html"
    path.write_text(write_page("own", data, ["", "0", "40"]), encoding="utf-8")
    page = open_page(path)
    assert "not a graph that kbert builds" in page.locator("#panel").inner_text()
    assert page.locator(".node").count() == 4
    page.locator("[data-layer=\"wide & 'deep'\"]").click()
    assert page.locator("#panel .big b").inner_text() == "40"
    page.get_by_role("button", name="<b>given", exact=True).last.click()
    page.reload()
    assert page.locator("#panel-title").inner_text() == "<b>given"
    assert page.evaluate(INSIDE)["wrong"] == []


def test_three_pages_of_a_notebook_do_not_disturb_each_other(open_page, tmp_path):
    shown = [kbert.explore(name)._repr_html_() for name in ("tiny", "base", "mini")]
    outputs = [text.replace('loading="lazy"', "") for text in shown]
    path = tmp_path / "notebook.html"
    path.write_text(f"<!doctype html><title>a notebook</title>{''.join(outputs)}", encoding="utf-8")
    page = open_page(path)
    frames = [page.frame_locator("iframe").nth(place) for place in range(3)]
    frames[1].locator("[data-open='7']").click()
    frames[2].locator("#A-L").fill("9")
    shown = [frame.locator("#total").inner_text() for frame in frames]
    counts = [kbert.account(one).params for one in ("tiny", "base")]
    counts.append(kbert.account(kbert.PRESETS["mini"].replace(num_hidden_layers=9)).params)
    assert shown == [f"{count:,}" for count in counts]
    opened = [frame.locator("[data-layer^='Encoder-7-']").count() for frame in frames]
    assert opened == [0, 8, 0]
