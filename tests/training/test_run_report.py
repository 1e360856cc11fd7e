"""The report page shows what the run's files hold, each curve once, in one file."""

import dataclasses
import html
import math
import re
import shlex
import signal
import statistics
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest
from helpers.errors import check_named
from helpers.run_pages import COMMIT, PEAK, PREDICTIONS, SPEC, lines_of, make_run, plan_of

import kbert
from kbert.io.wording import naming_commands
from kbert.training.loop.loop import NotFinite
from kbert.training.run.curves import HEIGHT, WIDTH, draw_curves
from kbert.training.run.live_report import LiveReport
from kbert.training.run.predictions import (
    AnswerProb,
    LabelScores,
    PredictedExample,
    Predictions,
    TextPiece,
)
from kbert.training.run.record_summary import RecordSummary
from kbert.training.run.report_page import write_report
from kbert.training.run.run_folder import RunFolder
from kbert.training.stopping import Stopped

VOID = {"meta", "br", "link", "img", "input", "hr"}


class Page(HTMLParser):
    """The page as a reader finds it: closed tags, texts by tag, attributes."""

    def __init__(self, text: str):
        super().__init__()
        self.open, self.tags, self.texts = [], [], {}
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        for tag in self.open:
            self.texts.setdefault(tag, []).append(data)

    def all(self, tag: str) -> list[dict]:
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def text(self) -> str:
        body = self.texts["body"]
        return " ".join(body)


def page_of(folder, task: str, lines: list[dict], predictions=None, **result) -> Page:
    run = make_run(folder, task, lines)
    done = {"steps": lines[-1]["step"], "asked": 90, "stopped": None} | result
    records = RecordSummary(run.read_records())
    write_report(run, records, done, plan_of(task), predictions=predictions)
    return Page((folder / "report.html").read_text(encoding="utf-8"))


@pytest.fixture(scope="module", params=["pretrain", "finetune"])
def both(request, tmp_path_factory):
    """(page, lines) of a run of each kind."""
    lines = lines_of(request.param)
    metrics = {"metrics": {"loss": 0.5, "accuracy": 0.875, "f1": 0.75}, "weights_of_update": 60}
    more = metrics if request.param == "finetune" else {}
    folder = tmp_path_factory.mktemp("report") / "a <run> & more"
    return page_of(folder, request.param, lines, **more), lines, request.param


def test_report_facts_match_the_run(both):
    page, lines, task = both
    params = kbert.account(SPEC.config, 1, head=SPEC.head).params
    assert f"3 layers × 24, 4 heads; {params:,} parameters" in page.text
    assert "2m15s" in page.text  # 90 times 1.5 seconds
    speed = statistics.median(line["tokens_per_second"] for line in lines)
    assert f"{speed / 1000:.3g}k tokens a second" in page.text
    assert "CPU, 13 cores; jax, float32" in page.text
    assert "25% of the peak" in page.text and "7 GFLOP/s" in page.text and PEAK in page.text
    assert f"google-bert/bert, commit {COMMIT}" in page.text
    assert "started 2026-11-29 14:03 UTC" in page.text
    assert "17 texts of <tags>" in page.text and "a <run> & more" in page.text
    assert "<b>adamw</b> & co" in page.text  # escaped: else it would be a tag
    shown = page.texts["b"]
    if task == "pretrain":
        assert shown[1:4] == ["0.100", "0.089", "7.1%"]  # 9/90, 8/90, 0.0625 + 0.009
        assert "all 90 steps done" in page.text
    else:
        assert shown[1:4] == ["87.5%", "0.500", "75.0%"]  # the score first
        assert "the weights are from step 60" in page.text
        assert "baseline 56.2%: always “good”" in page.text


def test_every_curve_is_drawn_once(both):
    page, lines, task = both
    names = [attributes["data-name"] for attributes in page.all("polyline")]
    assert len(set(names)) == len(names)
    expected = {name for line in lines for name in line}
    expected -= {"step", "seconds", "tokens_per_second", "mfu"}
    if task == "finetune":
        expected -= {"Classifier_loss"}  # the loss under another name
    assert set(names) == expected


def test_report_is_well_formed_and_self_contained(both):
    page, *_ = both
    assert [len(page.all(tag)) for tag in ("html", "head", "body", "main", "h1")] == [1] * 5
    for tag, attributes in page.tags:
        assert not {"href", "src", "xlink:href", "style"} & set(attributes), tag
        assert tag not in ("link", "img", "iframe")
    style = "".join(page.texts["style"])
    assert "url(" not in style and "@import" not in style
    assert "light-dark(" in style and "http" not in style
    assert any(meta.get("name") == "viewport" for meta in page.all("meta"))
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(set(ids)) == len(ids)
    for picture in page.all("svg"):
        if picture.get("aria-hidden") == "true":  # ornaments: the text says the same
            continue
        assert picture["role"] == "img"
        assert all(name in ids for name in picture["aria-labelledby"].split())
    assert "http" not in "".join(page.texts["script"])


