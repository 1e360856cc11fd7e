"""A sentence in the explorer's figure: columns, strips, changes, and what the address keeps."""

import dataclasses
import re

import numpy as np
import pytest
from helpers.live_pages import data_of, write_live_checkpoint
from helpers.sentence_pages import write_live_page
from helpers.sizes import SIZES
from helpers.small_berts import small_bert
from safetensors.numpy import load_file, save_file

import kbert

pytestmark = pytest.mark.full

TEXT = "The animal did not cross the street"
# The colours of a box's strip in the middle of each token's column, as bytes: read from the canvas
# over the figure, at the places of the box and of the tokens that a reader sees.
READ_STRIP = """id => {
  const canvas = document.querySelector("#heat");
  const room = canvas.getBoundingClientRect();
  const box = document.querySelector(`[data-id="${id}"]`).getBoundingClientRect();
  const scale = canvas.width / room.width;
  const copy = new OffscreenCanvas(canvas.width, canvas.height);
  const context = copy.getContext("2d", { willReadFrequently: true });
  context.drawImage(canvas, 0, 0);
  return [...document.querySelectorAll("[data-token]")].map((token) => {
    const place = token.getBoundingClientRect();
    const x = Math.round((place.left + place.width / 2 - room.left) * scale);
    const y = Math.round((box.top + box.height / 2 - room.top) * scale);
    return [...context.getImageData(x, y, 1, 1).data].join(" ");
  });
}"""
# The same in the first word's column, of each half of the strip's height.
READ_ROWS = """id => {
  const canvas = document.querySelector("#heat");
  const room = canvas.getBoundingClientRect();
  const box = document.querySelector(`[data-id="${id}"]`).getBoundingClientRect();
  const word = document.querySelector("[data-token='1']").getBoundingClientRect();
  const scale = canvas.width / room.width;
  const copy = new OffscreenCanvas(canvas.width, canvas.height);
  const context = copy.getContext("2d", { willReadFrequently: true });
  context.drawImage(canvas, 0, 0);
  return [0.3, 0.7].map((part) => {
    const x = Math.round((word.left + word.width / 2 - room.left) * scale);
    const y = Math.round((box.top + box.height * part - room.top) * scale);
    return [...context.getImageData(x, y, 1, 1).data].join(" ");
  });
}"""


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_live_page(tmp_path_factory.mktemp("live") / "page.html")


@pytest.fixture
def open_sentence(open_page, path):
    def open_sentence(fragment="#", **options):
        page = open_page(path, f"{fragment}&text={TEXT.replace(' ', '%20')}", **options)
        page.wait_for_selector("[data-token]")
        page.wait_for_timeout(200)  # the wave is over
        return page

    return open_sentence


def tokens(page) -> list[str]:
    return page.locator("[data-token]").all_inner_texts()


def runs(page) -> list[dict]:
    return page.evaluate("made.runs")


def settle(page):
    page.wait_for_timeout(700)  # of the run, the wave and the address


def test_tokens_stand_in_the_columns_of_every_strip(open_sentence):
    """The same word has the same colours, another word has others; nothing is left empty."""
    page = open_sentence(height=1400)
    page.locator("#text").fill(text := "not one animal did see an animal")
    page.wait_for_function("document.querySelectorAll('[data-token]').length === 9")
    settle(page)
    assert tokens(page) == ["[CLS]", *text.split(), "[SEP]"]
    lefts = [one.bounding_box()["x"] for one in page.locator("[data-token]").all()]
    assert lefts == sorted(lefts)
    for box in ("Embedding-Token", "Embedding-Norm", "encoder", "MLM-Norm"):
        colours = page.evaluate(READ_STRIP, box)
        assert colours[3] == colours[7] and len(set(colours)) > 6
        assert all(not colour.endswith(" 0") for colour in colours)
    # the first token alone goes into the head for the next sentence
    extract = page.evaluate(READ_STRIP, "Extract")
    assert not extract[0].endswith(" 0") and all(c.endswith(" 0") for c in extract[2:-1])


def test_each_keystroke_runs_the_newest_text_and_no_queue(open_sentence):
    page = open_sentence()
    before = len(runs(page))
    page.locator("#text").evaluate("""input => {
      for (const letter of " because") {
        input.value += letter;
        input.dispatchEvent(new Event("input", { bubbles: true }));
      }
    }""")
    page.wait_for_function("document.querySelectorAll('[data-token]').length === 10")
    settle(page)
    assert [request["text"] for request in runs(page)[before:]] == [f"{TEXT} ", f"{TEXT} because"]
    assert tokens(page)[-2] == "because"
    page.reload()
    page.wait_for_selector("[data-token]")
    assert tokens(page)[-2] == "because"


