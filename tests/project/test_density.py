"""The code stays plain: short functions of plain statements, in paragraphs."""

import pytest
from helpers.sizes import ROOT
from project.density import measure

NONE = ("unpacked literal", "comprehension of two loops", "list times condition", "loop over one")
FEW = ("crowded statement", "walrus", "map or filter", "empty name")


@pytest.fixture(scope="module")
def density():
    return measure(ROOT / "kbert")


@pytest.mark.parametrize("construct", NONE)
def test_some_constructs_do_not_occur(density, construct):
    assert density.places[construct] == []


@pytest.mark.parametrize("construct", FEW)
def test_others_are_rare(density, construct):
    assert density.per_thousand(construct) <= 1, density.places[construct]


def test_functions_are_short_and_have_paragraphs(density):
    assert density.above(400) == []
    assert len(density.above(300)) <= 60, density.above(300)
    assert len(density.unbroken) <= 0.1 * len(density.long), density.unbroken


def test_lines_are_not_crowded(density):
    assert density.tokens <= 8.5 * density.lines, density
