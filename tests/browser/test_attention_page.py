"""The page of kbert explore at its attention view, in a real browser: by mouse and by keyboard."""

import re

import numpy as np
import pytest
from helpers.attention_maps import random_map
from helpers.sizes import SIZES
from helpers.small_berts import small_bert

import kbert
from kbert.show.explorer.explore import explore_recorded
from kbert.show.explorer.live import attention_weights

pytestmark = pytest.mark.full

TEXT, PAIR = "red cat big tree sun", ("the dog", "it was big")
LAYER = "Encoder-{}-MultiHeadSelfAttention"


@pytest.fixture(scope="module")
def bert():
    return small_bert(kbert.BertConfig(**SIZES), "pretraining")


@pytest.fixture(scope="module")
def found(bert):
    """Three layers, four heads."""
    return kbert.attention(bert, TEXT)


@pytest.fixture(scope="module")
def file(bert, found, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "attention.html"
    return explore_recorded(bert, [TEXT, PAIR], path, title="small", start=found.address()).path


@pytest.fixture
def open_view(open_page):
    def open_view(path, fragment="", **options):
        page = open_page(path, fragment, **{"height": 1400} | options)
        page.wait_for_selector("#stage h2")
        page.wait_for_function("document.querySelectorAll('[data-token]').length > 0")
        return page

    return open_view


def read_percent(text: str) -> float:
    """A percentage as a fraction."""
    return float(text.replace("%", "").replace("<", "").replace(">", "")) / 100


def read_lines(page) -> list[float]:
    """The weights beside the tokens that are asked; those below 1 % are not written."""
    texts = page.locator(".line-to i").all_inner_texts()
    return [read_percent(text) if text else 0.0 for text in texts]


def check_lines(page, weights) -> None:
    shown = [weight if weight >= 0.01 else 0 for weight in weights]
    np.testing.assert_allclose(read_lines(page), shown, atol=0.0006)


def test_page_opens_at_a_telling_head_with_its_lines(open_view, file, found):
    page = open_view(file)
    layer, head = map(int, re.search(r"-(\d+)-.*head-(\d+)", found.address()).groups())
    assert f"Head {head} of 4" in page.locator("#stage h2").inner_text()
    assert page.locator("[data-key=hide]").is_checked()
    assert page.locator("#guide").is_hidden()
    weights = found.weights[layer - 1, head - 1]
    assert page.locator(".line-from span").all_inner_texts() == TEXT.split()
    telling = weights[1:-1, 1:-1].max(1).argmax()
    check_lines(page, weights[1 + telling, 1:-1])
    page.locator(".line-from button").nth(3).hover()
    check_lines(page, weights[4, 1:-1])
    said = page.locator(".line-said").inner_text()
    hidden = read_percent(re.search(r"hidden tokens hold (.*)", said)[1])
    assert hidden == pytest.approx(weights[4, [0, -1]].sum(), abs=0.001)
    share = re.search(r"([\d.]+ %) to \[CLS\] and \[SEP\], which are hidden", sees(page))
    assert read_percent(share[1]) == pytest.approx(weights[:, [0, -1]].sum(-1).mean(), abs=0.001)
    page.locator("[data-key=hide]").uncheck()
    assert page.locator(".line-from span").all_inner_texts() == found.tokens
    assert "hidden" not in sees(page) + page.locator(".line-said").inner_text()
    page.locator(".line-from button").nth(6).focus()
    check_lines(page, weights[6])


def sees(page) -> str:
    return page.locator(".stage-sees").inner_text()


def test_lines_are_drawn_from_the_smallest_weight_on(open_view, file, found):
    page = open_view(file, f"#{LAYER.format(2)}/head-3")
    page.locator(".line-from button").nth(2).hover()
    weights = found.weights[1, 2]
    assert page.locator(".own-lines path").count() == (weights[2] >= 0.005).sum()
    ends = "all => all.map(one => one.getAttribute('d').split('M').length - 1)"
    drawn = sum(page.locator(".all-lines path").evaluate_all(ends))
    assert drawn == (weights >= 0.02).sum()


def test_heads_of_all_blocks_are_chosen_by_mouse_and_keys(open_view, file, found):
    page = open_view(file, f"#{LAYER.format(2)}/head-3&heads=all")
    heads = page.locator(".head-grid button")
    assert heads.count() == 12
    assert page.locator(".head-grid [aria-pressed=true]").get_attribute("data-key") == "all-2-2"
    # a pixel of a canvas is a weight: the largest is the most blue, its red the least
    pixels = page.evaluate(
        "() => { const c = document.querySelector('[data-key=all-3-1] canvas');"
        "return [c.width, c.height, ...c.getContext('2d').getImageData(0, 0, 7, 7).data]; }"
    )
    assert pixels[:2] == [7, 7]
    red = np.array(pixels[2:]).reshape(49, 4)[:, 0]
    order = np.argsort(found.weights[2, 1].ravel())
    assert (np.diff(red[order]) <= 0).all() and red[order[-1]] < red[order[0]]
    page.locator("[data-key=all-3-1]").click()
    assert "Head 2 of 4" in page.locator("#stage h2").inner_text()
    check_hash(page, f"{LAYER.format(3)}/head-2&heads=all")
    for key in ("ArrowDown", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    check_hash(page, f"{LAYER.format(2)}/head-3&heads=all")
    page.locator("[data-key=all-heads]").click()
    page.wait_for_function("document.querySelectorAll('.head-grid button').length === 4")
    chosen = page.locator(".head-grid [aria-pressed=true]")
    assert chosen.get_attribute("aria-label").startswith("Block 2, head 3")


def check_hash(page, text: str) -> None:
    page.wait_for_function(
        "text => decodeURIComponent(location.hash.slice(1)) === text", arg=text, timeout=5000
    )


def test_all_of_the_state_is_in_the_address(open_view, file, bert):
    page = open_view(file)
    page.select_option("#examples", "1")
    page.wait_for_function("document.querySelectorAll('[data-token]').length === 8")
    page.locator("[data-key=hide]").uncheck()
    page.locator("[data-key=all-3-0]").click()
    page.locator(".line-from button").nth(2).click()
    page.locator(".line-to button").nth(5).click()
    page.wait_for_function("/to=5/.test(location.hash) && /token=2/.test(location.hash)")
    page.wait_for_function("/text=the%20dog&pair=it/.test(location.hash)")
    before = describe(page)
    page.reload()
    page.wait_for_selector("#stage h2")
    page.wait_for_function("document.querySelectorAll('[data-token]').length === 8")
    assert describe(page) == before
    assert before[1:4] == [False, "2", "5"]
    check_lines(page, kbert.attention(bert, *PAIR).weights[2, 0, 2])


def describe(page) -> list:
    return [
        page.locator("#stage h2").inner_text(),
        page.locator("[data-key=hide]").is_checked(),
        *(page.locator(f"#stage select[data-key={key}]").input_value() for key in ("token", "to")),
        page.locator(".head-grid [aria-pressed=true]").get_attribute("data-key"),
        page.locator("#text").input_value(),
    ]


def test_a_view_that_is_closed_stays_closed(open_view, file):
    page = open_view(file)
    page.keyboard.press("Escape")
    page.wait_for_function("location.hash.startsWith('#&') || location.hash === '#-'")
    page.reload()
    page.wait_for_selector("[data-token]")
    assert page.locator("#stage-area").is_hidden()


def test_the_table_has_the_weights_of_a_token(open_view, file, found):
    page = open_view(file, f"#{LAYER.format(1)}/head-2&token=4")
    page.locator(".stage-numbers summary").click()
    page.wait_for_selector(".stage-table tbody tr")
    rows = page.locator(".stage-numbers tbody tr").all()
    cells = [row.locator("th, td").all_inner_texts() for row in rows]
    assert [row[0] for row in cells] == found.tokens
    shown = [read_percent(row[2]) for row in cells]
    np.testing.assert_allclose(shown, found.weights[0, 1, 4], atol=0.0006)


def test_a_map_has_its_weights_queries_and_keys(open_view, tmp_path):
    found = random_map(9, 4)
    page = open_view(found.save(tmp_path / "map.html", layer=3, head=2, special="whole"))
    assert "Head 2 of 5" in page.locator("#stage h2").inner_text()
    assert page.locator(".head-grid button").count() == 6
    assert not page.locator(".sum, .panel, #table").locator("visible=true").count()
    check_lines(page, found.weights[1, 1, 1])
    card = page.locator(".stage-card", has_text="1 The score").locator(".arithmetic math")
    to = int(page.locator("#stage select[data-key=to]").input_value())
    assert to == found.weights[1, 1, 1].argmax()
    score = found.queries[1, 1, 1] @ found.keys[1, 1, to] / np.sqrt(7)
    text = card.text_content().split("=")[-1].strip().replace("−", "-")
    assert float(text) == pytest.approx(score, rel=0.005, abs=0.005)
    for layer in ("Embedding-Token", "Input-Token", "Encoder-1-FeedForward"):
        page.evaluate("layer => { location.hash = layer; }", layer)
        page.wait_for_function(
            "layer => document.querySelector('.stage-place span').textContent === layer", arg=layer
        )
        assert "not recorded" in sees(page)


def test_a_map_of_one_head_without_queries(open_view, tmp_path):
    found = random_map(5, layers=(3,), heads=(2,), queries=None, keys=None, special=())
    page = open_view(
        found.save(tmp_path / "one.html"), f"#{LAYER.format(3)}/head-2&token=0&heads=all"
    )
    assert "Head 2 of 2" in page.locator("#stage h2").inner_text()
    assert page.locator(".head-grid button").count() == 1
    assert page.locator(".map-figure").count() == 1
    assert page.locator("[data-key=hide]").count() == 0  # there is nothing to hide
    page.locator(".stage-numbers summary").click()
    page.wait_for_selector(".stage-table tbody tr")
    row = page.locator(".stage-numbers tbody tr").first.locator("th, td").all_inner_texts()
    assert row[1] == "not recorded"
    assert read_percent(row[2]) == pytest.approx(found.weights[0, 0, 0, 0], abs=0.0006)


def test_page_of_many_tokens_draws_what_it_holds(open_view, tmp_path, monkeypatch):
    monkeypatch.setattr(attention_weights, "WHOLE", 1000)
    found = random_map(50, 34)
    page = open_view(found.save(tmp_path / "many.html", layer=2, head=1, special="whole"))
    assert "16 largest weights" in page.locator("#source-line").inner_text()
    assert page.locator(".head-grid canvas").first.evaluate("one => one.width") == 48
    largest = np.sort(found.weights[0, 0, 1])[-3:]
    np.testing.assert_allclose(sorted(read_lines(page))[-3:], largest, atol=0.0006)


def test_two_maps_of_a_notebook_do_not_disturb_each_other(open_page, tmp_path):
    maps = random_map(9, 4), random_map(5, layers=(1, 4), heads=(1, 3))
    cells = "<hr>".join(one._repr_html_() for one in maps)
    notebook = tmp_path / "notebook.html"
    notebook.write_text(f'<!doctype html><html lang="en"><title>n</title>{cells}', encoding="utf-8")
    page = open_page(notebook)
    first, second = (page.frame_locator("iframe").nth(n) for n in (0, 1))
    before = first.locator("#stage h2").inner_text()
    second.locator("[data-key=all-4-2]").click()
    assert "Head 3 of 3" in second.locator("#stage h2").inner_text()
    assert first.locator("#stage h2").inner_text() == before
    assert first.locator(".line-from button").count() == 13  # words, without [CLS] and [SEP]
    assert second.locator(".line-from button").count() == 5


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1280, "dark")])
def test_axe_finds_nothing_and_nothing_is_wider_than_the_window(
    open_view, find_violations, file, width, scheme
):
    page = open_view(file, width=width, height=900, scheme=scheme)
    for details in page.locator("#stage summary").all()[1:]:
        details.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert find_violations(page) == []


def test_a_recorded_sentence_cannot_be_changed(open_view, file):
    """Neither by a key or a drag nor by an address."""
    page = open_view(file)
    before = page.locator("[data-token]").all_inner_texts()
    page.locator("[data-token='1']").focus()
    page.keyboard.press("Alt+ArrowRight")
    words = [page.locator(f"[data-token='{place}']") for place in (1, 3)]
    words[0].drag_to(words[1])
    page.wait_for_timeout(500)
    assert page.locator("[data-token]").all_inner_texts() == before
    page.reload()
    page.wait_for_selector("[data-token]")
    assert page.locator("[data-token]").all_inner_texts() == before

    changed = "off=Embedding-Position&temperature=2&frozen=zebra"
    page = open_view(file, f"#{LAYER.format(1)}&text=zebra&{changed}")
    assert page.locator("[data-token]").all_inner_texts() == before
    assert page.locator("#changed").is_hidden() and page.locator("#frozen-line").is_hidden()
