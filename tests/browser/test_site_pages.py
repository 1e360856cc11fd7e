"""The site's pages, as the gate has built them, from the disk: narrow and wide, light and dark."""

import itertools
import re

import pytest
from helpers.marks import nightly
from helpers.sizes import ROOT

pytestmark = pytest.mark.full

SITE = ROOT / "build" / "site"
NOT_PAGES = (
    *("_static/", "_sources/", "_modules/", "explorer.html"),
    *("how_to/clusters.html", "how_to/scale_out.html"),  # lead to another page
)

# What in the text reaches beyond the window, and stands in nothing that scrolls by itself.
STICKING_OUT = """[...document.querySelectorAll("article *")].filter((one) =>
  one.getBoundingClientRect().right > innerWidth + 1
  && !one.closest("pre, svg, .table-wrapper, .cell_output, p:has(> img), math"))
  .map((one) => one.outerHTML.slice(0, 120))"""


def pages():
    if not (SITE / "index.html").exists():
        pytest.skip("python -m sphinx docs build/site: the site")
    found = [page.relative_to(SITE).as_posix() for page in sorted(SITE.rglob("*.html"))]
    return [page for page in found if not page.startswith(NOT_PAGES)]


@pytest.mark.parametrize(
    ("width", "scheme", "each"),
    [
        (400, "light", 3),
        (1280, "dark", 7),
        *(nightly(*case, 1) for case in itertools.product((400, 1280), ("light", "dark"))),
    ],
)
def test_no_page_overflows_or_asks_the_network(open_page, width, scheme, each):
    """Nor says anything on the console, see `open_page`; in the dark the page is dark."""
    found = pages()
    assert len(found) > 60
    page = open_page(SITE / "index.html", width=width, scheme=scheme)
    for name in found[::each]:
        page.goto((SITE / name).as_uri())
        assert page.evaluate(STICKING_OUT) == [], name
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        dark = sum(map(int, paper[4:-1].split(","))) < 384
        assert dark is (scheme == "dark"), (name, paper)


# The characters of the longest line of text: the width of a paragraph by that of its letters.
LONGEST_LINE = """() => {
  const context = document.createElement("canvas").getContext("2d");
  const sample = "The quick brown fox jumps over the lazy dog, and both go home to sleep.";
  const lines = [...document.querySelectorAll("article p")]
    .filter((paragraph) => paragraph.textContent.length > 150 && !paragraph.closest("td"))
    .map((paragraph) => {
      context.font = getComputedStyle(paragraph).font;
      return paragraph.clientWidth / context.measureText(sample).width * sample.length;
    });
  return Math.max(...lines);
}"""


@pytest.mark.parametrize("width", [1024, 1313, 1366, 1439, 1920])
def test_a_wide_page_has_lines_of_70_to_90_characters_and_fits(open_page, width):
    pages()
    for name in ("how_to/finetune", "concepts/steps"):
        page = open_page(SITE / f"{name}.html", width=width)
        assert page.evaluate("document.documentElement.scrollWidth") == width, name
        assert 70 <= page.evaluate(LONGEST_LINE) <= 91, name


def test_code_has_a_button_that_copies_it_without_prompts(open_page):
    pages()
    page = open_page(SITE / "how_to" / "embed.html")
    console = page.locator(".highlight-console").first
    copied = console.locator("button.copybtn").get_attribute("data-clipboard-target")
    assert "$ kbert embed" in page.locator(copied).inner_text()
    assert page.locator(".highlight-text button.copybtn").count() == 0  # what code prints


# What a page says in words, without its code: options and quotes are there as they are typed.
WORDS = """[...document.querySelectorAll("article :is(p, li, td, dd)")]
  .flatMap((one) => [...one.childNodes].filter((node) => node.nodeType === 3))
  .map((node) => node.textContent)"""

# Names of options and files of up to 20 letters that a line's end cuts in two.
CUT = """[...document.querySelectorAll("article :is(p, li) code .pre.short")]
  .filter((one) => one.getClientRects().length > 1).map((one) => one.textContent)"""