def test_report_never_shows_none_or_nan(both):
    page, *_ = both
    assert not re.search(r"\b(None|null|nan|NaN|True|False)\b", page.text)


def test_stopped_run_shows_its_smoothed_loss(tmp_path):
    lines = [line for line in lines_of("pretrain") if line["step"] <= 29]
    stopped = "a callback stopped it after step 29"
    page = page_of(tmp_path / "run", "pretrain", lines, stopped=stopped)
    mean = (lines[27]["loss"] + lines[28]["loss"]) / 2  # a tenth of 29 lines
    assert page.texts["b"][1] == f"{mean:.3f}" and "mean of the last 2 recorded" in page.text
    assert f"{stopped}, of 90" in page.text and "Evaluations" not in page.text


@pytest.mark.parametrize("odd", [math.nan, math.inf])
def test_non_finite_values_are_left_out_of_curves(odd):
    records = [{"step": 1, "loss": odd}, {"step": 2, "loss": 3.0}, {"step": 3, "loss": 2.0}]
    page = Page(draw_curves(RecordSummary(records)))
    (curve,) = page.all("polyline")
    assert len(curve["points"].split()) == 2
    assert Page(draw_curves(RecordSummary([{"step": 7, "loss": odd}]))).tags == []


def test_curves_are_thinned_and_stay_in_their_frame():
    records = [{"step": step, "loss": 5.0 + math.sin(step)} for step in range(1, 5001)]
    (curve,) = Page(draw_curves(RecordSummary(records))).all("polyline")
    points = [tuple(map(float, pair.split(","))) for pair in curve["points"].split()]
    assert 100 <= len(points) <= 200
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in points)
    assert [x for x, _ in points] == sorted(x for x, _ in points)


def test_curve_means_are_those_of_the_records():
    """However long the run: each point is the mean of the records since the one before."""
    values = [math.sin(step / 300) for step in range(1, 5001)]
    records = [{"step": step, "loss": value} for step, value in enumerate(values, 1)]
    points = RecordSummary(records).curves["loss"].points
    begin = 0
    for step, mean in points:
        assert mean == pytest.approx(statistics.fmean(values[begin:step]))
        begin = step
    assert begin == 5000


def test_chosen_settings_are_in_sight_and_bold(both):
    page, *_ = both
    chosen = [attributes for attributes in page.all("dd") if attributes.get("class") == "chosen"]
    assert len(chosen) == 1  # the optimizer alone is not the default
    before_folded = page.text.partition("All settings")[0]
    for text in ("steps", "90", "precision", "float32", "<b>adamw</b> & co"):
        assert text in before_folded


def live_page(run, **options) -> str:
    """The page of a run after 30 of 90 steps, as it trains."""
    lines = [line for line in lines_of("finetune") if line["step"] <= 30]
    report = LiveReport(run, plan_of("finetune"), lambda: PREDICTIONS)
    report.write(30, lines, **options)
    return (run.path / "report.html").read_text(encoding="utf-8")


def test_predictions_are_shown_and_escaped(tmp_path):
    page = page_of(tmp_path / "run", "finetune", lines_of("finetune"), (PREDICTIONS, 60))
    assert "a <script>alert(1)</script> film\\u202e" in page.text  # as text
    assert len(page.all("script")) == 1  # the page's own
    assert "dev.tsv, line 2" in page.text and "somebody" not in page.text
    for text in ("<good>", " 3%", " 97%", "B-X → O 97%", "3 examples, after step 60"):
        assert text in page.text
    cells = [cell["class"] for cell in page.all("td") if "hit" in cell.get("class", "")]
    assert cells == ["hit s5", "hit s10"]  # a half and all of its row
    assert "your dev data" in page.text


def test_examples_can_be_left_out(tmp_path):
    run = make_run(tmp_path / "run", "finetune", [], report_examples=False)
    page = live_page(run)
    assert "alert" not in page and "Confusion matrix" in page
    run = RunFolder.open(tmp_path / "run")  # as a resumed run does
    assert "alert" not in live_page(run)


