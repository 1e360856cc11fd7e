"""The pages of an attribution in a browser: its title, its numbers, light and dark, on a phone."""

import numpy as np
import pytest
from helpers.sizes import SIZES
from helpers.small_berts import small_bert

import kbert
from kbert.cli.view_pages import write_attribution
from kbert.tasks.attribution.attribution import Attribution

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    found = Attribution(
        ["[CLS]", "red", "cat", "[SEP]"],
        np.array([0, 0.5, -0.25, 0], "float32"),
        target="a <label>",
        value=0.75,
        baseline_value=0.5,
        error=0.0,
        steps=7,
        texts=("red  cat",),
        offsets=((0, 0), (0, 3), (5, 8), (0, 0)),
        segments=(0, 0, 0, 0),
        word_ids=(None, 0, 1, None),
        baseline="[MASK]",
        similar_to="a <dog>",
    )
    return found.save(tmp_path_factory.mktemp("page") / "why.html")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_tells_what_was_attributed_and_each_score(open_page, find_violations, file, scheme):
    page = open_page(file, width=390, scheme=scheme)
    assert page.locator("h1").inner_text() == "What counts for a <label>: 0.7500"
    assert page.locator("td:visible").all_inner_texts() == ["red", "+0.5000", "cat", "-0.2500"]
    notes = page.locator("figcaption").inner_text()
    for part in ("Compared with: a <dog>", "[MASK] for every token, 0.5000", "sum to +0.2500"):
        assert part in notes
    # the largest is blue at 0.75, half of it orange at half of that, whatever is behind
    colours = "all => all.map(one => getComputedStyle(one).backgroundColor)"
    assert page.locator("p span").evaluate_all(colours) == [
        "rgba(9, 105, 218, 0.75)",
        "rgba(188, 76, 0, 0.376)",
    ]
    brightness = page.evaluate("getComputedStyle(document.querySelector('p')).color")
    assert brightness == {"light": "rgb(0, 0, 0)", "dark": "rgb(255, 255, 255)"}[scheme]
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert find_violations(page) == []


@pytest.fixture(scope="module")
def explained(tmp_path_factory):
    """An attribution, and the page of kbert explore that shows it."""
    bert = small_bert(kbert.BertConfig(**SIZES), "classifier")
    found = kbert.attribute(bert, "the\tred cat", "it was\n<big>", steps=5)
    path = tmp_path_factory.mktemp("page") / "why.html"
    write_attribution(bert, "small", found, path)
    return found, path


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1280, "dark")])
def test_the_explorer_shows_what_counts(open_page, find_violations, explained, width, scheme):
    found, path = explained
    page = open_page(path, width=width, scheme=scheme)
    page.wait_for_selector(".attribution")
    texts = page.locator(".attribution p").all_inner_texts()
    assert (
        texts[:3] == [found.title(), "the red cat", "it was <big>"] and texts[-2:] == found.notes()
    )
    page.locator(".scores summary").click()
    shown = page.locator(".scores tr").evaluate_all(
        "all => all.map(one => [one.children[0].textContent, one.children[1].textContent])"
    )
    columns = zip(found.tokens, found.scores, found.word_ids, strict=True)
    wanted = [(token, score) for token, score, word in columns if word is not None]
    assert [token for token, _ in shown] == [token for token, _ in wanted]
    numbers = [float(text.replace("−", "-")) for _, text in shown]
    np.testing.assert_allclose(numbers, [score for _, score in wanted], atol=6e-5)
    # blue counts for it, orange against it: of the strongest token by the sign of its score
    marks = page.locator("[data-token]").evaluate_all(
        "all => all.map(one => one.style.getPropertyValue('--score').includes('--in'))"
    )
    strongest = int(np.abs(found.scores).argmax())
    assert marks[strongest] == (found.scores[strongest] > 0)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert find_violations(page) == []