# Names, or parts of one between the places where a line may end, that a line's end cuts in two;
# behind a hyphen, and before a brace, a line ends by itself.
IN_A_NAME = """[...document.querySelectorAll("article .pre")].flatMap((one) => [...one.childNodes])
  .filter((node) => {
    const range = document.createRange();
    range.selectNodeContents(node);
    return !/[-{…|]/.test(node.textContent)
      && new Set([...range.getClientRects()].map((one) => one.top)).size > 1;
  }).map((node) => node.textContent)"""

# A picture is drawn for white paper, and lies on it in the dark too.
ON_DARK = """[...document.querySelectorAll("article img")]
  .filter((one) => getComputedStyle(one).backgroundColor !== "rgb(255, 255, 255)")
  .map((one) => one.outerHTML.slice(0, 120))"""


DARK = ["reference/api/tasks", "reference/commands"]
DARK += ["concepts/steps", "how_to/glue", "how_to/family"]
NAMES = ["how_to/coming_from", "reference/api/tasks", "reference/environment"]
NAMES += ["benchmarks/equality", "benchmarks/kills"]


def test_dark_pages_on_a_phone_can_be_read(open_page):
    pages()
    wrong = "–[a-z]| -- |[‘’“”\x00-\x08]"
    page = open_page(SITE / "index.html", width=400, scheme="dark")
    for name in DARK:
        page.goto((SITE / f"{name}.html").as_uri())
        assert [one for one in page.evaluate(WORDS) if re.search(wrong, one)] == [], name
        assert page.evaluate(CUT) == [], name
        assert page.evaluate(ON_DARK) == [], name


def test_lines_on_a_phone_break_between_parts_of_names(open_page):
    pages()
    page = open_page(SITE / "index.html", width=400)
    for name in NAMES:
        page.goto((SITE / f"{name}.html").as_uri())
        assert page.locator("article .pre wbr").count() > 5, name
        assert page.evaluate(IN_A_NAME) == [], name
        assert page.locator("article em :is(p, li, dl)").count() == 0, name  # marks are closed


def test_wide_parts_of_a_page_scroll_by_themselves(open_page):
    """A picture at a size to read, a block of code: the page stays where it is."""
    pages()
    for name, part in (("index", "p:has(> img)"), ("how_to/load", ".highlight pre")):
        page = open_page(SITE / f"{name}.html", width=400)
        wide = page.locator(f"article {part}").first
        assert wide.evaluate("one => one.scrollWidth - one.clientWidth") > 50, name
        assert page.evaluate("document.documentElement.scrollWidth") == 400, name


def test_the_explorer_works_within_its_page(open_page):
    pages()
    page = open_page(SITE / "concepts" / "explorer.html")
    frame = page.frame_locator("iframe.explorer")
    frame.get_by_text("109,705,010").first.wait_for()
    assert page.locator("iframe.explorer").bounding_box()["height"] > 500


def test_the_search_finds_without_a_server(open_page):
    pages()
    page = open_page(SITE / "search.html", "?q=gradient_checkpointing")
    # results come one after the other
    page.locator("#search-results li a", has_text="Train with less memory").first.wait_for()


@pytest.mark.parametrize("name", ["finetune", "load", "fill_mask", "BertConfig"])
def test_the_search_finds_a_function_by_its_name(open_page, name):
    pages()
    page = open_page(SITE / "search.html", f"?q={name}")
    first = page.locator("#search-results li > a").first
    assert first.get_attribute("href").endswith(f"#kbert.{name}")


def test_the_search_leaves_out_the_changelog_and_the_log(open_page):
    """The log of experiments alone says "jax2tf"."""
    pages()
    assert "jax2tf" in (SITE / "benchmarks" / "log.html").read_text(encoding="utf-8")
    page = open_page(SITE / "search.html", "?q=jax2tf")
    page.get_by_text("did not match any documents").wait_for()