def test_resumed_page_keeps_the_last_predictions(tmp_path):
    run = make_run(tmp_path / "run", "finetune", [])
    live_page(run)
    resumed = LiveReport(run, plan_of("finetune"), lambda: None)
    resumed.write(30, [], due=True)
    page = (tmp_path / "run/report.html").read_text(encoding="utf-8")
    assert page.count("Confusion matrix") == 1 and "dev.tsv, line 2" in page
    run.report_examples = False  # from now on
    resumed.write(31, [], interrupted=KeyboardInterrupt())
    assert "dev.tsv" not in (tmp_path / "run/report.html").read_text(encoding="utf-8")


def test_only_a_page_of_an_unfinished_run_loads_itself_again(tmp_path):
    run = make_run(tmp_path / "run", "finetune", [])
    page = live_page(run)
    assert 'data-refresh="10"' in page and "Training" in page and "30 of 90 steps done" in page
    page = live_page(run, interrupted=KeyboardInterrupt())
    assert "Interrupted" in page and "kbert.resume('run', source=…, train=…)" in html.unescape(page)
    write_report(
        run, RecordSummary(), {"steps": 90, "asked": 90, "stopped": None}, plan_of("finetune")
    )
    page = (tmp_path / "run/report.html").read_text(encoding="utf-8")
    assert 'data-refresh="0"' in page and "noscript" not in page and "Finished" in page


@pytest.mark.parametrize(
    ("error", "named"),
    [
        (KeyboardInterrupt(), "Ctrl-C"),
        (Stopped("stopped after step 30 of 90 and saved", signal.SIGINT), "Ctrl-C"),
        (Stopped("stopped after step 30 of 90 and saved", signal.SIGTERM), "SIGTERM"),
        (NotFinite("the loss of step 31 is not finite\nmore"), "the loss of step 31"),
        (OSError(28, "No space left on device"), "No space left on device"),
        (ValueError("<script>alert(1)</script>\u202e"), "<script>alert(1)</script>\\u202e"),
        (MemoryError(), "MemoryError"),
    ],
)
def test_page_of_an_interrupted_run_says_by_what(tmp_path, error, named):
    run = make_run(tmp_path / "run", "finetune", [])
    page = Page(live_page(run, interrupted=error))
    (warning,) = [text for text in page.texts["p"] if named in text]
    assert "more" not in warning
    assert len(page.all("script")) == 1


@pytest.mark.parametrize(
    ("values", "best"),
    [([0.5, 0.9, 0.7], "90.0%, after step 60"), ([0.5, 0.7, 0.9], None), ([0.5], None)],
)
def test_page_of_a_run_that_trains_names_the_best_evaluation(tmp_path, values, best):
    lines = [{"step": 30 * n, "val_accuracy": value} for n, value in enumerate(values, 1)]
    run = make_run(tmp_path / "run", "finetune", [])
    report = LiveReport(run, plan_of("finetune"), lambda: PREDICTIONS)
    last = lines[-1]["step"]
    report.write(last + 5, lines, due=True)
    page = Page((tmp_path / "run/report.html").read_text(encoding="utf-8"))
    found = [text for text in page.texts["span"] if "best so far" in text]
    assert found == ([f"best so far {best}"] if best else [])
    assert f"3 examples, after step {last}" in page.text  # which the evaluation was made after


