"""The blocks of code of README and site: what runs here runs, and prints what is shown."""

import re
import shlex

import click
import pytest
from helpers.page_blocks import PAGES, blocks, run, runs, same
from helpers.sizes import ROOT

# Blocks that are run elsewhere: by another test, or by the gate itself.
ELSEWHERE = {"docs/how_to/coming_from.md": "tests/project/test_docs.py", "README.md": ".ci/run"}
RUN_HERE = {  # other tests name them, and only read their text
    "docs/how_to/finetune.md",
    "docs/how_to/several_machines.md",
}
GENERATED = ("docs/_generated/", "docs/notebooks/", "docs/benchmarks/", "docs/contributing/")


def name_of(page) -> str:
    return page.relative_to(ROOT).as_posix()


def pages_with_tests() -> set[str]:
    """Return the names of pages that a test names; then that runs what of them can be run."""
    texts = [test.read_text(encoding="utf-8") for test in (ROOT / "tests").rglob("test_*.py")]
    return set(re.findall(r'["/]([\w-]+\.md)"', "\n".join(texts)))


OURS = [page for page in PAGES if not name_of(page).startswith(GENERATED)]
NAMED = pages_with_tests()
HERE = [
    page
    for page in OURS
    if name_of(page) not in ELSEWHERE and (page.name not in NAMED or name_of(page) in RUN_HERE)
]
WITH_CODE = [page for page in HERE if any(map(runs, blocks(page)))]


@pytest.mark.full
@pytest.mark.parametrize("page", WITH_CODE, ids=name_of)
def test_code_on_a_page_prints_what_is_shown(page, tmp_path, caplog):
    for block, printed in run(page, tmp_path):
        shown = block.text if block.kind == "console" else block.shown and block.shown.text
        if shown is not None:
            assert same(shown, printed), f"{block.text}\nprints\n{printed}\nbut shows\n{shown}"


def commands_that_do_not_run():
    for page in OURS:
        for block in blocks(page):
            lines = block.text.replace("\\\n", " ").splitlines()
            if not runs(block) and block.kind in ("", "bash"):
                found = [line for line in lines if re.search(r"\bkbert [a-z-]+ ", line)]
                yield from (line for line in found if not line.startswith("python benchmarks/"))


@pytest.mark.parametrize("line", list(commands_that_do_not_run()))
def test_commands_on_pages_have_valid_options(line):
    from kbert.cli.main import cli

    _, name, *words = shlex.split(re.search(r"\bkbert [^#&|>;]*", line)[0])
    with click.Context(cli, **cli.context_settings) as context:
        cli.commands[name].make_context(name, words, parent=context)


@pytest.mark.parametrize(
    ("shown", "printed", "equal"),
    [
        ("a\n…\nz", "a\nb\nc\nz", True),
        ("a\n…\nz", "a\nb\nc\ny", False),
        ("0.85 x", "0.86 x", True),
        ("0.85 x", "0.87 x", False),
        ("1.2e-07", "9.0e-07", True),
        ("1.2e-07", "9.0e-05", False),
        ("Bert(… 12)", "Bert(tiny, 12)", True),
        ("[1, 2]", "[1, 2]\n3", False),
        ("1,234", "1,235", False),
    ],
)
def test_comparison_of_printed_and_shown_text(shown, printed, equal):
    assert same(shown, printed) is equal
