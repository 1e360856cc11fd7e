"""One headless Chromium for all pages that lie on the disk."""

import pytest
from helpers.browser_pages import chromium, launcher


@pytest.fixture(scope="session")
def launch():
    """Starts browsers, see `browser_pages.launcher`."""
    chromium()
    with launcher() as launch:
        yield launch


@pytest.fixture(scope="session")
def browser(launch):
    return launch()
