"""The stage: the numbers that it shows are kbert's, and its sentences are true of them."""

import math
import re
from decimal import Decimal

import keras
import numpy as np
import pytest
from helpers.sizes import SIZES
from helpers.small_berts import small_bert

import kbert
from kbert.graph.closed_form import encoder_block
from kbert.model.probes import build_hidden_states
from kbert.model.summary import ids_of

pytestmark = pytest.mark.full

TEXT, TOKEN = "red cat big tree sun", 2  # [CLS] red cat …
BLOCK = "Encoder-2-"
CONFIG = kbert.BertConfig(**SIZES)
LAYERS = [
    *("Input-Token", "Embedding-Token", "Embedding-Position", "Embedding-Dropout", "encoder"),
    *("Embedding-Norm", f"{BLOCK}MultiHeadSelfAttention/key"),
    *(row.name.format(n=2) for row in encoder_block("{n}", "{hidden}")),
    *("MLM-Dense", "MLM-Norm", "MLM-Sim", "Extract", "NSP-Dense", "NSP"),
]


@pytest.fixture(scope="module")
def bert():
    return small_bert(CONFIG, "pretraining")


@pytest.fixture(scope="module")
def path(bert, tmp_path_factory):
    folder = tmp_path_factory.mktemp("stage")
    kbert.save(bert, folder / "model")
    return kbert.explore(folder / "model", folder / "page.html", weights="float32").path


@pytest.fixture
def open_stage(open_page, path):
    def open_stage(layer, text=TEXT, **options):
        page = open_page(path, f"#{layer}&text={text.replace(' ', '%20')}&token={TOKEN}", **options)
        page.wait_for_selector("#stage h2")
        page.wait_for_function("document.querySelectorAll('[data-token]').length > 5")
        return page

    return open_stage


def compute(bert, layer, text=TEXT) -> np.ndarray:
    """The output of a layer of kbert's graph for the chosen token, or for all."""
    model = keras.Model(ids_of(bert.model), bert.model.get_layer(layer).output)
    return run(model, bert, text)


def run(model, bert, text=TEXT):
    ids = np.array([[bert.tokenizer.id_of(token) for token in split(text)]])
    return np.asarray(keras.ops.convert_to_numpy(model([ids, np.zeros_like(ids)])))[0]


def split(text) -> list[str]:
    return ["[CLS]", *text.split(), "[SEP]"]


def weight(bert, path) -> np.ndarray:
    return next(w.numpy() for w in bert.model.weights if w.path == path)


def check_shown(text: str, expected: float) -> None:
    """A number with its digits, or a percentage, is the expected one rounded."""
    digits = text.replace("−", "-").replace("%", "").replace("\N{NO-BREAK SPACE}", "").strip(" ()=")
    value = expected * 100 if "%" in text else expected
    rounding = 0.5 * 10.0 ** -len(digits.partition(".")[2])
    assert abs(float(digits) - value) <= rounding + 2e-5 * max(1, abs(value)), (text, expected)


def table(page) -> list[list[str]]:
    page.locator(".stage-numbers summary").click()
    page.wait_for_selector(".stage-table tbody tr")
    rows = page.locator(".stage-numbers tbody tr").all()
    return [row.locator("th, td").all_inner_texts() for row in rows]


def arithmetic(page, card: str) -> str:
    """The formula with numbers in the card with a title, without blanks."""
    box = page.locator(".stage-card", has_text=card).locator(".arithmetic math")
    return "".join(box.all_text_contents()).replace(" ", "")


def choose_dimension(page, number: int) -> None:
    page.locator("[data-key='dimension']").first.evaluate(
        "(slider, n) => { slider.value = n; slider.dispatchEvent(new Event('input')); }", number
    )


def test_attention_is_kberts_and_follows_the_pointer(open_stage, bert):
    expected = kbert.attention(bert, TEXT).weights[1, 2]
    page = open_stage(f"{BLOCK}MultiHeadSelfAttention/head-3", height=1400)
    assert "Head 3 of 4" in page.locator("#stage h2").inner_text()
    for row, prob in zip(table(page), expected[TOKEN], strict=True):
        check_shown(row[2], prob)
    sees = page.locator(".stage-sees").inner_text()
    check_shown(re.search(r"attention, ([\d.]+ %)", sees)[1], expected[TOKEN].max())
    special = expected[:, [0, -1]].sum(-1).mean()
    check_shown(re.search(r"([\d.]+ %) to \[CLS\] and \[SEP\]", sees)[1], special)
    cells = page.locator(".map-weights")
    cells.scroll_into_view_if_needed()
    box = cells.bounding_box()
    cell = box["width"] / len(split(TEXT))
    page.mouse.move(box["x"] + 4.5 * cell, box["y"] + 1.5 * cell)
    check_shown(arithmetic(page, "2 Softmax").split("=")[-1], expected[1, 4])
    value = (
        compute(bert, "Encoder-1-FeedForward-Norm")
        @ weight(bert, f"{BLOCK}MultiHeadSelfAttention/value/kernel")[:, 2]
        + weight(bert, f"{BLOCK}MultiHeadSelfAttention/value/bias")[2]
    )
    total = page.locator(".stage-terms tr").last.locator("th, td").all_inner_texts()
    check_shown(total[2], (expected @ value)[1, int(total[1].split()[1]) - 1])


