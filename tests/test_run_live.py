"""The live line, the speed, the page: what a run shows."""

import io
import logging
import math
import time

import click
import pytest

from kbert.console import progress, run
from kbert.training.live import WIDTH, Live, duration, line
from kbert.training.report import curves
from kbert.training.throughput import Speed

VALUES = {
    "loss": 10.87654,
    "MLM_loss": 10.1834,
    "MLM_accuracy": 0.00123,
    "NSP_loss": 0.6931,
    "NSP_accuracy": 0.4987,
    "gradient_norm": 3.2,
    "tokens_per_second": 1_234_567.8,
    "mfu": 0.4321,
}


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (59.4, "59s"),
        (130, "2m10s"),
        (3600, "1h00m"),
        (11100, "3h05m"),
        (273600, "3d04h"),
    ],
)
def test_durations_are_short(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize("step", [1, 999_999])
@pytest.mark.parametrize("values", [VALUES, {name: math.nan for name in VALUES}])
def test_the_line_fits_eighty_columns(step, values):
    text = line(step, 1_000_000, values, 273_600)
    assert len(text) < WIDTH and text.endswith("3d04h left")
    assert "MLM" in text and "NSP" in text and "tok/s" in text


def test_what_a_line_says():
    assert line(120, 1000, VALUES, 130) == (
        "120/1,000  MLM 10.183 0.1%  NSP 0.693 49.9%  1.23M tok/s  mfu 43%  2m10s left"
    )
    one = {"loss": 0.4, "Classifier_loss": 0.4, "Classifier_accuracy": 0.88}
    assert line(5, 9, one, None) == "5/9  Classifier 0.400 88.0%  loss 0.400"


def test_a_terminal_has_one_line_that_is_rewritten():
    screen = Terminal()
    with Live(100, stream=screen) as live:
        live.update(1, VALUES, 50)
        live._next = 0
        live.update(2, {"loss": 1.0}, 49)
    text = screen.getvalue()
    assert text.count("\r") == 1 and text.count("\n") == 1 and text.endswith("\n")
    first, second = text.removesuffix("\n").split("\r")
    assert len(first) == len(second) == WIDTH - 1  # what stood there is covered


def seen(text: str) -> list[str]:
    """What a terminal shows of it."""
    lines = []
    for written in text.split("\n"):
        shown = ""
        for part in written.split("\r"):
            shown = part + shown[len(part) :]
        lines.append(shown.rstrip())
    return lines


def test_a_warning_does_not_stand_on_the_live_line(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)

    @click.command()
    def trains():
        with Live(100) as live:
            live.update(1, VALUES, 50)
            logging.getLogger("kbert").warning("wet")
            live._next = 0
            live.update(2, {"loss": 1.0}, 49)

    with pytest.raises(SystemExit):
        run(trains, [])
    assert seen(screen.getvalue()) == ["kbert: wet", line(2, 100, {"loss": 1.0}, 49), ""]


def test_what_takes_long_is_said_once(capsys, monkeypatch):
    with progress("reading"):
        pass
    monkeypatch.setattr("kbert.patience.PATIENCE_S", 0.01)
    with progress("drawing"):
        time.sleep(0.5)
    assert capsys.readouterr().err == "kbert: drawing …\n"


def test_a_file_gets_plain_lines_now_and_then():
    file = io.StringIO()
    with Live(100, stream=file) as live:
        for step in range(1, 50):
            live.update(step, VALUES, 50)
        assert file.getvalue() == ""  # not ten seconds old
        live._next = 0
        live.update(50, VALUES, 50)
        live.evaluated(50, {"val_loss": 2.0})
    assert "\r" not in file.getvalue()
    assert [text.split()[0] for text in file.getvalue().splitlines()] == ["50/100", "50/100"]


def test_the_speed_is_that_of_the_updates_without_the_first_and_what_lies_between(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    speed = Speed(flops=6e9, peak=12e9)

    def update(seconds):
        clock[0] += seconds
        return speed.add(1000)

    assert update(60) == {}  # compiles
    assert update(2) == {"tokens_per_second": 500, "mfu": 0.25}
    clock[0] += 99  # an evaluation
    speed.pause()
    assert update(2) == {"tokens_per_second": 500, "mfu": 0.25}
    assert speed.seconds_for(30) == 60


def test_curves_are_one_picture_without_references():
    records = [
        {"step": step, "learning_rate": 1e-4, "gradient_norm": 1.0}
        | {name: 5 / step for name in VALUES}
        | ({"val_loss": 4 / step, "val_MLM_loss": 3 / step} if step % 100 == 0 else {})
        for step in range(1, 1501)
    ]
    picture = curves(records)
    assert picture.startswith("<svg") and "http://www.w3.org/2000/svg" in picture
    assert 'href="http' not in picture and len(picture) < 600_000
    assert curves(records) == picture
