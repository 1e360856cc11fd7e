"""Pages in headless Chromium, driven by Playwright; a test is skipped where either is missing."""

import contextlib
import os
import shutil
from pathlib import Path

import pytest

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def chromium():
    """The path of Chromium; what needs it is skipped without it, or without Playwright."""
    pytest.importorskip("playwright.sync_api", reason="pip install playwright: drives a browser")
    if CHROMIUM is None:
        pytest.skip("no chromium on PATH: apt-get install chromium")
    return CHROMIUM


@contextlib.contextmanager
def launcher():
    """A function that starts Chromium, with variables for its environment; all end with it."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        yield lambda **environment: playwright.chromium.launch(
            executable_path=chromium(), args=ARGUMENTS, env=os.environ | environment
        )


@contextlib.contextmanager
def opened(browser, path: Path, fragment: str = "", *, width=1280, height=860, scheme="light"):
    """A page from a file; at the end no line in the console, no request that left the file."""
    said: list[str] = []
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, accept_downloads=True
    )
    page = context.new_page()
    page.set_default_timeout(10_000)
    page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: said.append(f"error: {error}"))
    page.on("request", lambda request: said.extend(_outside(request.url)))
    page.goto(f"{path.as_uri()}{fragment}")
    try:
        yield page
    finally:
        context.close()
    assert said == []


def _outside(url: str) -> list[str]:
    return [] if url.startswith(("file:", "data:", "blob:", "about:")) else [f"request: {url}"]