@pytest.mark.parametrize("layer", ["Embedding-Position", f"{BLOCK}FeedForward-Add"])
def test_terms_add_up_to_the_sum_as_they_are_printed(open_stage, bert, layer):
    expected = compute(bert, layer)[TOKEN]
    page = open_stage(layer)
    for dimension in (1, 8, CONFIG.hidden_size):
        choose_dimension(page, dimension)
        text = page.locator(".stage-card .arithmetic math").first.text_content()
        left, total = re.sub(r"[() ]", "", text).replace("−", "-").split("=")
        terms = [Decimal(term) for term in left.replace("+-", "+ -").split("+")]
        assert sum(terms) == Decimal(total) and len(terms) == (3 if "Embedding" in layer else 2)
        check_shown(total, expected[dimension - 1])


def test_norm_shows_the_vector_and_its_gamma_and_beta(open_stage, bert):
    layer = f"{BLOCK}FeedForward-Norm"
    expected = run(build_hidden_states(bert.model, layers=[2]), bert)[TOKEN]
    before = compute(bert, f"{BLOCK}FeedForward-Add")[TOKEN]
    page = open_stage(layer)
    for (_, old, _, new), value, start in zip(table(page), expected, before, strict=True):
        check_shown(new, value)
        check_shown(old, start)
    deviation = re.search(r"standard deviation (\S+)\.", page.locator(".stage-sees").inner_text())
    check_shown(deviation[1], before.std())
    choose_dimension(page, 5)
    gamma, beta = (weight(bert, f"{layer}/{name}")[4] for name in ("gamma", "beta"))
    line = arithmetic(page, "One dimension").split("=")[2]
    shown = re.fullmatch(r"(−?[\d.]+)·.*?\+\(?(−?[\d.]+)\)?", line)
    check_shown(shown[1], gamma)
    check_shown(shown[2], beta)


def test_active_neurons_are_counted(open_stage, bert):
    """GELU by the error function of Python's own library."""
    name = f"{BLOCK}FeedForward/intermediate"
    before = compute(bert, f"{BLOCK}MultiHeadSelfAttention-Norm")[TOKEN] @ weight(
        bert, f"{name}/kernel"
    ) + weight(bert, f"{name}/bias")
    after = [x * (1 + math.erf(x / math.sqrt(2))) / 2 for x in before]
    sees = open_stage(f"{BLOCK}FeedForward").locator(".stage-sees").inner_text()
    count, neurons, strongest, value = re.search(
        r"(\d+) of (\d+) neurons.*neuron (\d+) with (\S+)\.", sees
    ).groups()
    assert (int(count), int(neurons)) == ((before > 0).sum(), CONFIG.intermediate_size)
    assert int(strongest) == np.argmax(after) + 1
    check_shown(value, max(after))


def test_candidates_for_a_mask_are_kberts(open_stage, bert):
    text = "red [MASK] big tree sun"
    expected = kbert.fill_mask(bert, text, top_k=10)[0]
    page = open_stage("MLM-Sim", text)
    rows = page.locator("#stage .stage-card li").all()
    assert len(rows) == 10
    for row, candidate in zip(rows, expected, strict=True):
        assert row.locator(".bar-name").inner_text() == candidate.token
        check_shown(row.locator(".bar-value").inner_text(), candidate.probability)


def test_every_layer_has_a_title_and_a_sentence_and_fits(open_stage, find_violations):
    page = open_stage("Input-Token", width=390, scheme="dark")
    for layer in LAYERS:
        page.evaluate(f"location.hash = '{layer}&text={TEXT.replace(' ', '%20')}&token={TOKEN}'")
        page.wait_for_timeout(60)
        text = page.locator("#stage").inner_text()
        assert len(page.locator(".stage-sees").inner_text()) > 40, layer
        assert not re.search(r"NaN|undefined|Infinity|null", text), (layer, text)
        stage = page.locator("#stage").bounding_box()
        cards = [card.bounding_box() for card in page.locator("#stage .stage-card").all()]
        assert all(card["x"] + card["width"] <= stage["x"] + stage["width"] for card in cards)
        if layer in (f"{BLOCK}MultiHeadSelfAttention/key", f"{BLOCK}FeedForward-Norm"):
            assert find_violations(page) == []


def test_head_and_block_are_chosen_in_the_figure_and_the_address(open_stage):
    page = open_stage(f"{BLOCK}MultiHeadSelfAttention")
    page.locator("[data-key='all-2-3']").click()
    assert "Head 4 of 4" in page.locator("#stage h2").inner_text()
    assert "Encoder-2-MultiHeadSelfAttention%2Fhead-4" in page.url
    page.locator("#text").press("ArrowUp")
    assert "#Encoder-3-MultiHeadSelfAttention" in page.url
    page.locator("[data-key='hide']").check()
    columns = page.locator(".map-columns").all_inner_texts()
    assert [names.split() for names in columns] == 2 * [TEXT.split()]
    assert "hidden here" in page.locator(".stage-sees").inner_text()
