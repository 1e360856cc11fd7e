"""What the site takes from the code is whole: each name, option, message, total and test."""

import re
import sys
import tomllib

import pytest
from helpers.sizes import ROOT

import kbert
from kbert.graph.reference import document_004
from kbert.hub.names import list_known_models

DOCS = ROOT / "docs"
sys.path.append(str(DOCS))

from from_code import (  # noqa: E402
    accounting,
    commands,
    environment,
    mermaid,
    models,
    presets,
    tables,
    versions,
)
from from_code.steps import STEPS  # noqa: E402


def test_14_steps_add_up_to_109705010_parameters():
    rows = {row.layer: row.params for row in document_004()}
    assert len(STEPS) == 14
    assert sum(rows[step.layer] * step.times for step in STEPS) == 109_705_010


def test_site_has_a_picture_in_each_step_and_loses_no_text():
    page = (DOCS / "concepts" / "steps.md").read_text(encoding="utf-8")
    shown = accounting.with_pictures(page)
    for number, step in enumerate(STEPS, 1):
        part = shown.partition(f"## {number}. {step.title}\n")[2].partition("\n## ")[0]
        assert f"](../_generated/steps/{number}.svg)" in part
        assert part.count("\n:::\n") == 2 and part.count("::::{div} step\n") == 1
    without = re.sub(r"(?m)^(::+.*|!\[Step .*)\n", "", shown)
    assert without.split() == page.split()


def test_every_option_is_on_the_commands_page():
    from kbert.cli.main import cli

    text = commands.page()
    for name, command in cli.commands.items():
        part = text.partition(f"### kbert {name}\n")[2].partition("\n### ")[0]
        for parameter in command.params:
            assert all(option in part for option in parameter.opts if option[0] == "-"), name
        assert all(example in part for example in command.examples)


@pytest.mark.full
def test_every_environment_variable_is_documented():
    found = environment.variables()
    assert {"TF_CONFIG", "WORLD_SIZE", "NO_COLOR", "KBERT_TRACEBACK"} <= set(found)
    assert sorted(set(found) - set(environment.MEANINGS)) == []
    assert sorted(set(environment.MEANINGS) - set(found)) == []


def test_preset_page_totals_are_the_published_ones():
    lines = [line.split(" | ") for line in presets.published().splitlines() if "KerasHub" in line]
    assert len(lines) >= 5
    for *_, published, counted in lines:
        assert published == counted.removesuffix(" |")
    page = presets.page()
    assert all(f"| `{name}` |" in page for name in kbert.PRESETS)


def test_tables_on_pages_are_those_of_the_code():
    """`python docs/from_code` writes them again."""
    pages = tables.make_pages(DOCS)
    assert len(pages) > 20
    stale = [page.name for page, text in pages.items() if page.read_text(encoding="utf-8") != text]
    assert stale == []


def test_every_public_name_has_a_page_of_the_api():
    index = (DOCS / "reference" / "api.md").read_text(encoding="utf-8")
    for name in kbert.__all__:
        if name == "__version__":
            continue
        page = re.search(rf"\| \[`{name}`\]\((api/\w+\.md)#kbert\.{name}\)", index)[1]
        assert f":: kbert.{name}\n" in (DOCS / "reference" / page).read_text(encoding="utf-8")


def test_every_published_model_is_in_a_table():
    lines = [line for line in models.page().splitlines() if line.startswith("| `")]
    assert len(lines) == len(list_known_models())


def test_every_requirement_is_on_the_versions_page():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    count = len(project["dependencies"]) + sum(map(len, extras))
    assert versions.page().count("\n| ") == count + 2  # and two lines of its head
    assert "| dask | `distributed` | 2025.1 | 2028 |" in versions.page()


def test_mermaid_flowchart_converts_to_graphviz():
    dot = mermaid.to_dot('flowchart TB\n  a["<b>A</b>"]\n  a --> graph & c\n  c --> d --> a\n')
    assert '"a" [label=<<b>A</b>>]' in dot
    for edge in ('{"a"} -> {"graph" "c"}', '{"c"} -> {"d"}', '{"d"} -> {"a"}'):
        assert edge in dot


@pytest.mark.parametrize("name", ["equality.md", "kills.md"])
def test_each_claim_of_trust_names_an_existing_test(name):
    """And where it states a tolerance, that stands in the test's file."""
    lines = [
        line
        for line in (DOCS / "benchmarks" / name).read_text(encoding="utf-8").splitlines()
        if line.startswith("| ") and "`tests/" in line
    ]
    assert len(lines) >= 10
    for line in lines:
        file, _, test = re.search(r"`(tests/[^`]+)`", line)[1].partition("::")
        text = (ROOT / file).read_text(encoding="utf-8")
        assert not test or f"def {test}(" in text, line
        tolerance = re.search(r"\| (\de-\d) \|", line)
        assert not tolerance or tolerance[1] in text, line


def test_version_changelog_and_citation_agree():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^## ([\d.]+)", changelog, re.MULTILINE)[1] == kbert.__version__
    assert f"\nversion: {kbert.__version__}\n" in citation


@pytest.mark.parametrize("name", ["cpu", "cuda", "tpu"])
def test_dockerfile_copies_existing_files(name):
    lines = (ROOT / "docker" / f"{name}.Dockerfile").read_text(encoding="utf-8").splitlines()
    copied = [word for line in lines if line.startswith("COPY") for word in line.split()[1:-1]]
    text = "\n".join(lines)
    defaults = dict(re.findall(r"^ARG (\w+)=(\S+)$", text, re.MULTILINE))
    text = re.sub(r"\$\{(\w+)\}", lambda match: defaults[match[1]], text)
    extra = re.search(r'"\.\[([\w-]+)\]"', text)[1]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    assert extra in extras
    for argument in re.findall(r"EXTRA=([\w-]+)", text):
        assert argument in extras
    backend = re.search(r"KERAS_BACKEND=(\w+)", text)
    assert extra.startswith(backend[1] if backend else "tensorflow") or extra == "tpu"
    assert {"pyproject.toml", "README.md", "kbert"} <= set(copied)
    assert all((ROOT / place).exists() for place in copied)