def test_page_is_written_when_due_or_old_and_not_at_each_step(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    run = make_run(tmp_path / "run", "finetune", [])
    lines = lines_of("finetune")
    report, file = LiveReport(run, plan_of("finetune"), lambda: None), tmp_path / "run/report.html"

    def writes(done: int, **options) -> bool:
        file.unlink(missing_ok=True)
        report.write(done, lines[:done], **options)
        return file.exists()

    assert writes(0, due=True) and writes(1)  # before the first step, and after it
    assert not writes(2)
    assert writes(3, due=True)
    now[0] = 11.0
    assert writes(4) and not writes(5)


def test_evaluations_after_each_step_do_not_write_a_page_each(tmp_path, monkeypatch):
    """After the first five, a page of 10 milliseconds is written each 2 seconds: 0.5 %."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    writes = []

    def write_slowly(*_, **__):
        writes.append(now[0])
        now[0] += 0.01

    monkeypatch.setattr("kbert.training.run.report_page.write_report", write_slowly)
    run = make_run(tmp_path / "run", "finetune", [])
    report = LiveReport(run, plan_of("finetune"), lambda: None)
    for done in range(1000):
        report.write(done, [{"step": done, "val_loss": 1.0}] * done, due=True)
        now[0] += 0.01
    assert 4 <= len(writes) <= 7 and len(writes) * 0.01 < 0.01 * now[0]
    report.write(1000, [], interrupted=KeyboardInterrupt())  # the last page says so
    assert writes[-1] > 10.0


def test_page_stays_small_however_much_is_evaluated_and_labelled(tmp_path):
    lines = [{"step": step, "loss": 1.0, "val_accuracy": step / 9999} for step in range(1, 5001)]
    names = [f"label {number}" for number in range(5000)]
    scores = [
        LabelScores(name, 0.5, 0.5, 0.5, 10_000 + number) for number, name in enumerate(names)
    ]
    run = make_run(tmp_path / "run", "finetune", lines)
    run.settings["labels"] = names
    done = {"steps": 5000, "asked": 9000, "stopped": None, "weights_of_update": 7}
    predictions = Predictions(9, label_scores=scores)
    records = RecordSummary(run.read_records())
    write_report(run, records, done, plan_of("finetune"), predictions=(predictions, 5000))
    file = tmp_path / "run" / "report.html"
    assert file.stat().st_size < 200_000
    page = Page(file.read_text(encoding="utf-8"))
    assert "label 4999" in page.texts["th"] and "label 17" not in page.texts["th"]
    assert {"7", "5,000", "4,901"} <= set(page.texts["td"])  # the best one, and the last hundred
    assert "4,900" not in page.texts["td"]
    assert "5,000" in " ".join(page.texts["p"])


def test_numbers_that_are_not_finite_spoil_no_page(tmp_path):
    nan = math.nan
    example = PredictedExample("dev.tsv", ((TextPiece("a"),),), (), (AnswerProb("b", nan),), nan)
    predictions = Predictions(2, points=[(1.0, nan), (math.inf, 2.0), (2.0, 3.0)])
    predictions = dataclasses.replace(predictions, examples=[example])
    lines = [{"step": 1, "loss": nan, "val_accuracy": nan, "val_loss": math.inf}]
    metrics = {"loss": math.inf, "accuracy": nan}
    page = page_of(tmp_path / "run", "finetune", lines, (predictions, 1), metrics=metrics)
    assert not re.search(r"\b(nan|inf)\b", page.text, re.IGNORECASE)
    circles = [circle for circle in page.all("circle") if "point" in circle["class"]]
    assert len(circles) == 1
    page_of(tmp_path / "2", "finetune", lines, (Predictions(1, points=[(nan, 1.0)]), 1))


@pytest.mark.parametrize("folder", ["my run", "it's & <b>", "-x", "täg"])
def test_a_resumed_run_is_named_as_a_shell_takes_it(tmp_path, folder):
    run = make_run(tmp_path / folder, "finetune", [], data_paths={"source": "a", "train": "b"})
    with naming_commands():
        page = live_page(run, interrupted=KeyboardInterrupt())
    (command,) = re.findall(r"To resume the run: <code>(.*?)</code>", page)
    assert shlex.split(html.unescape(command)) == ["kbert", "finetune", "--resume", folder]
    assert str(tmp_path) not in page


def test_the_current_folder_has_its_name(tmp_path, monkeypatch):
    (tmp_path / "run").mkdir()
    monkeypatch.chdir(tmp_path / "run")
    run = make_run(Path(), "finetune", [], data_paths={"source": "a", "train": "b"})
    page = Page(live_page(run, interrupted=KeyboardInterrupt()))
    assert page.texts["h1"] == ["run"] and page.texts["title"][0].startswith("run:")
    assert "kbert.resume('run')" in page.texts["code"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyError("a bug")])
def test_a_page_that_cannot_be_written_stops_nothing(tmp_path, monkeypatch, messages, error):
    def fail(*given, **options):
        raise error

    monkeypatch.setattr("kbert.training.run.report_page.write_page", fail)
    run = make_run(tmp_path / "run", "finetune", [])
    report = LiveReport(run, plan_of("finetune"), lambda: None)
    for done in (0, 1, 2):
        report.write(done, [], due=True)
    report.finish(None, [], {"steps": 90, "asked": 90, "stopped": None})
    (warning,) = messages  # once
    check_named(warning, "report.html")


@pytest.mark.full
def test_page_of_a_million_steps_is_written_in_some_milliseconds(tmp_path):
    run = make_run(tmp_path / "run", "finetune", [])
    lines = [{"step": step, "loss": 1 / step, "seconds": step / 9} for step in range(1, 10**6)]
    report = LiveReport(run, plan_of("finetune"), lambda: PREDICTIONS)
    report.write(1, lines, due=True)
    begin = time.process_time()
    for _ in range(10):
        report.write(10**6, lines, due=True)
    assert (time.process_time() - begin) / 10 < 0.05
