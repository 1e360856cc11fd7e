"""What README and the pages of what stood there show is what the code gives."""

import re
import sys

import pytest
from helpers.page_blocks import run, same
from helpers.sizes import ROOT

import kbert
from benchmarks import report
from kbert.graph.published_totals import reconcile_totals
from kbert.graph.reference import document_004
from kbert.show.diagrams import collapse_blocks, to_mermaid

sys.path.append(str(ROOT / "docs"))
from from_code import speed_chart

README = (ROOT / "README.md").read_text(encoding="utf-8")


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def test_mermaid_block_is_the_graph_of_bert_base():
    (block,) = re.findall(r"```mermaid\n(.*?)```", page("concepts/mermaid.md"), re.DOTALL)
    assert block == to_mermaid(*collapse_blocks(document_004()))


@pytest.mark.full
def test_readme_picture_is_what_plot_draws(tmp_path):
    pygraphviz = pytest.importorskip("pygraphviz")
    if (sys.platform, pygraphviz.__version__) != ("linux", "2.0.4"):
        pytest.skip("the picture was drawn on Linux with pygraphviz 2.0.4")
    model = kbert.build_bert("base")
    drawn = kbert.plot(model, tmp_path / "bert.png").read_bytes()
    assert drawn == (ROOT / "docs" / "bert.png").read_bytes()


@pytest.mark.full
def test_readme_python_examples_print_what_is_shown(tmp_path):
    """Some ten lines that load, embed, fine-tune and save; then the summary."""
    found = list(run(ROOT / "README.md", tmp_path))
    assert [sum(map(bool, block.text.splitlines())) for block, _ in found] == [11, 1]
    for block, printed in found:
        assert same(block.shown.text, printed), printed
    assert (tmp_path / "reviews" / "config.json").is_file()


def test_readme_is_at_most_120_lines():
    assert len(README.splitlines()) <= 120


def test_totals_page_shows_what_the_command_prints():
    for step in reconcile_totals(kbert.base):
        assert f"{step.sign + step.amount:>13}  {step.text}\n" in page("concepts/totals.md")


def test_every_public_name_is_on_the_calls_page():
    calls = page("reference/calls.md")
    missing = [name for name in kbert.__all__ if name not in calls and name != "__version__"]
    assert missing == []


def test_every_command_is_on_the_commands_page():
    from kbert.cli.main import cli

    commands = page("reference/commands.md")
    assert [name for name in cli.commands if f"`kbert {name}" not in commands] == []


def test_every_dependency_is_on_its_page():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    table = page("reference/dependencies.md")
    for requirement in project["dependencies"]:
        assert re.match(r"[a-z]+", requirement)[0] in table


def test_readme_links_exist():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def test_speed_page_shows_the_recorded_ratios():
    _, _, table = page("benchmarks/speed.md").partition("\n| row |")
    table, _, _ = table.partition("\n\n")
    shown = [cells_of(line) for line in table.splitlines()[2:]]
    recorded = {
        (one["processor"], one["row"]): f"{one['ratio']:.2f}"
        for one in report.records()
        if not one["noisy"]
    }
    _, *processors = cells_of(table.splitlines()[0])  # after "beside"
    assert len(shown) > 10 and set(processors) < {processor for processor, _ in recorded}
    for row, _, _, *ratios in shown:
        for processor, ratio in zip(processors, ratios, strict=True):
            assert recorded.get((processor, row), "–") == ratio, (row, processor)


def test_speed_chart_is_drawn_from_the_table():
    drawn = (ROOT / "docs" / "benchmarks" / "speed.svg").read_text(encoding="utf-8")
    assert drawn == speed_chart.chart()


def cells_of(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("|")[1:-1]]
