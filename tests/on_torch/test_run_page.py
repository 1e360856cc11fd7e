"""The page of a real run: there from before the first step, kept by a resumed run, its code."""

import html
import os
import re
import subprocess
import sys

import keras
import pytest
from helpers.errors import raises
from helpers.interrupted_run import Crash
from helpers.labelled_texts import QUIET, tune

import kbert

pytestmark = pytest.mark.full

COUNTS = re.compile(r'<td class="(?:hit|miss) s\d+">(\d+)</td>')


class Pages(keras.callbacks.Callback):
    """The run's page at its begin, and after each step."""

    def __init__(self, folder):
        super().__init__()
        self.file, self.begin, self.steps = folder / "report.html", "", []

    def on_train_begin(self, logs=None):
        self.begin = self.file.read_text(encoding="utf-8")

    def on_train_batch_begin(self, batch, logs=None):
        self.steps.append(self.file.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def whole(labelled, tmp_path_factory):
    """A run to its end, of nine steps, and its pages."""
    folder = tmp_path_factory.mktemp("pages") / "run"
    pages = Pages(folder)
    return tune(labelled, folder, callbacks=[pages]), pages


def test_page_is_there_from_the_first_step(whole):
    _, pages = whole
    assert "0 of 9 steps done" in pages.begin and 'data-refresh="10"' in pages.begin
    assert "There are no numbers yet" in pages.begin
    assert any(" 1 of 9 steps done" in page and "training loss" in page for page in pages.steps)


def test_finished_page_has_what_a_reader_asks_for(whole):
    run, _ = whole
    page = (run.folder / "report.html").read_text(encoding="utf-8")
    for text in ("Finished", "Started from", "source", "learning_rate", "Confusion matrix"):
        assert text in page
    assert 'data-refresh="0"' in page and re.search(r"started \d{4}-\d\d-\d\d \d\d:\d\d UTC", page)
    counts = [int(count) for count in COUNTS.findall(page)]
    assert len(counts) == 4 and sum(counts) == 23
    right = counts[0] + counts[3]
    assert right / 23 == pytest.approx(run.metrics["accuracy"])  # of the weights that were kept
    assert "baseline 52.2%: always “good”" in html.unescape(page)  # 12 of 23, 20 of 39 in training


def test_error_in_the_page_changes_nothing_of_the_run(whole, labelled, tmp_path, monkeypatch):
    def fail(*given, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("kbert.training.run.report_page.write_page", fail)
    monkeypatch.setattr(
        "kbert.tasks.classification.training.Classification.describe_predictions", fail
    )
    run = tune(labelled, tmp_path / "run")
    assert not (tmp_path / "run/report.html").exists()
    assert run.metrics == whole[0].metrics
    result = (whole[0].folder / "result.json").read_text()
    assert (tmp_path / "run/result.json").read_text() == result


@pytest.mark.full
def test_resumed_page_ends_as_that_of_a_run_that_never_stopped(whole, labelled, tmp_path):
    with raises(RuntimeError, "crash"):
        tune(labelled, tmp_path / "run", callbacks=[Crash(7)], save_every=3)
    page = (tmp_path / "run/report.html").read_text(encoding="utf-8")
    assert "Interrupted" in page and "kbert.resume(&#x27;run&#x27;)" in page
    pages = Pages(tmp_path / "run")
    kbert.resume(tmp_path / "run", callbacks=[pages], **QUIET)
    assert "Confusion matrix" in pages.begin  # of the evaluation before the crash
    ends = [
        (folder / "report.html").read_text(encoding="utf-8").partition("<!--predictions-->")[2]
        for folder in (tmp_path / "run", whole[0].folder)
    ]
    sections = [end.partition("<!--end of predictions-->")[0] for end in ends]
    assert sections[0] == sections[1] != ""


@pytest.mark.full
def test_run_without_examples_stays_without_when_resumed(labelled, tmp_path):
    with raises(RuntimeError, "crash"):
        tune(labelled, tmp_path / "run", callbacks=[Crash(4)], report_examples=False)
    kbert.resume(tmp_path / "run", **QUIET)
    page = (tmp_path / "run/report.html").read_text(encoding="utf-8")
    assert "Confusion matrix" in page
    for line in (labelled / "dev.tsv").read_text().splitlines():
        assert line.partition("\t")[0] not in page


@pytest.mark.full
@pytest.mark.parametrize("task", ["classify", "pairs", "regress", "tag", "embed"])
def test_code_of_the_page_runs(labelled, tmp_path, task):
    """In a process of its own, in the folder that the page names: Python, and the command."""
    texts = ["a red cat", "the big dog", "sun and moon", "tree ."] * 4
    rows = {
        "classify": [(text, "yn"[n % 2]) for n, text in enumerate(texts)],
        "pairs": [(text, texts[n - 1], "yn"[n % 2]) for n, text in enumerate(texts)],
        "regress": [(text, n / 3) for n, text in enumerate(texts)],
        "tag": [(text.split(), ["O" for _ in text.split()[1:]] + ["B-X"]) for text in texts],
        "embed": [(f"{text} {n}", f"{text} a {n}") for n, text in enumerate(texts)],
    }[task]
    run = tmp_path / "a run's folder"
    name = "classify" if task == "pairs" else task
    options = {"epochs": 1, "batch_size": 8, "output": run} | QUIET
    kbert.finetune(labelled / "source", name, train=rows, dev=rows, **options)
    page = (run / "report.html").read_text(encoding="utf-8")
    python, command = map(html.unescape, re.findall(r"<pre><code>(.*?)</code></pre>", page, re.S))
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    root = os.path.dirname(os.path.dirname(kbert.__file__))
    options = {"cwd": tmp_path, "check": True, "capture_output": True, "text": True}
    options["env"] = os.environ | {"PATH": path, "PYTHONPATH": root}
    out = subprocess.run([sys.executable, "-c", python], **options).stdout
    assert out.strip()
    assert command.startswith("kbert ")
    out = subprocess.run(f"{sys.executable} -m {command}", shell=True, **options).stdout
    assert out.strip()
