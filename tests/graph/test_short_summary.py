"""The short form of a summary, and models side by side: the published numbers, and no more rows."""

import re

import pytest
from helpers.command_line import kbert as run
from helpers.diagram_readers import DOCUMENT
from helpers.errors import raises

import kbert

TOTALS = {"base": 109_705_010, "large": 335_691_058}  # documents 004 and 009
LARGE_DIVIDED = {"encoder blocks": "2.00", "hidden size": "1.33", "parameters": "3.06"}


def read_short(text: str) -> list[tuple[str, ...]]:
    """The cells of each line between the double rules."""
    lines = text.split("=\n")[1].splitlines()
    return [tuple(re.split(r" {2,}", line)) for line in lines if set(line) - {"_", "="}]


def test_collapsed_summary_is_document_004_with_one_block(capsys):
    text = run(capsys, "summary", "base", "--collapse").out
    assert max(map(len, text.splitlines())) <= 80
    cells = read_short(text)
    expected = []
    for row in DOCUMENT:
        if row.layer.startswith("Encoder-1-") and not any("×" in one[0] for one in expected):
            expected.append(("12 × Encoder-n, n = 1 … 12, each", "7,087,872"))
        if not re.match("Encoder-(?!1-)", row.layer):
            layer = row.layer.removeprefix("Encoder-1-")
            first, *second = row.output_shape.strip("[]").replace("), (", ")|(").split("|")
            expected.append((f"{layer} ({row.type})", first, f"{row.params:,}"))
            expected += [("", shape) for shape in second]
    assert cells == expected
    rules = [line for line in text.splitlines() if set(line) == {"_"}]
    assert len(rules) == 2  # before the blocks, and after them
    assert "Total params: 109,705,010\n" in text


def test_a_narrow_terminal_shows_the_short_form_without_types(small, capsys, monkeypatch):
    model = kbert.build_bert(small)
    monkeypatch.setattr("kbert.model.bert_model.width_shown", lambda: 200)
    model.summary(collapse=True)
    wide = capsys.readouterr().out
    monkeypatch.setattr("kbert.model.bert_model.width_shown", lambda: 65)
    model.summary(collapse=True)
    narrow = capsys.readouterr().out
    assert max(map(len, narrow.splitlines())) <= 65 < max(map(len, wide.splitlines()))
    untyped = [(re.sub(r" \(\w+\)$", "", cells[0]), *cells[1:]) for cells in read_short(wide)]
    assert read_short(narrow) == untyped


@pytest.mark.parametrize("graph", ["--max-predictions 20", "--head classifier"])
def test_selected_positions_are_another_block(capsys, graph):
    options = (*graph.split(), "--selected-positions", "--collapse")
    titles = [cells[0] for cells in read_short(run(capsys, "summary", "base", *options).out)]
    assert [title for title in titles if title.startswith(("11", "12", "Encoder"))] == [
        "11 × Encoder-n, n = 1 … 11, each",
        "Encoder-12",
    ]


def test_summary_of_a_built_model_is_the_commands(small, capsys):
    model = kbert.build_bert(small)
    whole: list[str] = []
    model.summary(print_fn=whole.append)
    for form in ("text", "latex"):
        lines: list[str] = []
        model.summary(collapse=True, format=form, print_fn=lines.append)
        assert len(lines) < len(whole) and any(
            "3 " in line and "Encoder-n" in line for line in lines
        )
    lines = []
    model.summary(format="latex", print_fn=lines.append)
    assert sum("Encoder-" in line for line in lines) == 3 * 8
    again: list[str] = []
    model.summary(print_fn=again.append)
    assert again == whole and sum(line.startswith("Encoder-") for line in whole) == 3 * 8
    with raises(ValueError, "collapse", "lora_rank"):
        model.summary(collapse=True, lora_rank=2)
    with raises(ValueError, "format", "html"):
        model.summary(format="html")


def test_two_models_stand_side_by_side_with_their_ratio(capsys):
    comparison = kbert.compare_accounts({name: kbert.account(name) for name in TOTALS})
    lines = {name: values for name, *values in comparison.lines}
    assert comparison.header == ("", "base", "large", "large ÷ base")
    assert lines["parameters"][:2] == list(TOTALS.values())
    assert {name: lines[name][-1] for name in LARGE_DIVIDED} == LARGE_DIVIDED
    text = run(capsys, "account", "base", "large").out
    assert max(map(len, text.splitlines())) <= 80
    (line,) = (line for line in text.splitlines() if line.startswith("parameters"))
    assert line.split() == ["parameters", "109,705,010", "335,691,058", "3.06"]
    table = run(capsys, "account", "base", "large", "--format", "latex").out
    assert table == comparison.to_latex()
    assert r"parameters & 109,705,010 & 335,691,058 & 3.06 \\" in table
    assert r"large $\div$ base" in table


def test_three_models_have_no_ratio_and_one_is_refused():
    accounts = {name: kbert.account(name) for name in ("tiny", "base", "large")}
    comparison = kbert.compare_accounts(accounts)
    assert {len(line) for line in comparison.lines} == {4}
    with raises(ValueError, "two"):
        kbert.compare_accounts({"tiny": accounts["tiny"]})
