"""The explorer's start: three cards, and a tour whose chapters are about the model at hand."""

import re

import pytest
from helpers.sentence_pages import write_live_page

import kbert
from kbert.graph.spec import GraphSpec
from kbert.heads import HEADS_WITH_LABELS

pytestmark = pytest.mark.full

TITLES = [
    *("Words become numbers", "Three vectors added", "Norm", "A question to every word"),
    *("2 heads", "Mix and keep", "The feed-forward layer", "What comes out", "What it costs"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tour")


@pytest.fixture(scope="module")
def still(folder):
    """A page without a sentence."""
    return kbert.explore("tiny", folder / "tiny.html").path


@pytest.fixture(scope="module")
def live(folder):
    return write_live_page(folder / "live.html", "tiny")


def title(page) -> str:
    """Return the shown chapter's title, without its number."""
    return page.locator("#guide-title").evaluate("(one) => one.firstChild.data")


def test_a_page_begins_with_cards_that_close_and_come_back(open_page, live, still):
    page = open_page(live)
    cards = page.locator("[data-card]")
    names = [card.get_attribute("data-card") for card in cards.all()]
    assert names == ["watch", "cost", "compare"]
    page.locator("[aria-label='Close the cards']").click()
    assert cards.count() == 0 and page.evaluate("document.activeElement.id") == "start"
    page.keyboard.press("Enter")
    assert cards.count() == 3
    assert page.locator("#start").get_attribute("aria-expanded") == "true"
    page.goto("about:blank")
    page.goto(f"{live.as_uri()}#Embedding-Norm")  # a link has something else to show
    assert page.locator("#panel-title").inner_text() == "Embedding-Norm" and cards.count() == 0
    page = open_page(still)
    names = [card.get_attribute("data-card") for card in page.locator("[data-card]").all()]
    assert names == ["cost", "compare"]


@pytest.mark.parametrize("width", [390, 1280])
def test_each_card_leads_where_it_says(open_page, live, width):
    page = open_page(live, width=width)
    page.locator("[data-card=watch]").click()
    assert title(page) == TITLES[0]
    page.locator("[aria-label='Leave the tour']").click()
    page.locator("#start").click()
    page.locator("[data-card=cost]").click()
    assert page.locator("#total-unit").inner_text() == "forward"
    assert page.locator("#slider-L").is_visible()
    assert page.evaluate("document.activeElement.id") == "side-title"
    page.keyboard.press("Escape")
    page.locator("#start").click()
    page.locator("[data-card=compare]").click()
    assert page.locator("#B-preset").input_value() == "mini"
    assert page.locator("[data-total=B-params]").is_visible()


def test_tour_has_eight_chapters_and_the_costs(open_page, live):
    page = open_page(live)
    page.locator("#tour").click()
    for place, name in enumerate(TITLES):
        assert title(page) == name
        assert page.evaluate("document.activeElement.id") == "guide-title"
        assert page.locator(".chapters [aria-current]").get_attribute("href").strip() != ""
        text = page.locator(".chapter p").inner_text()
        assert len(re.findall(r"\.(?=\s|$)", text)) == 2, text  # sentences
        assert page.locator(".task p").inner_text().endswith(".")
        number = "and then" if place == 8 else f"{place + 1} of 8"
        assert number in page.locator("#guide-title").inner_text()
        if place < 8:
            page.locator("[aria-label='Next chapter']").click()
    assert page.locator("#total-unit").inner_text() == "forward"
    page.locator("[aria-label='Chapter before']").click()
    assert page.locator("#total-unit").inner_text() == "parameters"
    page.go_back()
    page.locator("#guide-title:has-text('What it costs')").wait_for()


def test_a_chapters_link_leads_to_its_state(open_page, live):
    page = open_page(live, "#&chapter=words&token=3")
    links = {
        one.get_attribute("aria-label"): one.get_attribute("href")
        for one in page.locator(".chapters a").all()
    }
    assert len(links) == 9
    chosen = {"Chapter 5: 2 heads": "heads", "Chapter 7: The feed-forward layer": "FeedForward"}
    for name, layer in chosen.items():
        other = open_page(live, links[name])
        assert title(other) == name.split(": ")[1]
        assert other.url.split("#")[1].split("&")[0].endswith(layer)
        assert other.locator(".node.chosen").count() == 1
        assert other.locator("[data-token='3']").get_attribute("aria-pressed") == "true"
        assert other.locator("[data-card]").count() == 0


def test_without_a_sentence_only_the_chapters_that_make_sense(open_page, still):
    page = open_page(still)
    assert "6 chapters" in page.locator("#tour").inner_text()
    page.locator("#tour").click()
    seen = []
    while True:
        seen.append(title(page))
        task = page.locator(".task p").inner_text()
        assert not re.search(r"sentence|type|point at|swap|\[MASK\]", task, re.IGNORECASE), task
        if not page.locator("[aria-label='Next chapter']").count():
            break
        page.locator("[aria-label='Next chapter']").click()
    assert seen == [name for name in TITLES if name not in ("Norm", "Mix and keep")]
    page.get_by_role("button", name="End").click()
    assert page.locator("#guide").is_hidden()


def test_chapters_have_the_models_numbers_and_follow_its_sizes(open_page, still):
    account = kbert.account("tiny")
    page = open_page(still, "#&chapter=feedforward")
    layers = [row.params for row in account.rows if row.layer.endswith("-FeedForward")]
    text = page.locator(".chapter p").inner_text()
    assert f"{100 * sum(layers) / account.params:.1f} % of the parameters" in text
    assert "128 numbers become 512" in text
    page.locator("#A-FFD").fill("1024")
    assert "128 numbers become 1,024" in page.locator(".chapter p").inner_text()
    page.locator("[aria-label='Chapter 4: 2 heads']").click()
    assert "2 questions at once" in page.locator(".chapter p").inner_text()
    assert "64 numbers each" in page.locator(".chapter p").inner_text()
    page.locator("#A-A").fill("16")
    assert title(page) == "16 heads" and "8 numbers" in page.locator(".chapter p").inner_text()
    page.locator("#A-A").fill("1")
    assert title(page) == "One head" and "128 numbers" in page.locator(".chapter p").inner_text()
    page.locator("[aria-label='Then: What it costs']").click()
    page.locator("#A-S").fill("64")
    page.locator("#A-FFD").fill("512")
    flops = kbert.account("tiny", 64).flops
    assert (
        f"1 × 64 tokens takes {flops / 1e6:.0f} MFLOPs" in page.locator(".chapter p").inner_text()
    )


def test_a_chapter_of_another_kind_of_page_is_not_shown(open_page, still):
    page = open_page(still, "#Embedding-Token&chapter=norm")
    assert page.locator("#guide").is_hidden()
    assert page.locator("#panel-title").inner_text() == "Embedding-Token"


def test_each_chapter_begins_with_the_whole_model(open_page, live):
    """What one chapter switches off or freezes stays on reload, and is gone in the next one."""
    page = open_page(
        live,
        "#&chapter=heads&off=Encoder-1-MultiHeadSelfAttention/head-1&temperature=2&frozen=A%20dog",
    )
    page.locator("#tokens [data-token]").first.wait_for()
    page.reload()
    page.locator("#changed").wait_for()
    changed = page.locator("#changed").inner_text()
    assert title(page) == "2 heads" and "head 1" in changed and "temperature 2" in changed
    links = [one.get_attribute("href") for one in page.locator(".chapters a").all()]
    assert not any(re.search("off=|temperature=|frozen=", link) for link in links)
    page.locator("[aria-label='Next chapter']").click()
    assert page.locator("#changed").is_hidden()
    assert page.locator("#freeze").inner_text() == "Freeze"
    assert not re.search("off=|temperature=|frozen=", page.url)


def test_the_stage_has_the_details_room_in_a_chapter(open_page, live):
    page = open_page(live, "#Embedding-Norm&chapter=norm")
    page.locator("#stage h2").wait_for()
    assert page.locator("#panel").is_hidden()
    bottom = "(one) => one.getBoundingClientRect().bottom"
    assert page.locator("#stage-area").evaluate(bottom) == page.locator(".app").evaluate(bottom)
    page.locator("[aria-label='Leave the tour']").click()
    assert page.locator("#panel-title").is_visible()


def test_a_phone_has_a_way_to_what_a_chapter_speaks_of(open_page, live):
    page = open_page(live, "#&chapter=words", width=390, height=844)
    page.locator("#tokens [data-token]").first.wait_for()
    page.locator("[aria-label^='Chapter 8']").click()
    box = page.locator("#text").bounding_box()
    guide = page.locator("#guide").bounding_box()
    assert guide["y"] + guide["height"] <= box["y"] < 600  # the field is in sight
    page.locator("[aria-label^='Chapter 3']").click()
    page.get_by_role("button", name="Show the numbers").click()
    assert page.locator("#stage h2").is_visible()
    page.locator("[aria-label^='Then']").click()
    page.get_by_role("button", name="Show the sliders").click()
    assert page.locator("#slider-S").is_visible()


@pytest.mark.parametrize("head", ["tokens", "qa"])
def test_last_chapter_shows_a_layer_of_the_models_head(open_page, folder, head):
    labels = {"num_labels": 7} if head in HEADS_WITH_LABELS else {}
    spec = GraphSpec.of("tiny", head, **labels)
    page = open_page(kbert.explore(spec, folder / f"{head}.html").path, "#&chapter=words")
    page.locator("[aria-label$='What comes out']").click()
    chosen = page.locator("#panel-title").inner_text()
    rows = [row.layer for row in kbert.account("tiny", head=head, **labels).rows]
    assert chosen in rows and not chosen.startswith("Encoder")
    assert ("7" in page.locator(".chapter p").inner_text()) == bool(labels)


def test_nothing_is_to_be_typed_where_sentences_are_recorded(open_page, folder):
    page = open_page(
        write_live_page(folder / "recorded.html", "tiny", place="recorded"), "#&chapter=words"
    )
    for _ in range(7):
        task = page.locator(".task p").inner_text()
        assert "Point at a token" in task
        page.locator("[aria-label='Next chapter']").click()


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_axe_finds_nothing_in_cards_and_chapters(open_page, find_violations, live, width, scheme):
    page = open_page(live, width=width, scheme=scheme)
    page.locator("#tokens button").first.wait_for()
    assert find_violations(page) == []
    page.locator("[data-card=watch]").click()
    assert find_violations(page) == []


def test_scripts_of_every_kind_of_page_go_together(open_page, folder):
    """Wherever the model computes: no name is declared twice."""
    for place in ("recorded", "served", "beside"):
        page = open_page(write_live_page(folder / f"{place}.html", "tiny", place=place))
        page.locator("#tokens [data-token]").first.wait_for()
