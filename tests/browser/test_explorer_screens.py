"""The explorer's page on small and large screens: a phone's list and sheets, a tablet, a desk."""

import pytest
from helpers.sentence_pages import write_live_page

import kbert

pytestmark = pytest.mark.full

PHONE = {"width": 390, "height": 844}
TABLET = {"width": 1024, "height": 768}
ATTENTION = "Encoder-7-MultiHeadSelfAttention"


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return kbert.explore("base", tmp_path_factory.mktemp("screens") / "base.html").path


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    return write_live_page(tmp_path_factory.mktemp("live") / "base.html", "base")


# Of what can be seen: texts below 11 pixels, and controls that are lower or narrower than 24.
TOO_SMALL = """() => {
  const found = [];
  const seen = (one) => one.checkVisibility({ visibilityProperty: true, opacityProperty: true })
    && !one.closest("[inert], .hidden");
  for (const one of document.querySelectorAll("body *")) {
    const own = [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (own && seen(one) && !one.closest("script, math")
      && parseFloat(getComputedStyle(one).fontSize) < 11) found.push(one.outerHTML.slice(0, 90));
  }
  const controls = "button, a, select, summary, input, .segments label span";
  for (const one of document.querySelectorAll(controls)) {
    const { width, height } = one.getBoundingClientRect();
    if (seen(one) && Math.min(width, height) < 24) found.push(one.outerHTML.slice(0, 90));
  }
  return found;
}"""
# A sheet that still moves has targets of 23.99 pixels.
AT_REST = "Promise.all(document.getAnimations().map((animation) => animation.finished))"
SCROLLED = "document.scrollingElement.scrollWidth"


@pytest.mark.parametrize(
    "state", ["", f"#{ATTENTION}/head-3", "#Encoder-7-FeedForward&b.L=24&b.H=1024", "#&chapter=sum"]
)
def test_texts_and_targets_on_a_phone_are_large_enough(open_page, base, state):
    page = open_page(base, state, **PHONE)
    assert page.locator("[data-row='Embedding-Token']").is_visible()
    for name in ("side", "panel"):
        if page.locator(f".dock [data-sheet={name}]").get_attribute("aria-expanded") == "false":
            page.locator(f".dock [data-sheet={name}]").click()
        page.evaluate(f"async () => {{ await {AT_REST}; }}")
        assert page.evaluate(TOO_SMALL) == []
        assert page.evaluate(SCROLLED) == PHONE["width"]
    assert not page.get_by_text("from box to box").is_visible()  # the list of keys


@pytest.mark.parametrize(
    "state", ["", f"#{ATTENTION}/query", "#Encoder-7-FeedForward&chapter=feedforward"]
)
def test_figure_with_a_sentence_on_a_phone_is_as_large(open_page, live, state):
    """All but the tokens: they are as wide as their columns, and can be chosen in the stage too."""
    page = open_page(live, state, **PHONE)
    page.locator("#tokens [data-token]").first.wait_for()
    assert [one for one in page.evaluate(TOO_SMALL) if 'class="token' not in one] == []
    assert page.evaluate(SCROLLED) == PHONE["width"]
    small = page.evaluate("""() => [...document.querySelectorAll("#drawing [role=button], .pick")]
      .map((one) => [one.getBoundingClientRect(), one.getAttribute("aria-label")])
      .filter(([box]) => Math.min(box.width, box.height) < 24).map(([, name]) => name)""")
    assert small == []


def test_list_on_a_phone_has_every_layer_from_the_inputs_to_the_outputs(open_page, base):
    page = open_page(base, **PHONE)
    page.locator("[data-row=open-7]").click()
    page.keyboard.press("Escape")
    rows = [one.get_attribute("data-row") for one in page.locator(".row").all()]
    expected = [
        row.layer
        for row in kbert.account("base").rows
        if not row.layer.startswith("Encoder-") or row.layer.startswith("Encoder-7-")
    ]
    assert [name for name in rows if not name.startswith("blocks-")] == expected
    assert [rows.index(name) for name in ("blocks-1", "blocks-8")] == [8, 17]
    token = page.locator("[data-row='Embedding-Token']")
    assert "23,040,000" in token.inner_text() and "(None, 512, 768)" in token.inner_text()
    page.locator("[data-row=parts]").click()
    parts = page.locator(f"[data-row^='{ATTENTION}/']")
    assert [one.locator(".name").inner_text() for one in parts.all()] == [
        *("W_Q", "W_K", "W_V", "12 heads of 64", "W_O")
    ]
    page.locator("[data-row=close]").click()
    assert page.locator("[data-row=encoder]").is_visible()


def test_panel_is_a_sheet_on_a_phone_that_takes_and_returns_the_focus(open_page, base):
    page = open_page(base, **PHONE)
    focused = "document.activeElement.id || document.activeElement.dataset.row"
    panel, row = page.locator(".panel"), page.locator("[data-row='Embedding-Position']")
    ways = {
        "key": lambda: page.keyboard.press("Escape"),
        "button": lambda: panel.locator(".close").click(),
        "pull": lambda: pull(page, panel),
    }
    for name, close in ways.items():
        assert not panel.is_visible(), name
        row.click()
        assert page.evaluate(focused) == "panel-title"
        assert page.locator("#panel-title").inner_text() == "Embedding-Position"
        page.wait_for_function("document.querySelector('.panel').getAnimations().length === 0")
        sheet, chosen = panel.bounding_box(), row.bounding_box()
        assert sheet["y"] > 240 and sheet["y"] + sheet["height"] <= PHONE["height"] - 50
        assert chosen["y"] + chosen["height"] <= sheet["y"] + 1  # the row stays in sight
        close()
        panel.wait_for(state="hidden")
        assert page.evaluate(focused) == "Embedding-Position", name


