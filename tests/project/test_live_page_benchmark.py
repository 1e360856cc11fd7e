"""benchmarks/live_page.py on a small model: its figures are those of other ways to get them."""

import json
import re

import pytest
from helpers.live_pages import write_live_checkpoint

pytest.importorskip("py_mini_racer", reason="pip install -e '.[test]': an engine of JavaScript")
from benchmarks import live_browsers, live_page

pytestmark = pytest.mark.full

WORDS = ["the", "cat", "sat", "on", "the", "mat", "it", "was", "tired", "a", "dog", "walks"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for name in ("sst2", "wikitext-2"):
        (folder / name).mkdir()
    reviews = [" ".join(WORDS[:length]) for length in range(2, len(WORDS))]
    (folder / "sst2" / "dev.tsv").write_text("".join(f"{text}\t1\n" for text in reviews))
    (folder / "wikitext-2" / "test.txt").write_text(" = Mats = \n \n " + " ".join(WORDS * 3))
    return folder


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return write_live_checkpoint(tmp_path_factory.mktemp("live") / "model")


@pytest.fixture(scope="module")
def pages(checkpoint):
    return live_page.write_pages(checkpoint)


def test_differences_from_kbert_grow_with_smaller_weights(checkpoint, pages, data):
    texts = live_page.read_texts(data, 8)
    assert len(texts) == 8 and sum(pair is not None for _, pair in texts) == 2
    found = live_page.measure_agreement(checkpoint, pages, texts)
    hidden = [found[name]["hidden states"] for name in ("float32", "float16", "int8")]
    assert 0 < hidden[0]["absolute"] <= 1e-5 < hidden[1]["absolute"] < hidden[2]["absolute"]


@pytest.fixture
def started(request):
    """The browser of a name; Chromium is the tests' own: a process has one Playwright."""
    if request.param == "Chromium":
        yield live_browsers.Chromium(request.getfixturevalue("browser"))
        return
    with live_browsers.start_browser(request.param) as browser:
        if browser is None:
            pytest.skip(f"no {request.param}")
        yield browser


@pytest.mark.parametrize(
    ("name", "started"), [("Chromium", "Chromium"), ("Firefox", "Firefox")], indirect=["started"]
)
def test_every_time_is_measured(name, started, pages, tmp_path):
    path = live_browsers.write_measured_page(pages["int8"], tmp_path / "page.html")
    found = live_browsers.measure_page(started, name, path, (16,), keys=3)
    assert 0 < found["first result"] < 60_000
    keys = found["keys"][16]
    assert 0 < keys["of it the model"] < keys["third-best"]
    assert keys["median"] <= keys["third-best"]  # of three
    assert found["stages"][16].keys() == live_browsers.STAGES.keys()
    assert all(0 < time < 60_000 for time in found["stages"][16].values())


def test_command_prints_a_table_and_json(checkpoint, data, monkeypatch, capsys):
    monkeypatch.setattr(live_page, "SMALL_MODEL", checkpoint)
    line = [str(data), "--only", "agreement", "sizes", "--texts", "4"]
    monkeypatch.setattr("sys.argv", ["live_page", *line, "--checkpoint", str(checkpoint)])
    assert live_page.main() == 0
    *table, record = capsys.readouterr().out.splitlines()
    assert all(re.fullmatch(r"\|(?:[^|]*\|){4}", row) for row in table)
    found = json.loads(record)
    assert found["processor"] and found["versions"]["keras"]
    assert found["sizes"].keys() & {"checkpoint, int8"} and "speed" not in found


def test_a_figure_above_its_limit_is_told():
    speed = {"first paint": None, "first result": 5001.0, "stages": {}}
    speed["keys"] = {16: {"median": 101.0, "third-best": 90.0, "of it the model": 20.0}}
    found = {"speed": {"Chromium": {"MiniLM int8": speed, "version": "1"}}}
    found["candidates"] = {"int8": {"masks": 9, "mean": 9.4, "share with 9": 0.8, "lowest": 7}}
    kept = [row[-1] for row in live_page.list_rows(found)]
    assert kept == ["yes", "", "NO", "", "NO", "NO"]
