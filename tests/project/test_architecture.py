"""What docs/architecture.md and CONTRIBUTING.md say of the tree is so."""

import re
import sys
import traceback
from collections import Counter
from pathlib import Path

import pytest
from helpers.run_shards import CONFIG, SETTINGS, make_shards
from helpers.sizes import ROOT

import kbert
from kbert.training import loss

PACKAGE = Path(kbert.__file__).parent
PAGES = [ROOT / "docs" / "architecture.md", ROOT / "CONTRIBUTING.md"]
FILE = r"`((?:kbert|tests|docs|\.ci)/[\w./]+)`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_that_is_named_is_there(page):
    named = re.findall(FILE, page.read_text(encoding="utf-8"))
    assert len(named) > 2
    assert not [name for name in named if not (ROOT / name).exists()]


def test_the_top_of_the_house_has_twelve_entries_and_each_says_who_may_come_in():
    entries = [entry for entry in PACKAGE.iterdir() if entry.name != "__pycache__"]
    assert len(entries) <= 12, sorted(entry.name for entry in entries)
    for folder in [entry for entry in entries if entry.is_dir()]:
        first, _, rest = (folder / "__init__.py").read_text(encoding="utf-8").partition("\n")
        assert first.startswith('"""') and "import" in rest, folder


@pytest.mark.full
def test_five_files_lie_between_the_call_and_the_gradient(tmp_path, monkeypatch):
    """The frames of kbert that are open when the loss is computed whose gradient is taken."""
    walk = (
        (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").partition("Five files")[2]
    )
    told = re.findall(r"^\d\. `(kbert/[\w/]+\.py)`", walk, re.MULTILINE)
    seen = []
    real = loss.objective

    def objective(*arguments):
        files = [frame.filename for frame in traceback.extract_stack(sys._getframe(1))]
        seen.append([Path(file) for file in files if Path(file).is_relative_to(PACKAGE)])
        return real(*arguments)

    monkeypatch.setattr(loss, "objective", objective)
    make_shards(tmp_path)
    config = kbert.BertConfig.from_dict(CONFIG)
    options = SETTINGS | {"steps": 1}
    kbert.pretrain(tmp_path / "shards", config, output=tmp_path / "run", show=False, **options)
    files = [str(file.relative_to(PACKAGE.parent)) for file in seen[0]]
    assert list(dict.fromkeys(files)) == told


def test_no_two_modules_of_the_tests_share_a_name():
    """pytest imports each by its name alone, and refuses the second of two."""
    names = [file.stem for file in (ROOT / "tests").rglob("*.py") if file.stem != "conftest"]
    assert [name for name, times in Counter(names).items() if times > 1] == []
