"""One headless Chromium for all pages that lie on the disk, driven by Playwright."""

import os
import shutil

import pytest

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


@pytest.fixture(scope="session")
def launch():
    """Start a browser, with variables for its environment; all end with the tests."""
    api = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("no chromium on PATH: apt-get install chromium")
    with api.sync_playwright() as playwright:
        yield lambda **environment: playwright.chromium.launch(
            executable_path=path, args=ARGUMENTS, env=os.environ | environment
        )


@pytest.fixture(scope="session")
def browser(launch):
    return launch()


@pytest.fixture
def open_page(browser):
    """Open a page from a file, which may write no line to the console and request nothing else."""
    messages, contexts = [], []

    def check_request(request):
        if not request.url.startswith(("file:", "data:", "blob:", "about:")):
            messages.append(f"request: {request.url}")

    def open_page(path, fragment="", *, width=1280, height=860, scheme="light", browser=browser):
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, accept_downloads=True
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("console", lambda message: messages.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: messages.append(f"error: {error}"))
        page.on("request", check_request)
        page.goto(f"{path.as_uri()}{fragment}")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert messages == []


@pytest.fixture
def find_violations():
    """Return what axe objects to on a page: each rule and the first element."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe's rules")

    def find(page) -> list[tuple[str, str]]:
        violations = axe.Axe().run(page).response["violations"]
        return [(one["id"], one["nodes"][0]["html"]) for one in violations]

    return find
