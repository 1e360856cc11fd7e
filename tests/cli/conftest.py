"""Share a checkpoint of each head between the tests of the command line."""

import pytest


@pytest.fixture(scope="session")
def saved(small, tmp_path_factory):
    """Return a folder with each head's checkpoint, and the `Bert`s. Tests may add folders."""
    from helpers.small_berts import small_berts

    import kbert

    out = tmp_path_factory.mktemp("saved")
    berts = small_berts(small.replace(num_hidden_layers=2))
    for head, bert in berts.items():
        kbert.save(bert, out / head)
    return out, berts