@pytest.mark.parametrize("part", ["open=0.5", "open=-1", "open=1e99", "token=0.5", "to=-7"])
def test_numbers_that_are_none_of_an_address_are_left_out(open_sentence, part):
    page = open_sentence(f"#&{part}")
    assert tokens(page)[1] == "The"
    page.locator("#freeze").click()  # the address is written again
    settle(page)
    assert part not in page.url


def test_what_is_off_is_named_once(open_sentence):
    attention = "Encoder-1-MultiHeadSelfAttention"
    off = [f"{attention}/head-2", f"{attention}/head-2", f"{attention}/head-01", "Encoder-1-"]
    off += ["Encoder-01-FeedForward-Add", "Encoder-1-FeedForward-Add", "Encoder-9-FeedForward-Add"]
    page = open_sentence(f"#&off={','.join(off)}")
    asked = runs(page)[-1]["off"]
    assert (asked["heads"], asked["residuals"]) == ([[1, 2]], ["Encoder-1-FeedForward-Add"])


def test_a_second_sentence_that_was_removed_stays_so(open_page, tmp_path):
    path = write_live_page(tmp_path / "page.html", sentences=["the animal\tit was not"])
    page = open_page(path)
    page.wait_for_selector("[data-token]")
    assert tokens(page).count("[SEP]") == 2
    page.locator("#remove-pair").click()
    settle(page)
    assert tokens(page) == ["[CLS]", "the", "animal", "[SEP]"]
    page.reload()
    page.wait_for_selector("[data-token]")
    assert tokens(page) == ["[CLS]", "the", "animal", "[SEP]"]
    assert page.locator("#pair-line").is_hidden()
    page.locator("#add-pair").click()  # an empty one is something else
    settle(page)
    page.reload()
    page.wait_for_selector("[data-token]")
    assert page.locator("#pair-line").is_visible()


def test_half_of_a_letter_neither_breaks_the_address_nor_the_page(open_sentence):
    page = open_sentence()
    page.evaluate("""() => {
      const field = document.querySelector("#text");
      field.value = "the \\ud800 animal";
      field.dispatchEvent(new Event("input", { bubbles: true }));
    }""")
    settle(page)
    assert "%EF%BF%BD" in page.url and "animal" in tokens(page)


# The page's clock stands still, at wave.at; its next frame waits in wave.act.
HOLD_CLOCK = """() => {
  const frame = window.requestAnimationFrame.bind(window);
  window.wave = { at: 1 };
  performance.now = () => wave.at;
  window.requestAnimationFrame = (act) => frame(() => { wave.act = act; });
}"""
OTHER_TEXT = "A river was not near extraordinary"  # a longer token: the figure is resized
IS_OTHER = "document.querySelector('[data-token=\"2\"]').innerText === 'river'"


def test_wave_goes_from_bottom_to_top_in_150_ms_and_not_with_less_motion(open_sentence):
    """Early in it, the lowest box has new colours and the highest one still its old ones."""
    page = open_sentence(height=1400)
    boxes = ["Embedding-Token", "MLM-Norm"]
    old = [page.evaluate(READ_STRIP, box) for box in boxes]
    page.evaluate(HOLD_CLOCK)

    def colours_at(milliseconds):
        page.evaluate(f"wave.at = {milliseconds}; wave.act()")
        return [page.evaluate(READ_STRIP, box)[2] for box in boxes]

    page.locator("#text").fill(OTHER_TEXT)
    page.wait_for_function(f"{IS_OTHER} && wave.act !== undefined")
    low, high = colours_at(45)
    assert low != old[0][2] and high == old[1][2]
    end = colours_at(152)
    assert end[1] != old[1][2]

    page = open_sentence(height=1400)
    page.emulate_media(reduced_motion="reduce")
    page.evaluate(HOLD_CLOCK)
    page.locator("#text").fill(OTHER_TEXT)
    page.wait_for_function(IS_OTHER)
    assert [page.evaluate(READ_STRIP, box)[2] for box in boxes] == end


