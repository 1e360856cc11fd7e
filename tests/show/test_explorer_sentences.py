"""Every sentence of the explorer's panels is true of the graph that the page shows."""

import re

import pytest

import kbert
from kbert.graph.closed_form import config_letters
from kbert.heads import HEADS, HEADS_WITH_LABELS

pytest.importorskip("py_mini_racer", reason="pip install -e '.[test]': an engine of JavaScript")
from helpers.explorer_pages import panel_engine

LAYER = re.compile(r"\b(?:Encoder-\d+|Input|Embedding|MLM|NSP|Span|Classifier)-[A-Z][A-Za-z-]*")
OF_THE_PAPER = ("base", "large")
PRESETS = [
    name if name in OF_THE_PAPER else pytest.param(name, marks=pytest.mark.full)
    for name in kbert.PRESETS
]
EVERY_HEAD = pytest.mark.parametrize("head", HEADS)


def in_the_page(preset: str, **changes) -> dict:
    config = kbert.get_config(preset)
    sizes = config_letters(config) | {"G": config.type_vocab_size, "S": 512, "B": 1, "M": None}
    return sizes | {"K": 2, "dtype": "float32"} | changes


def read_panels(preset, head, predictions=None):
    """Return the account of a graph, and the text of each panel of its page."""
    labels = {"num_labels": 2} if head in HEADS_WITH_LABELS else {}
    account = kbert.account(preset, head=head, max_predictions=predictions, **labels)
    return account, panel_engine(head)(in_the_page(preset, M=predictions))


def check_names(account, texts) -> None:
    """Every layer that a panel names is one of the graph's."""
    names = {row.layer for row in account.rows}
    wrong = {
        (panel, name)
        for panel, text in texts.items()
        for name in LAYER.findall(text.replace("/", " "))
        if name not in names
    }
    assert not wrong


@pytest.mark.full
@EVERY_HEAD
@pytest.mark.parametrize("preset", ["base", "large", "tiny"])
def test_panels_name_layers_of_the_graph_and_count_as_python_does(preset, head):
    account, texts = read_panels(preset, head)
    check_names(account, texts)
    for row in account.rows:
        if row.layer not in texts:  # a block between the first and the last
            continue
        told = re.search(r"Parameters ([\d,]+)[\s\S]*FLOPs, forward ([\d,]+)", texts[row.layer])
        assert told and told[1] == f"{row.params:,}" and told[2] == f"{row.flops:,}"
        shares = re.findall(r"(\S+ ?\S+) % of the whole", texts[row.layer])
        counts = [n for n in (row.params, row.flops, row.activation_bytes) if n]
        assert len(shares) == len(counts) and "0" not in [share.split()[-1] for share in shares]
        assert f"Bytes {row.activation_bytes:,} bytes of activations" in texts[row.layer]


def test_panels_of_chosen_positions_name_their_own_layers():
    check_names(*read_panels("base", "pretraining", 76))


@EVERY_HEAD
@pytest.mark.parametrize("preset", PRESETS)
def test_totals_that_a_page_corrects_are_its_own(preset, head):
    """No page says that the exact number is one of some others."""
    account, texts = read_panels(preset, head)
    total = f"{account.params:,}"
    assert f"{total} parameters" in texts[""]
    _, corrected, numbers = texts[""].partition("Of the totals")
    if corrected:
        assert total in re.findall(r"[\d,]{9,}", numbers)
    letters = {"M predicted": HEADS[head].predicts_tokens}
    assert all((text in texts[""]) == used for text, used in letters.items())
    blocks = account.config.num_hidden_layers
    assert f"{blocks} blocks" in texts["encoder"]
    per_block = account.groups["encoder"].params / blocks
    assert f"Parameters {shorten(per_block)} {shorten(per_block * blocks)}" in texts["encoder"]


def shorten(number: float) -> str:
    """As the page writes large numbers: three digits and a unit."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if number >= size * 0.9995:
            value = number / size
            digits = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
            return f"{value:.{digits}f} {unit}"
    return f"{number:.0f}"


@pytest.mark.parametrize("preset", OF_THE_PAPER)
def test_papers_totals_are_corrected_where_they_belong(preset):
    _, texts = read_panels(preset, "pretraining")
    assert "Of the totals" in texts[""]


@EVERY_HEAD
def test_every_sentence_has_letters_that_all_fonts_have(head):
    _, texts = read_panels("large", head)
    assert not re.findall(r"[\u2e80-\uffff]", "".join(texts.values()))


def test_one_block_is_singular():
    texts = panel_engine("encoder")(in_the_page("tiny", L=1))
    assert "1 block" in texts["encoder"] and "1 blocks" not in texts["encoder"]
