"""The page 'BERT in a day': its tables and its chart are what the recorded runs give."""

import numpy as np
import pytest
from helpers.sizes import ROOT

pytest.importorskip("scipy")
from benchmarks.day import fit

PAGE = (ROOT / "docs" / "how_to" / "bert_in_a_day.md").read_text(encoding="utf-8")


def test_a_fit_finds_the_law_that_made_the_losses():
    """Of Hoffmann et al. 2022, section 3.3, with their constants."""
    sizes, tokens = np.meshgrid([7e7, 5e8, 3e9, 1.3e10], [1e9, 7e9, 6e10, 4e11])
    losses = 1.69 + 406.4 / sizes**0.34 + 410.7 / tokens**0.28
    found = fit.fit_loss(sizes.ravel(), tokens.ravel(), losses.ravel())
    assert found.floor == pytest.approx(1.69, rel=0.05)
    assert (found.size_power, found.token_power) == pytest.approx((0.34, 0.28), rel=0.05)
    assert np.abs(found.residuals).max() < 0.01
    assert found.predict(7e10, 1.4e12) == pytest.approx(
        1.69 + 406.4 / 7e10**0.34 + 410.7 / 1.4e12**0.28, rel=0.01
    )


@pytest.mark.full
def test_the_pages_tables_are_those_of_the_runs():
    for table in fit.write_tables():
        assert table in PAGE
    assert fit.CHART.read_text(encoding="utf-8") == fit.draw_chart()


def test_every_run_has_its_budget():
    runs = fit.read_results()
    assert {(run["recipe"], run["size"]) for run in runs} == {
        (recipe, size) for recipe in fit.RECIPES for size in fit.SIZES
    }
    for run in runs:
        planned = 60 * run["minutes"]
        assert 0.8 * planned < run["process_seconds"] < 1.7 * planned
