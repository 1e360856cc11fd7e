"""The list of mutations, tests/mutations.toml, fits the code and the tests."""

from helpers.mutations import ROUNDS, read_list
from helpers.sizes import ROOT

MUTATIONS = read_list()


def test_mutations_are_in_the_code_and_their_tests_exist():
    for one in MUTATIONS:
        one.mutate(ROOT)
        file, _, name = one.test.partition("[")[0].partition("::")
        assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), one.test


def test_at_least_34_of_40_mutations_are_for_the_default_round():
    assert len({one.name for one in MUTATIONS}) == len(MUTATIONS) >= 40
    rounds = [one.round for one in MUTATIONS]
    assert set(rounds) <= set(ROUNDS) and rounds.count("default") >= 34