def pull(page, panel) -> None:
    bar = panel.locator(".sheet-bar").bounding_box()
    x, y = bar["x"] + bar["width"] / 2, bar["y"] + 10
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, y + 150, steps=4)
    page.mouse.up()


def test_sizes_on_a_phone_are_changed_with_the_total_in_sight(open_page, base):
    page = open_page(base, **PHONE)
    page.locator(".dock [data-sheet=side]").click()
    page.locator("#slider-L").focus()
    page.keyboard.press("End")
    blocks = int(page.locator("#A-L").input_value())
    params = kbert.account(kbert.base.replace(num_hidden_layers=blocks)).params
    total = page.locator("#total")
    assert total.inner_text() == f"{params:,}" and blocks == 48
    hit = "one => { const box = one.getBoundingClientRect();"
    hit += " return document.elementFromPoint(box.left + 3, box.top + 3) === one; }"
    assert total.evaluate(hit)
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.dataset.sheet") == "side"


# What Tab never reaches, of all that can be seen and used; a group of radios is one stop.
UNREACHED = """() => [...document.querySelectorAll("button, a[href], select, summary, input")]
  .filter((one) => one.checkVisibility({ visibilityProperty: true }) && !one.closest("[inert]")
    && !(one.type === "radio" && !one.checked) && !one.disabled && !window.reached.has(one))
  .map((one) => one.outerHTML.slice(0, 90))"""


@pytest.mark.parametrize("size", [PHONE, TABLET], ids=["phone", "tablet"])
def test_tab_reaches_every_control(open_page, base, size):
    page = open_page(base, "#Encoder-7-FeedForward&chapter=feedforward", **size)
    page.evaluate("""() => {
      window.reached = new Set();
      document.addEventListener("focusin", (event) => window.reached.add(event.target));
    }""")
    if size is PHONE:
        page.locator(".dock [data-sheet=side]").click()
    page.evaluate("document.activeElement.blur()")
    for _ in range(140):
        page.keyboard.press("Tab")
    assert page.evaluate(UNREACHED) == []


# Sliders and totals of which some part lies outside the window or under something else.
COVERED = """() => [...document.querySelectorAll("input[type=range], [data-total]")]
  .filter((one) => {
    const { left, right, top, bottom } = one.getBoundingClientRect();
    const at = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
    return top < 0 || bottom > innerHeight || left < 0 || right > innerWidth || at !== one;
  }).map((one) => one.outerHTML)"""


def test_sliders_and_totals_are_in_sight_at_1024_by_768(open_page, base):
    page = open_page(base, **TABLET)
    assert page.locator("input[type=range]").count() == 10
    assert page.locator("[data-total]").count() == 5
    assert page.locator("[data-card]").count() == 2 and page.evaluate(COVERED) == []
    page.locator("[data-layer='Embedding-Norm']").click()
    assert page.locator("#panel-title").is_visible() and page.evaluate(COVERED) == []
    assert page.locator("#figure").bounding_box()["width"] > 240
    page.keyboard.press("Escape")
    assert not page.locator(".panel").is_visible()
    page.locator("#compare").click()
    assert page.locator("[data-total]").count() == 10 and page.evaluate(COVERED) == []


def test_nothing_overflows_sideways(open_page, base):
    page = open_page(base, "#&b.L=24&b.H=122880&b.FFD=491520&L=100")
    cut = "(all) => all.filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.id)"
    for way in ("", "#start", "#tour"):
        if way:
            page.locator(way).click()
        for width in (390, 760, 1024, 1440, 1920):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate(SCROLLED) <= width, (width, way)
            found = page.eval_on_selector_all(".side, .guide, .top, .toolbar", cut)
            assert found == [], (width, way)


@pytest.mark.parametrize(
    ("size", "scheme", "state", "sheet"),
    [
        (PHONE, "light", "", "side"),
        (PHONE, "dark", f"#{ATTENTION}/query&chapter=question", "panel"),
        (TABLET, "light", "#&chapter=heads&b.L=24", "panel"),
    ],
    ids=["phone", "phone-dark", "tablet"],
)
def test_axe_finds_nothing_on_small_screens(
    open_page, find_violations, base, size, scheme, state, sheet
):
    page = open_page(base, state, scheme=scheme, **size)
    assert find_violations(page) == []
    page.locator(f"button[data-sheet={sheet}]:visible").click()
    assert find_violations(page) == []


def test_pictures_are_saved_from_a_phone_too(open_page, base):
    page = open_page(base, **PHONE)
    page.locator("#downloads summary").click()
    with page.expect_download() as download:
        page.locator("[data-download=svg]").click()
    text = download.value.path().read_text(encoding="utf-8")
    assert "Embedding-Token" in text and 'visibility="hidden"' not in text


def test_tokens_stay_in_sight_on_a_phone_with_ten_candidates(open_page, live):
    """Below the cards, which are low, and below the candidates, which scroll."""
    page = open_page(live, **PHONE)
    page.locator("#tokens [data-token]").first.wait_for()
    assert page.locator(".guide").bounding_box()["height"] < 130
    page.locator("#text").fill("The cat sat on the [MASK].")
    page.locator(".said-bar").nth(9).wait_for()
    tokens, dock = (page.locator(one).bounding_box() for one in ("#tokens", ".dock"))
    assert tokens["y"] + tokens["height"] <= dock["y"]


def test_legend_of_the_strips_has_one_line_beside_the_sizes(open_page, live):
    page = open_page(live, width=1280, height=800)
    page.locator("#tokens [data-token]").first.wait_for()
    page.locator("#sizes").click()
    legend = page.locator("#legend").bounding_box()
    assert legend["width"] > 250 and legend["height"] < 30
