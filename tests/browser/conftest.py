"""Pages that lie on the disk, in the headless Chromium of tests/conftest.py."""

import pytest


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
