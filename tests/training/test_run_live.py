"""A run shows a progress line and its speed."""

import io
import logging
import re
import time

import click
import pytest

from kbert.cli.console import progress, run
from kbert.training.loop.progress_line import Live, line
from kbert.training.loop.throughput import Speed

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


@pytest.fixture
def clock(monkeypatch):
    """The time in seconds, which stands still until a test moves it."""
    now = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    return now


class Terminal(io.StringIO):
    def isatty(self):
        return True


def seen(text: str) -> list[str]:
    """Return the lines that a terminal shows."""
    lines = []
    for written in text.split("\n"):
        shown = ""
        for part in written.split("\r"):
            shown = part + shown[len(part) :]
        lines.append(shown.rstrip())
    return lines


def test_progress_line_text():
    assert line(120, 1000, VALUES, 130) == (
        "120/1,000  MLM loss 10.183  acc 0.1%  NSP loss 0.693  1.23M tok/s  2m10s left"
    )
    assert line(120, 1000, VALUES, 130, width=140) == (
        "120/1,000  MLM loss 10.183  acc 0.1%  NSP loss 0.693  acc 49.9%  1.23M tok/s  43% of peak"
        "  loss 10.877  2m10s left"
    )
    one = {"loss": 0.4, "Classifier_loss": 0.4, "Classifier_accuracy": 0.88}
    assert line(5, 9, one, None) == "5/9  Classifier loss 0.400  acc 88.0%"
    dev = {"val_loss": 0.4, "val_accuracy": 0.88, "val_f1": 0.7}
    assert (
        line(9, 9, dev, None, "evaluated") == "9/9 evaluated  accuracy 0.880  f1 0.700  loss 0.400"
    )


@pytest.mark.parametrize("width", range(20, 160, 7))
def test_every_number_in_the_line_has_its_name_once(width):
    text = line(5, 9, VALUES, 3, width=width)
    assert len(text) < width
    numbers = [part for part in text.split("  ")[1:] if not part.endswith("left")]
    kinds = ("loss", "acc", "tok/s", "of peak")
    assert all(any(kind in part for kind in kinds) for part in numbers)
    assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize("screen", [Terminal(), io.StringIO()], ids=["terminal", "file"])
def test_last_step_is_always_shown(screen):
    with Live(60, stream=screen) as live:
        for step in range(1, 61):
            live.update(step, {"loss": 60 - step}, 60 - step)
    last = seen(screen.getvalue())[-2]
    assert last.startswith("60/60  loss 0.000")


def test_line_says_compiling_until_the_first_step(clock):
    screen, file = Terminal(), io.StringIO()
    for stream in (screen, file):
        with Live(9, stream=stream, first="compiling the first step …") as live:
            assert seen(stream.getvalue())[0] == "compiling the first step …"
            clock[0] += 60
            live.update(1, {"loss": 2.0}, 8)
    assert seen(screen.getvalue()) == ["1/9  loss 2.000  8s left", ""]  # it was written over
    assert file.getvalue() == "compiling the first step …\n1/9  loss 2.000  8s left\n"


def test_warning_clears_the_live_line(monkeypatch, clock):
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)

    @click.command()
    def trains():
        with Live(100) as live:
            live.update(1, VALUES, 50)
            logging.getLogger("kbert").warning("wet")
            clock[0] += 60
            live.update(2, {"loss": 1.0}, 49)

    with pytest.raises(SystemExit):
        run(trains, [])
    assert seen(screen.getvalue()) == ["kbert: wet", line(2, 100, {"loss": 1.0}, 49), ""]


def test_slow_work_is_announced_once(capsys, monkeypatch):
    with progress("reading"):
        pass
    monkeypatch.setattr("kbert.io.progress.PROGRESS_DELAY_S", 0.01)
    with progress("drawing"):
        time.sleep(0.5)
    assert capsys.readouterr().err == "kbert: drawing …\n"


def test_file_gets_plain_lines_now_and_then(clock):
    file = io.StringIO()
    with Live(100, stream=file) as live:
        for step in range(1, 50):
            live.update(step, VALUES, 50)
        assert file.getvalue() == ""  # not ten seconds old
        clock[0] += 60
        live.update(50, VALUES, 50)
        live.show_evaluation(50, {"val_loss": 2.0})
    assert "\r" not in file.getvalue()
    assert [text.split()[0] for text in file.getvalue().splitlines()] == ["50/100", "50/100"]


def test_speed_excludes_compilation_and_evaluation(monkeypatch):
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
    update(200)  # compiles for a new length
    assert speed.seconds_for(30) == 60


def test_progress_line_shows_the_epoch(clock):
    screen = Terminal()
    with Live(7, stream=screen, steps_per_epoch=3) as live:
        for step in range(1, 8):
            clock[0] += 9
            live.update(step, {"loss": 0.5}, None)
    shown = re.findall(r"(\d)/7  epoch (\d)/3", screen.getvalue())
    assert shown == [(str(step), str(epoch)) for step, epoch in enumerate("1112223", 1)]
    screen = Terminal()
    with Live(3, stream=screen, steps_per_epoch=3) as live:
        live.update(3, {"loss": 0.5}, None)
    assert "epoch" not in screen.getvalue()
