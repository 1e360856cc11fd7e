import inspect
from importlib.util import find_spec
from pathlib import Path

import pytest
from helpers.docstrings import find_fragments, is_fragment

import kbert


def public_files() -> list[Path]:
    return [Path(find_spec(module).origin) for module in sorted(set(kbert._PUBLIC.values()))]


def all_files() -> list[Path]:
    return sorted(Path(kbert.__file__).parent.rglob("*.py"))


@pytest.mark.parametrize("files", [public_files, all_files])
def test_fewer_than_3_percent_of_docstrings_are_fragments(files):
    fragments, count = find_fragments(files())
    assert count > 300
    assert len(fragments) < 0.03 * count, "\n".join(fragments)


@pytest.mark.parametrize("name", sorted(kbert._PUBLIC.keys() - {"PRESETS", "base", "large"}))
def test_a_public_name_has_a_docstring_that_begins_with_a_sentence(name):
    summary = inspect.getdoc(getattr(kbert, name)).split("\n\n")[0]
    assert summary[0].isupper() and summary.endswith("."), summary


@pytest.mark.parametrize(
    ("docstring", "expected"),
    [
        ("What `load` gives.", True),
        ("Of an update.", True),
        ("Whether it is one.", True),
        ("Return the mask.", False),
        ("Offsets of the tokens.", False),
    ],
)
def test_fragments_are_told_by_their_first_word(docstring, expected):
    assert is_fragment(docstring) is expected


def test_fragments_are_found_with_their_places(tmp_path):
    file = tmp_path / "module.py"
    file.write_text('"""A module."""\n\n\ndef mask():\n    """Of the mask: which of those."""\n')
    assert find_fragments([file]) == ([f"{file}:5 Of the mask: which of those."], 2)
