import inspect

import pytest

import kbert


@pytest.mark.parametrize(
    "name", sorted({*kbert.__all__} - {"__version__", "PRESETS", "base", "large"})
)
def test_a_public_name_has_a_docstring_that_begins_with_a_sentence(name):
    summary = inspect.getdoc(getattr(kbert, name)).split("\n\n")[0]
    assert summary[0].isupper() and summary.endswith("."), summary
