"""A headless Chromium for pages that lie on the disk, and what they must not do there."""

import os
import shutil

import pytest


@pytest.fixture(scope="session")
def browser():
    """Debian's Chromium, driven by Playwright: apt-get install chromium, pip install playwright."""
    api = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if path is None:
        pytest.skip("no Chromium: apt-get install chromium, or name one in CHROMIUM")
    options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=options)
        yield started
        started.close()
