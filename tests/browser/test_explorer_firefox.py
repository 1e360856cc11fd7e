"""The explorer's page in Firefox: it draws, counts, opens sheets, and its console stays empty."""

import pytest
from helpers.firefox import Firefox, find_firefox
from helpers.sentence_pages import write_live_page

import kbert

pytestmark = pytest.mark.full

ESCAPE = "\ue00c"


@pytest.fixture(scope="module")
def firefox(tmp_path_factory):
    if find_firefox() is None:
        pytest.skip("no Firefox on PATH: apt-get install firefox-esr")
    browser = Firefox(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(autouse=True)
def _silent(firefox):
    firefox.messages.clear()
    yield
    assert firefox.messages == []


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return kbert.explore("base", tmp_path_factory.mktemp("firefox") / "base.html").path


def test_firefox_counts_and_draws(firefox, base):
    firefox.open(base, "#Encoder-7-FeedForward&measure=flops")
    total = "document.querySelector('[data-total=A-{}]').dataset.exact"
    account = kbert.account("base")
    assert int(firefox.evaluate(total.format("params"))) == account.params
    assert int(firefox.evaluate(total.format("flops"))) == account.flops
    assert firefox.evaluate("document.querySelectorAll(\"[data-layer^='Encoder-7-']\").length") == 8
    assert firefox.evaluate("document.querySelectorAll('[data-piece]').length") == 28  # 24 and 4
    firefox.click("#compare")
    assert firefox.evaluate("document.querySelector('#B-preset').value") == "large"


@pytest.mark.parametrize("width", [390, 1024, 1440, 1920])
def test_nothing_overflows_in_firefox(firefox, base, width):
    firefox.open(base, "#&chapter=heads&b.L=24", width=width)
    assert firefox.evaluate("document.scrollingElement.scrollWidth") <= width


def test_sheet_takes_and_returns_the_focus_in_firefox(firefox, base):
    firefox.open(base, "#&M=76", width=390, height=844)
    focused = "document.activeElement.id || document.activeElement.dataset.row"
    firefox.click("[data-row='Embedding-Position']")
    assert firefox.evaluate(focused) == "panel-title"
    firefox.press(ESCAPE)
    assert firefox.evaluate(focused) == "Embedding-Position"
    assert (
        firefox.evaluate("getComputedStyle(document.querySelector('.panel')).transform") != "none"
    )


def test_tour_goes_on_in_firefox_with_a_sentence(firefox, tmp_path):
    firefox.open(write_live_page(tmp_path / "live.html", "tiny"))
    firefox.click("#tour")
    title = "document.querySelector('#guide-title').firstChild.data"
    assert firefox.evaluate(title) == "Words become numbers"
    firefox.click("[aria-label='Next chapter']")
    assert firefox.evaluate(title) == "Three vectors added"
    assert firefox.evaluate("location.hash").startswith("#Embedding-Position&chapter=sum")
    tokens = "document.querySelectorAll('#tokens [data-token]').length"
    wait = "new Promise((done) => setTimeout(() => done({}), 500))"
    assert firefox.evaluate(wait.format(tokens)) == 15
