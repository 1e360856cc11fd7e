"""The explorer's page to scale: heights, bars and ratios are those of `kbert.account`."""

import pytest
from helpers.sentence_pages import write_live_page

import kbert

pytestmark = pytest.mark.full

MEASURES = {
    "params": lambda row: row.params,
    "flops": lambda row: row.flops,
    "bytes": lambda row: 4 * row.params,
    "kept": lambda row: row.activation_bytes,
}


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return kbert.explore("base", tmp_path_factory.mktemp("scale") / "base.html").path


def heights(page, column: str) -> dict[str, float]:
    """Return the height of each piece of a tower, by its layer, and the tower's."""
    read = "(all) => all.map((one) => [one.dataset.piece, one.getBoundingClientRect().height])"
    pieces = dict(page.eval_on_selector_all(f"[data-tower={column}] [data-piece]", read))
    tower = page.locator(f"[data-tower={column}] [role=img]").bounding_box()
    return pieces | {"all": tower["height"]}


@pytest.mark.parametrize("measure", MEASURES)
def test_layers_are_as_high_as_their_part_of_the_measure(open_page, base, measure):
    page = open_page(base, f"#&measure={measure}", width=1440, height=900)
    account, amount = kbert.account("base"), MEASURES[measure]
    whole = sum(map(amount, account.rows))
    found = heights(page, "A")
    for layer in (
        *("Embedding-Token", "Embedding-Position", "Encoder-7-FeedForward"),
        *("Encoder-12-MultiHeadSelfAttention", "MLM-Sim", "MLM-Dense"),
    ):
        row = next(row for row in account.rows if row.layer == layer)
        expected = amount(row) / whole * found["all"]
        assert found.get(layer, 0) == pytest.approx(expected, rel=0.03, abs=1.5), layer


def test_header_and_boxes_show_bytes_of_the_weights(open_page, base):
    """In the chosen dtype: 2 bytes per parameter in bfloat16."""
    page = open_page(base, "#&measure=bytes")
    params = kbert.account("base").params
    assert page.locator(".sum").inner_text() == f"{4 * params / 2**20:.0f} MiB of weights"
    page.locator("#A-dtype").select_option("bfloat16")
    assert page.locator(".sum").inner_text() == f"{2 * params / 2**20:.0f} MiB of weights"
    box = page.locator("[data-layer='Embedding-Token'] .amount")
    assert box.text_content() == f"{2 * 23_040_000 / 2**20:.1f} MiB"


def test_bars_of_a_phone_are_as_long_as_the_layers_part(open_page, base):
    page = open_page(base, width=390)
    row = page.locator("[data-row='Embedding-Token']").bounding_box()
    bar = page.locator("[data-row='Embedding-Token'] .part").bounding_box()
    part = 23_040_000 / kbert.account("base").params
    assert bar["width"] / row["width"] == pytest.approx(part, abs=0.02)


def test_two_models_share_a_scale_with_their_ratios_on_top(open_page, base):
    page = open_page(base, width=1440, height=900)
    page.locator("[data-card=compare]").click()
    assert page.locator("#A-preset").input_value() == "base"
    assert page.locator("#B-preset").input_value() == "large"
    accounts = [kbert.account(name) for name in ("base", "large")]
    ratios = {
        "params": accounts[1].params / accounts[0].params,
        "flops": accounts[1].flops / accounts[0].flops,
        "memory": accounts[1].memory.total / accounts[0].memory.total,
    }
    for name, ratio in ratios.items():
        line = page.locator(f"#sums tr:has([data-total=A-{name}])")
        assert line.inner_text().split("×")[1].strip() == f"{ratio:.2f}"
    towers = [heights(page, column)["all"] for column in "AB"]
    assert towers[1] / towers[0] == pytest.approx(ratios["params"], rel=0.01)
    sums = page.locator("#sums table").bounding_box()
    assert sums["y"] < 120 and page.evaluate("document.activeElement.id") == "side-title"
    page.locator("[data-tower=B] [data-piece='Encoder-20-FeedForward']").click()
    assert page.locator("#panel-title").inner_text() == "Encoder-20-FeedForward"
    assert page.locator("#total").inner_text() == f"{accounts[1].params:,}"


@pytest.mark.parametrize(("name", "other"), [("tiny", "mini"), ("large", "base")])
def test_comparison_begins_with_the_next_larger_preset(open_page, tmp_path, name, other):
    page = open_page(kbert.explore(name, tmp_path / "page.html").path)
    assert f"{name} beside {other}" in page.locator("[data-card=compare]").inner_text()
    page.locator("#compare").click()
    assert page.locator("#B-preset").input_value() == other


def test_a_thousand_blocks_are_drawn_by_their_kinds(open_page, base):
    page = open_page(base, "#&L=1000", width=1440)
    assert page.locator("[data-piece]").count() < 30
    config = kbert.base.replace(num_hidden_layers=1000)
    part = kbert.account(config).groups["encoder"].params / kbert.account(config).params
    told = page.locator("[data-tower=A] [role=img]").get_attribute("aria-label")
    assert f"encoder {100 * part:.1f} %" in told


def test_tokens_stand_under_their_columns_beside_the_model_to_scale(open_page, tmp_path):
    """The vertical line that is drawn for a token ends at its button."""
    page = open_page(write_live_page(tmp_path / "live.html", "tiny"), "#&token=5", width=1440)
    page.locator("#sizes").click()
    token = page.locator("[data-token='5']").bounding_box()
    x = token["x"] + token["width"] / 2
    y = page.locator("[data-layer='Embedding-Norm']").bounding_box()["y"] + 10
    assert page.locator("[data-tower]").is_visible()
    page.locator("[data-token='5']").click()  # no longer kept lit
    page.mouse.move(x, y)
    assert page.locator(".token.lit").get_attribute("data-token") == "5"
