"""Parameters of tests that only the full or the nightly round runs."""

import pytest


def full(*values):
    return pytest.param(*values, marks=pytest.mark.full)


def nightly(*values):
    return pytest.param(*values, marks=pytest.mark.nightly)