def test_token_is_lit_kept_and_swapped_by_keys_and_by_hand(open_sentence):
    page = open_sentence()
    animal, the = (page.locator(f"[data-token='{n}']") for n in (2, 6))
    dark = page.evaluate(READ_STRIP, "Embedding-Norm")
    animal.hover()
    assert "lit" in animal.get_attribute("class")
    lit = page.evaluate(READ_STRIP, "Embedding-Norm")
    assert [n for n, (a, b) in enumerate(zip(dark, lit, strict=True)) if a != b] == [2]
    animal.click()
    page.mouse.move(5, 5)
    assert animal.get_attribute("aria-pressed") == "true"
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.dataset.token") == "3"
    page.keyboard.press("Alt+ArrowRight")
    page.wait_for_function("document.querySelector('[data-token=\"3\"]').innerText === 'not'")
    assert page.locator("#text").input_value() == "The animal not did cross the street"
    box, to = animal.bounding_box(), the.bounding_box()
    page.mouse.move(box["x"] + 5, box["y"] + 8)
    page.mouse.down()
    page.mouse.move(to["x"] + 5, to["y"] + 8, steps=5)
    page.mouse.up()
    page.wait_for_function("document.querySelector('[data-token=\"2\"]').innerText === 'the'")
    assert page.locator("#text").input_value() == "The the not did cross animal street"


def test_what_is_off_reaches_the_model_and_can_be_reset(open_sentence):
    page = open_sentence("#Encoder-2-MultiHeadSelfAttention/heads")
    page.get_by_role("button", name="head 2 of block 2", exact=True).first.click()
    page.get_by_label("Temperature of the attention").fill("0.3")
    page.evaluate("location.hash.length")
    for name, switch in {
        "Encoder-1-FeedForward-Add": "feed-forward residual of block 1",
        "Encoder-1-MultiHeadSelfAttention": "attention of block 1",
        "Embedding-Position": "positions",
    }.items():
        page.locator("#search").fill(name)
        page.locator("#search").press("Enter")
        page.get_by_role("button", name=f"Switch off: {switch}").click()
    settle(page)
    request = runs(page)[-1]
    assert request["off"] == {
        "heads": [[2, 2]],
        "attention": [1],
        "residuals": ["Encoder-1-FeedForward-Add"],
        "positions": True,
    }
    assert request["temperature"] == pytest.approx(10**0.3, abs=0.01)
    page.reload()
    page.wait_for_selector("[data-token]")
    assert runs(page)[-1] == request
    page.locator("#changed").get_by_role("button", name="Reset").click()
    settle(page)
    assert runs(page)[-1]["temperature"] == 1 and not any(runs(page)[-1]["off"].values())
    assert "off=" not in page.evaluate("location.hash")


def test_frozen_sentence_is_compared_token_by_token(open_sentence):
    """Same words have no difference, also where they moved; an address opens the same."""
    page = open_sentence(height=1400)
    page.get_by_role("button", name="Freeze").click()
    page.locator("#text").fill("The big animal did not cross the road")
    page.wait_for_function("document.querySelector('[data-token=\"2\"]').innerText === 'big'")
    settle(page)
    colours = page.evaluate(READ_STRIP, "Embedding-Token")
    differ = [
        token for token, colour in zip(tokens(page), colours, strict=True) if colour != colours[1]
    ]
    assert differ == ["big", "road"]
    # [CLS] is the same token at the same position here: its vector is too
    assert page.locator(".cosine b").inner_text() == "1.000"
    page.reload()
    page.wait_for_selector("[data-token]")
    settle(page)
    assert page.evaluate(READ_STRIP, "Embedding-Token") == colours
    assert TEXT in page.locator("#frozen-line").inner_text()


def test_arrow_keys_scrub_through_the_blocks(open_sentence):
    page = open_sentence()
    for key, shown in (("ArrowUp", 1), ("ArrowUp", 2), ("ArrowUp", 2), ("ArrowDown", 1)):
        page.keyboard.press(key)
        assert page.locator(".f-block .name").text_content() == f"Encoder {shown} of 2"


