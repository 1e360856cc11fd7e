"""How fast the explorer's page answers in Chromium and Firefox: a part of benchmarks.live_page.

A page gets `live_page.js` into its scripts, which measures from inside. Both browsers are headless.
"""

import contextlib
import json
import shutil
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from helpers.firefox import Firefox, find_firefox

LENGTHS = (16, 64, 128)  # tokens, with [CLS] and [SEP]
STAGES = {
    "embeddings": "Embedding-Position",
    "attention": "Encoder-1-MultiHeadSelfAttention",
    "feed-forward": "Encoder-1-FeedForward",
    "residual": "Encoder-1-FeedForward-Add",
    "LayerNorm": "Encoder-1-FeedForward-Norm",
}
WORDS = ("the", "cat", "sat", "on", "the", "mat", ",", "a", "dog", "was", "tired", ".")
LETTERS = "abcdefghijklmnopqrstuvwxyz"
OPENINGS = 3
WARM_UP = 3
BACKSPACE = {"Chromium": "Backspace", "Firefox": "\ue003"}  # as WebDriver writes it
_BROWSER_OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
_SCRIPT = Path(__file__).with_name("live_page.js")
_END = "\n})();\n</script>"  # of the scripts of a page of kbert's
_VIEW = {"width": 1280, "height": 860}


class Browser(Protocol):
    """A window of a browser."""

    def open(self, path: Path) -> None:
        """Open a file, as if nothing had been opened before."""

    def evaluate(self, expression: str):
        """Return an expression's value; a promise is waited for."""

    def press(self, key: str) -> None:
        """Press a key."""


class Chromium:
    """Debian's Chromium, driven by Playwright."""

    def __init__(self, browser):
        self._browser = browser
        self._page = None

    def open(self, path: Path) -> None:
        if self._page:
            self._page.context.close()
        self._page = self._browser.new_context(viewport=_VIEW).new_page()
        self._page.goto(path.as_uri())

    def evaluate(self, expression: str):
        return self._page.evaluate(expression)

    def press(self, key: str) -> None:
        self._page.keyboard.press(key)


@contextlib.contextmanager
def start_browser(name: str) -> Iterator[Browser | None]:
    """Start Chromium or Firefox; None: it is not installed."""
    if name == "Firefox":
        if find_firefox() is None:
            yield None
            return
        with tempfile.TemporaryDirectory() as profile:
            firefox = Firefox(Path(profile))
            try:
                yield firefox
            finally:
                firefox.close()
        return
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        yield None
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=_BROWSER_OPTIONS)
        yield Chromium(browser)
        browser.close()


def write_measured_page(html: str, path: Path) -> Path:
    """Write a page of kbert's, or the prototype's, with what measures it."""
    script = _SCRIPT.read_text(encoding="utf-8")
    if _END in html:
        start, end = html.rsplit(_END, 1)
        holder = 'const [holder, key] = [running, "trace"];'
        html = f"{start}\n{{\n{holder}\n{script}}}{_END}{end}"  # a block: names of its own
    else:  # the prototype keeps its newest result in LAST
        start, end = html.rsplit("</body>", 1)
        holder = 'const [holder, key] = [self, "LAST"];'
        html = f"{start}<script>(() => {{\n{holder}\n{script}}})();</script></body>{end}"
    path.write_text(html, encoding="utf-8")
    return path


def measure_opening(browser: Browser, path: Path, openings: int = OPENINGS) -> dict:
    """Return the first paint and the first result after navigation, in ms: medians."""
    paints, results = [], []
    for _ in range(openings):
        browser.open(path)
        results.append(browser.evaluate("bench.firstResult"))
        paints.append(browser.evaluate("bench.firstPaint()"))
    paint = None if None in paints else statistics.median(paints)
    return {"first paint": paint, "first result": statistics.median(results)}


def measure_keys(browser: Browser, name: str, length: int, keys: int) -> dict:
    """Return the time from a key's event to the frame in which the strips begin to change, in ms.

    The page must be open. A letter is typed at the end of a text, as its own token, and removed.
    """
    words = (WORDS * length)[: length - 3]
    browser.evaluate(f"bench.setText({json.dumps(' '.join([*words, '']))})")
    found = []
    for number in range(WARM_UP + keys):
        found.append(_time_key(browser, LETTERS[number % len(LETTERS)]))
        _time_key(browser, BACKSPACE[name])
    if any(one["tokens"] != length for one in found):
        raise RuntimeError(f"expected {length} tokens, got {found[0]['tokens']}")
    pictures = sorted(one["picture"] for one in found[WARM_UP:])
    models = [one["model"] for one in found[WARM_UP:]]
    return {
        "median": statistics.median(pictures),
        "third-best": pictures[min(2, len(pictures) - 1)],
        "of it the model": statistics.median(models),
    }


def _time_key(browser: Browser, key: str) -> dict:
    browser.evaluate("bench.watchKey()")
    browser.press(key)
    return browser.evaluate("bench.keystroke")


def measure_stages(browser: Browser, count: int) -> dict[str, float]:
    """Return the time in ms that scripts and layout take to draw each stage: medians."""
    return {
        name: statistics.median(browser.evaluate(f"bench.timeStage({layer!r}, {count})"))
        for name, layer in STAGES.items()
    }


def measure_page(
    browser: Browser, name: str, path: Path, lengths: tuple[int, ...], keys: int
) -> dict:
    """Return the times of a page: of its opening, of keys by tokens, of stages by tokens."""
    found = measure_opening(browser, path) | {"keys": {}, "stages": {}}
    for length in lengths:
        browser.open(path)  # with nothing chosen, as a page opens
        browser.evaluate("bench.firstResult")
        found["keys"][length] = measure_keys(browser, name, length, keys)
        if browser.evaluate("bench.hasStage"):
            found["stages"][length] = measure_stages(browser, keys)
    return found
