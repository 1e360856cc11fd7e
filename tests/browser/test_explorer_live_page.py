"""The engine in a browser: in a worker or in the page, with weights inside or beside it."""

import numpy as np
import pytest
from helpers.live_pages import Page, write_live_checkpoint

import kbert

pytestmark = pytest.mark.full

TEXT = "The cat [MASK] on the mats, xyz."
# A policy of a server, as some notebooks have it; a page in a file may have it in its head too.
POLICY = (
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; style-src '
    "'unsafe-inline'; font-src data:; script-src 'unsafe-inline'; worker-src {worker}\">"
)
RUN = """async (text) => {
  const model = await self.openLive();
  const trace = await model.run({ text, pair: null });
  const last = trace.tensors.get("Encoder-3-FeedForward-Norm");
  return { state: [...last.data], shape: last.shape, workers: self.workers, isFast: model.isFast };
}"""
# What the page's scripts keep to themselves, and how many workers they start.
HOOK = """
self.openLive = async () => {
  while (!running.model) await new Promise((resolve) => setTimeout(resolve, 10));
  return running.model;
};
"""
COUNT = """<script>
self.workers = 0;
const { Worker: Started } = self;
self.Worker = class extends Started {
  constructor(...options) {
    super(...options);
    self.workers += 1;
  }
};
</script>"""


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return write_live_checkpoint(tmp_path_factory.mktemp("live") / "model")


@pytest.fixture(scope="module")
def expected(checkpoint):
    page = Page(kbert.explore(checkpoint, weights="float32").html)
    page.run(TEXT)
    return page.tensor("Encoder-3-FeedForward-Norm")


def write_hooked(path, policy: str = ""):
    """Make a page's model reachable, and give the page a policy."""
    start, end = path.read_text(encoding="utf-8").rsplit("\n})();\n</script>", 1)
    head = start.replace("<head>", f"<head>{policy}{COUNT}", 1)
    path.write_text(f"{head}\n{HOOK}\n}})();\n</script>{end}", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("policy", "is_fast"),
    [("", True), (POLICY.format(worker="blob:"), False)],
    ids=["free", "no-webassembly"],
)
def test_a_page_computes_in_a_worker(open_page, checkpoint, expected, tmp_path, policy, is_fast):
    path = kbert.explore(checkpoint, tmp_path / "page.html", weights="float32").path
    found = open_page(write_hooked(path, policy)).evaluate(RUN, TEXT)
    state = np.array(found["state"]).reshape(found["shape"])
    np.testing.assert_allclose(state, expected, atol=1e-5)
    assert found["workers"] == 1 and found["isFast"] == is_fast


def test_a_page_without_workers_computes_itself(browser, checkpoint, expected, tmp_path):
    path = kbert.explore(checkpoint, tmp_path / "page.html", weights="float32").path
    page = browser.new_page()  # the browser itself tells the console of what it refuses
    page.goto(write_hooked(path, POLICY.format(worker="'none'")).as_uri())
    found = page.evaluate(RUN, TEXT)
    page.close()
    state = np.array(found["state"]).reshape(found["shape"])
    np.testing.assert_allclose(state, expected, atol=1e-5)


def test_weights_beside_a_page_are_loaded(open_page, checkpoint, expected, tmp_path):
    path = tmp_path / "a page #1.html"
    kbert.explore(checkpoint, path, weights="float32", beside=True)
    found = open_page(write_hooked(path)).evaluate(RUN, TEXT)
    state = np.array(found["state"]).reshape(found["shape"])
    np.testing.assert_allclose(state, expected, atol=1e-5)


def test_missing_and_foreign_weights_are_named(browser, checkpoint, tmp_path):
    path = tmp_path / "page.html"
    kbert.explore(checkpoint, path, beside=True)
    beside = tmp_path / "page.weights.js"
    write_hooked(path)
    page = browser.new_page()
    for change, word in (
        (lambda: beside.write_text("self.kbertWeights = {digest: '', parts: []};"), "another"),
        (lambda: beside.write_text("// nothing"), "damaged"),
        (beside.unlink, "beside"),
    ):
        change()
        page.goto(path.as_uri())
        problem = page.get_by_text("The model could not be started: page.weights.js")
        problem.wait_for()
        assert word in problem.inner_text()
    page.close()