def test_long_sentence_needs_no_scroll_and_a_cut_one_says_so(open_sentence, open_page, tmp_path):
    page = open_sentence()
    page.locator("#text").fill(" ".join(["word"] * 62))
    page.wait_for_function("document.querySelectorAll('[data-token]').length === 64")
    room, last = (page.locator(one).bounding_box() for one in (".middle", "[data-token='63']"))
    assert last["x"] + last["width"] <= room["x"] + room["width"] and last["width"] >= 3
    assert "cut" not in page.locator("#run-status").inner_text()
    page.locator("#text").fill(" ".join(["word"] * 600))
    page.wait_for_function("document.querySelectorAll('[data-token]').length === 512")
    assert "512" in page.locator("#run-status").inner_text()
    assert "cut" in page.locator("#run-status").inner_text()


def test_strips_are_drawn_in_a_few_milliseconds(open_sentence):
    """The picture of 16 tokens; a frame of the wave is the canvas alone."""
    page = open_sentence()
    page.locator("#text").fill(" ".join(["word"] * 14))
    page.wait_for_function("document.querySelectorAll('[data-token]').length === 16")
    settle(page)
    spent = page.evaluate("""() => {
      const times = [];
      for (let n = 0; n < 20; n += 1) {
        const began = performance.now();
        document.querySelector("[data-token='3']")
          .dispatchEvent(new PointerEvent("pointerover", { bubbles: true }));
        document.querySelector("#tokens").dispatchEvent(new PointerEvent("pointerleave"));
        times.push((performance.now() - began) / 2);
      }
      return times.sort((a, b) => a - b)[10];
    }""")
    assert spent < 20


def test_recordings_are_chosen_and_nothing_is_typed(open_page, tmp_path):
    recordings = [{"request": {"text": text, "pair": None}} for text in ("a river", "a bank")]
    path = write_live_page(
        tmp_path / "recorded.html", place="recorded", recordings=recordings, sentences=[]
    )
    page = open_page(path)
    page.wait_for_selector("[data-token]")
    assert tokens(page)[1:3] == ["a", "river"]
    assert not page.locator("#text").is_editable() and page.locator("#changes").is_hidden()
    page.locator("#examples").select_option(label="a bank")
    page.wait_for_function("document.querySelector('[data-token=\"2\"]').innerText === 'bank'")


@pytest.mark.parametrize(
    ("width", "height", "scheme"), [(390, 844, "light"), (1024, 768, "dark"), (1440, 900, "light")]
)
def test_page_with_a_sentence_is_accessible(open_sentence, find_violations, width, height, scheme):
    page = open_sentence(
        "#Encoder-1-MultiHeadSelfAttention/heads&off=Encoder-1-MultiHeadSelfAttention/head-1&token=2",
        width=width,
        height=height,
        scheme=scheme,
    )
    assert find_violations(page) == []
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= width


def test_real_model_answers_as_kbert_does(open_page, tmp_path):
    """The cosine of two sentences is that of kbert.embed's vectors."""
    bert = small_bert(kbert.BertConfig(**SIZES), "encoder")
    kbert.save(bert, tmp_path / "model")
    texts = ["red cat big tree", "sun big cat"]
    first, second = kbert.embed(bert, texts, pooling="mean")
    cosine = first @ second / np.linalg.norm(first) / np.linalg.norm(second)
    path = kbert.explore(tmp_path / "model", tmp_path / "page.html").path
    fragment = f"text={texts[1]}&frozen={texts[0]}".replace(" ", "%20")
    page = open_page(path, f"#&{fragment}")
    page.wait_for_selector(".cosine b")
    assert float(page.locator(".cosine b").inner_text()) == pytest.approx(cosine, abs=0.001)
    difference = data_of(path.read_text(encoding="utf-8"))["live"]["difference"]
    stated = page.locator("#source-line").inner_text()
    assert "int8" in stated and "on 26 texts" in stated
    hidden = float(re.search(r"hidden states differ by up to ([\d.e-]+\d)", stated)[1])
    assert hidden == pytest.approx(difference["hidden"], rel=0.06) and hidden > 0


def test_a_regression_shows_its_number_as_kbert_does(open_page, tmp_path):
    bert = small_bert(kbert.BertConfig(**SIZES), "classifier")
    bert = dataclasses.replace(bert, problem_type="regression")
    kbert.save(bert, tmp_path / "model")
    text = "red cat big tree"
    expected = {f"LABEL_{n}": value for n, value in enumerate(kbert.regress(bert, text))}
    path = kbert.explore(tmp_path / "model", tmp_path / "page.html", weights="float32").path
    page = open_page(path, f"#Classifier&text={text.replace(' ', '%20')}")
    for place in ("#outputs", "#stage"):
        rows = page.locator(f"{place} li")
        rows.first.wait_for()
        texts = [row.locator("span").all_inner_texts() for row in rows.all()]
        found = {label: float(value.replace("\u2212", "-")) for label, value in texts}
        assert found == pytest.approx(expected, abs=2e-4) and len(found) == 5


