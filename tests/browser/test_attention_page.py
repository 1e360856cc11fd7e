"""The page of an attention map in a real browser: each view, by mouse and by keyboard."""

import numpy as np
import pytest
from helpers.attention_maps import random_map

from kbert.io import palette
from kbert.tasks.attention.page import writing

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def found():
    """Two layers, three heads, two sentences of 9 and 4 words."""
    return random_map(9, 4)


@pytest.fixture(scope="module")
def file(found, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "attention.html"
    return found.save(path, layer=2, head=1, special="whole")


def marked(page, selector: str) -> list[str]:
    return page.locator(selector).all_inner_texts()


def test_head_thumbnails_are_chosen_by_mouse_and_keys(open_page, file, found):
    page = open_page(file)
    thumbnails = page.locator("#thumbnails button")
    assert thumbnails.count() == 6 and page.locator("#thumbnails [aria-pressed=true]").count() == 1
    # a pixel of a canvas is a weight: white is none, and the largest is darkest
    pixels = page.evaluate(
        "() => { const c = document.querySelectorAll('#thumbnails canvas')[4];"
        "return [c.width, c.height, ...c.getContext('2d').getImageData(0, 0, 16, 16).data]; }"
    )
    assert pixels[:2] == [16, 16]
    red = np.array(pixels[2:]).reshape(16, 16, 4)[..., 0]
    order = np.argsort(found.weights[1, 1].ravel())
    assert red.ravel()[order[-1]] == red.min() < red.ravel()[order[0]] == 255
    thumbnails.nth(4).click()
    assert set(marked(page, ".where")) == {"layer 3, head 2"}
    for key in ("ArrowUp", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    assert set(marked(page, ".where")) == {"layer 2, head 5"}
    assert page.evaluate("location.hash") == "#layer=2&head=5"
    page.get_by_label("Next layer").click()
    page.select_option("#head", label="1")
    assert set(marked(page, ".where")) == {"layer 3, head 1"}


def test_token_shows_its_attention_both_ways(open_page, file, found):
    page = open_page(file, "#layer=3&head=2")
    assert set(marked(page, ".where")) == {"layer 3, head 2"}
    weights = found.weights[1, 1]
    page.locator("#from button").nth(4).hover()
    best = int(weights[4].argmax())
    said = page.locator("#line-readout").inner_text()
    assert said.startswith(
        f"{found.tokens[4]} attends to {found.tokens[best]} {weights[4, best]:.2f}"
    )
    numbers = page.locator("#to button i").all_inner_texts()
    wanted = [f"{weight:.2f}" if weight >= 0.01 else "" for weight in weights[4]]
    assert numbers == wanted
    lines = page.locator("#strokes g:not([style*=none]) path")
    for root in (70, 20):  # the slider's place: the root of the smallest weight that is drawn
        page.locator("#least").fill(str(root))
        page.locator("#from button").nth(3).hover()
        page.locator("#from button").nth(4).hover()
        assert lines.count() == (weights[4] >= (root / 100) ** 2).sum()
    page.locator("#to button").nth(2).click()
    page.locator("#from button").nth(7).hover()  # what is held stays
    best = int(weights[:, 2].argmax())
    said = page.locator("#line-readout").inner_text()
    assert said.startswith(f"{found.tokens[2]} is attended to by {found.tokens[best]} ")
    page.keyboard.press("Escape")
    assert "Point at a token" in page.locator("#line-readout").inner_text()
    page.locator("#from button").first.focus()
    page.keyboard.press("ArrowDown")
    assert page.locator("#line-readout").inner_text().startswith(f"{found.tokens[1]} attends to")


def test_heads_are_drawn_together_in_colours(open_page, file):
    page = open_page(file)

    def colours() -> set:
        script = "all => all.map(one => getComputedStyle(one).stroke)"
        return set(page.locator("#strokes g:not([style*=none]) path").evaluate_all(script))

    assert len(colours()) == 1
    page.get_by_role("button", name="all", exact=True).click()
    assert len(colours()) == 3
    # each head's lines end at a height of their own in a token's row
    ends = "all => all.map(one => one.getAttribute('d').match(/[\\d.]+(?=M|$)/g).map(y => y % 1))"
    paths = page.locator("#strokes g:not([style*=none]) path").evaluate_all(ends)
    assert {round(end, 3) for path in paths for end in path} == {0.25, 0.5, 0.75}
    page.get_by_role("button", name="Head 2", exact=True).click()
    assert len(colours()) == 2
    count = page.locator("#strokes g:not([style*=none]) path").count()
    page.locator("#least").fill("90")
    assert page.locator("#strokes g:not([style*=none]) path").count() < count


def test_cls_and_sep_are_hidden_and_sentences_chosen(open_page, file, found):
    page = open_page(file)

    def sides() -> tuple:
        return tuple(marked(page, f"#{side} button span") for side in ("from", "to"))

    assert sides() == (found.tokens, found.tokens)
    page.get_by_label("[CLS] and [SEP]").uncheck()
    words = [token for token in found.tokens if token[0] != "["]
    assert sides() == (words, words)
    for name, first, second in (
        ("A → B", slice(9), slice(9, 13)),
        ("B → A", slice(9, 13), slice(9)),
    ):
        page.get_by_label(name).check(force=True)
        assert sides() == (words[first], words[second])
        rows, columns = (len(words[part]) for part in (first, second))
        label = page.locator("#heat").get_attribute("aria-label")
        assert f"{rows} tokens attend to {columns};" in label
        size = "one => [one.height, one.width]"
        assert page.locator("#thumbnails canvas").first.evaluate(size) == [rows, columns]


def test_an_empty_choice_is_said(open_page, tmp_path):
    page = open_page(random_map(0).save(tmp_path / "empty.html"))
    assert page.get_by_label("[CLS] and [SEP]").is_checked()  # there is nothing else
    page.get_by_label("[CLS] and [SEP]").uncheck()
    assert page.locator("#from button").count() == 0
    assert "Nothing is left" in page.locator("#line-readout").inner_text()
    assert "Nothing is left" in page.locator("#heat-readout").inner_text()


def test_heat_map_reads_out_by_mouse_and_keys(open_page, file, found):
    page = open_page(file, "#layer=2&head=5")
    canvas, readout = page.locator("#heat"), page.locator("#heat-readout")
    canvas.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    weights = found.weights[0, 2]
    assert readout.inner_text().endswith(f"{weights[2, 1]:.4f}")
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + box["width"] - 3, box["y"] + box["height"] - 3)
    page.mouse.move(box["x"] + box["width"] - 4, box["y"] + box["height"] - 4)
    assert readout.inner_text() == (
        f"[SEP] (token 16) attends to [SEP] (token 16): {weights[15, 15]:.4f}"
    )
    page.get_by_text("This head as a table").click()
    page.locator("#as-table tbody tr").last.wait_for()
    rows = marked(page, "#as-table tbody tr")
    assert len(rows) == 16
    best = int(weights[3].argmax())
    assert f"{found.tokens[best]} ({best + 1}) {weights[3, best]:.2f}" in rows[3]


def test_a_query_and_its_keys_make_the_score(open_page, file, found):
    page = open_page(file, "#layer=3&head=2")
    page.select_option("#query", "5")
    rows = page.locator("#vectors tbody tr")
    assert rows.count() == 13  # the query, and 12 keys
    scores = found.keys[1, 1] @ found.queries[1, 1, 5] / np.sqrt(7)
    order = np.argsort(-found.weights[1, 1, 5], kind="stable")[:12]
    shown = [float(text) for text in marked(page, "#vectors tbody tr[data-place] td:nth-child(4)")]
    np.testing.assert_allclose(shown, scores[order], atol=0.03 * np.abs(scores).max())
    page.select_option("#keys", "")
    assert rows.count() == 17
    page.locator("#vectors button").nth(3).click()
    page.locator("#by-dimension summary").click()
    page.locator("#by-dimension tbody tr").last.wait_for()
    cells = [float(text) for text in marked(page, "#by-dimension td:nth-child(4)")]
    wanted = found.queries[1, 1, 5] * found.keys[1, 1, 3]
    np.testing.assert_allclose(cells, wanted, atol=0.02 * np.abs(wanted).max())
    page.locator("#vectors canvas").nth(2).hover()
    assert page.locator("#vector-readout").inner_text().startswith("Dimension 4 of 7: query ")
    page.locator("#from button").nth(2).click()  # a token that is held is the query
    assert page.locator("#query").input_value() == "2"


def test_the_table_is_sorted_by_each_column(open_page, file, found):
    page = open_page(file)
    figures = found.statistics()
    name = {f"{one.layer} · {one.head}": one for one in figures}

    def heads() -> list:
        return [name[text] for text in marked(page, "#figures tbody button")]

    assert heads() == figures
    page.get_by_role("button", name="entropy", exact=True).click()
    assert heads() == sorted(figures, key=lambda one: -one.entropy)
    assert page.locator("#figures th").nth(2).get_attribute("aria-sort") == "descending"
    page.get_by_role("button", name="entropy", exact=True).click()
    assert heads() == sorted(figures, key=lambda one: one.entropy)
    page.get_by_role("button", name="share to [SEP]").click()
    assert heads() == sorted(figures, key=lambda one: -one.shares["[SEP]"])
    page.locator("#figures tbody button").first.click()
    assert marked(page, "#h-heat .where") == [f"layer {heads()[0].layer}, head {heads()[0].head}"]


def test_heads_with_a_pattern_are_marked_on_the_page(open_page, tmp_path):
    found = random_map(9, 4)
    found.weights[1, 2] = np.eye(16, k=1) + np.eye(16) * (np.arange(16) == 15)
    page = open_page(found.save(tmp_path / "page.html"))
    last = page.locator("#thumbnails button").last
    assert "→" in last.inner_text()
    assert "looks at the next token" in last.get_attribute("aria-label")
    assert "the next token: 1 head" in page.locator("#legend").inner_text()
    rule = page.locator("#rule").inner_text()
    assert "more than 50 %" in rule and "Clark et al. 2019" in rule


def test_page_of_many_tokens_draws_what_it_holds(open_page, tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "WHOLE", 1000)
    found = random_map(50, 34)
    page = open_page(found.save(tmp_path / "many.html", layer=2, head=1, special="whole"))
    assert "87 tokens are many" in page.locator("#notes").inner_text()
    assert page.locator("#thumbnails canvas").first.evaluate("one => one.width") == 64
    weights = found.weights[0, 0]
    page.locator("#heat").focus()
    page.keyboard.press("ArrowDown")
    for _ in range(int(weights[0].argmin())):
        page.keyboard.press("ArrowRight")
    said = page.locator("#heat-readout").inner_text()
    assert "not among the 16 largest of its row" in said and "at most 0.0" in said
    page.get_by_label("A → B").check(force=True)
    size = page.locator("#thumbnails canvas").first.evaluate("one => [one.height, one.width]")
    assert size == [-(-52 * 64 // 87), 64 - 52 * 64 // 87]


def test_a_page_of_one_layer_and_head_and_no_vectors(open_page, tmp_path):
    found = random_map(5, layers=(3,), heads=(2,), queries=None, keys=None, special=())
    page = open_page(found.save(tmp_path / "one.html"))
    assert "vectors=True" in page.locator("#no-vectors").inner_text()
    assert (
        not page.locator("#with-vectors, #layer, #special, #direction")
        .locator("visible=true")
        .count()
    )


def test_two_pages_of_a_notebook_do_not_disturb_each_other(open_page, tmp_path, found):
    other = random_map(5, layers=(1, 4), heads=(1, 3))
    cells = "<hr>".join(one._repr_html_() for one in (found, other))
    notebook = tmp_path / "notebook.html"
    notebook.write_text(f'<!doctype html><html lang="en"><title>n</title>{cells}', encoding="utf-8")
    page = open_page(notebook)
    first, second = (page.frame_locator("iframe").nth(n) for n in (0, 1))
    second.locator("#thumbnails button").nth(3).click()
    assert set(second.locator(".where").all_inner_texts()) == {"layer 4, head 3"}
    assert set(first.locator(".where").all_inner_texts()) != {"layer 4, head 3"}
    assert first.locator("#from button").count() == 13  # words, without [CLS] and [SEP]
    assert second.locator("#from button").count() == 5


@pytest.mark.parametrize(("width", "scheme"), [(400, "light"), (1280, "dark")])
def test_axe_finds_nothing_and_nothing_is_wider_than_the_window(
    open_page, find_violations, file, width, scheme
):
    page = open_page(file, width=width, height=900, scheme=scheme)
    page.locator("#from button").nth(3).click()
    for details in page.locator("summary").all():
        details.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert find_violations(page) == []


def test_it_prints_light_and_without_controls(open_page, file):
    page = open_page(file, scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.locator("#controls").is_hidden()
    corner = "one => [...one.getContext('2d').getImageData(0, 0, 16, 16).data]"
    pixels = page.locator("#thumbnails canvas").first.evaluate(corner)
    assert max(pixels[::4]) == 255  # white, where there is no weight
    style = page.evaluate(
        "(({ color, backgroundColor }) => [color, backgroundColor])"
        "(getComputedStyle(document.body))"
    )
    ink = tuple(bytes.fromhex(palette.INK.light.removeprefix("#")))
    assert style == [f"rgb{ink}", "rgb(255, 255, 255)"]