def test_a_tab_in_a_text_is_a_blank(open_sentence):
    page = open_sentence()
    page.locator("#text").fill("not\tone animal")
    settle(page)
    assert tokens(page) == ["[CLS]", "not", "one", "animal", "[SEP]"]
    assert page.locator("#pair-line").is_hidden()
    page.locator("[data-token='2']").click()
    page.get_by_role("button", name="Hide it: [MASK]").click()
    settle(page)
    assert tokens(page)[2] == "[MASK]"


@pytest.mark.parametrize("head", ["pretraining", "qa"])
def test_a_model_with_one_segment_begins_with_one_text(open_page, tmp_path, head):
    config = kbert.BertConfig(**SIZES | {"type_vocab_size": 1})
    page = open_page(write_live_page(tmp_path / "page.html", config, head))
    page.wait_for_selector("[data-token]")
    assert tokens(page).count("[SEP]") == 1
    assert page.locator("#add-pair").is_hidden() and page.locator("#pair-line").is_hidden()


def test_what_is_shown_is_frozen(open_page, path):
    """The model that is made up for the tests refuses a text with 'refused' in it."""
    page = open_page(path, "#&text=the%20cat&frozen=refused")
    page.wait_for_selector("[data-token]")
    assert tokens(page) == ["[CLS]", "the", "cat", "[SEP]"]
    assert page.locator("#frozen-line").is_hidden()
    page.locator("#text").fill("a refused text")
    settle(page)
    page.locator("#freeze").click()
    page.locator("#text").fill("the dog")
    settle(page)
    assert tokens(page) == ["[CLS]", "the", "dog", "[SEP]"]
    assert "the cat" in page.locator("#frozen-line").inner_text()


def test_an_open_block_of_an_address_is_in_sight(open_sentence):
    page = open_sentence("#&open=1", height=700)
    block = page.locator("#drawing .f-block").first.bounding_box()
    pane = page.locator("#figure").bounding_box()
    assert block["y"] >= pane["y"] - 1
    assert block["y"] < pane["y"] + pane["height"] / 2


def test_a_phone_shows_the_sentence_of_a_chapter_that_asks_to_type(open_sentence):
    page = open_sentence("#Input-Token&chapter=words", width=390, height=844)
    settle(page)
    field = page.locator("#text").bounding_box()
    assert 0 <= field["y"] < 600


def test_a_head_that_is_off_differs_from_the_frozen_sentence_alone(open_page, tmp_path):
    """With head 2 of block 1 off, the strip of its heads differs in that row only."""
    checkpoint = write_live_checkpoint(tmp_path / "bert")
    file = kbert.explore(checkpoint, tmp_path / "page.html", weights="float32").path
    text = "the%20cat%20sat%20on%20the%20mat"
    attention = "Encoder-1-MultiHeadSelfAttention"
    page = open_page(file, f"#{attention}/head-1&text={text}&frozen={text}", height=1400)
    page.wait_for_selector("[data-token]")
    page.wait_for_timeout(500)

    def read_rows() -> list[str]:
        return page.evaluate(READ_ROWS, f"{attention}/heads")

    same = read_rows()
    page.locator(f"[data-switch='{attention}/head-2']").first.click()
    page.wait_for_timeout(700)
    first, second = read_rows()
    assert first == same[0] and second != same[1]


def test_a_head_without_weights_says_nothing(open_page, tmp_path):
    """The checkpoint has an MLM head alone: its page neither answers nor explains the other."""
    checkpoint = write_live_checkpoint(tmp_path / "bert")
    weights = load_file(checkpoint / "model.safetensors")
    kept = {name: tensor for name, tensor in weights.items() if "seq_relationship" not in name}
    save_file(kept, checkpoint / "model.safetensors")
    file = kbert.explore(checkpoint, tmp_path / "page.html", weights="float32").path
    assert "nsp" not in data_of(file.read_text())["live"]["outputs"]
    page = open_page(file, "#NSP&chapter=output")
    page.wait_for_selector("[data-token]")
    assert "not trained" in page.locator("#stage").inner_text()
    assert "NSP" not in page.locator("#guide").inner_text()
