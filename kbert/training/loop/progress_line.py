"""Progress of a run on stderr: one line that is rewritten in a terminal, else occasional lines."""

import math
import sys
import time

from kbert.io.progress import COLUMNS, columns, is_shown
from kbert.io.units import duration, short

_USUAL = ("accuracy", "f1", "matthews", "exact_match")  # metrics that are always shown
FILE_WIDTH = 140  # of a line in a file
SECONDS = (0.2, 10.0)  # between two lines: in a terminal, in a file


class Live:
    """The progress line of a run on stderr, a context.

    Args:
        steps: of the whole run.
        progress: whether anything is shown.
        first: shown until there are metrics.
        stream: where it is written; None: stderr.
        steps_per_epoch: number of steps of an epoch; None: there are no epochs.
        score: the metric that says what is best, shown before others.
    """

    def __init__(
        self,
        steps: int,
        progress=True,
        first="",
        stream=None,
        steps_per_epoch: int | None = None,
        score: str = "",
    ):
        self._steps = steps
        self._first = first
        self._show = progress and is_shown()
        self._score = score.removeprefix("-")
        self._steps_per_epoch = steps_per_epoch
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._width = columns(self._stream) if self._terminal else FILE_WIDTH
        delay = 0.0 if self._terminal else SECONDS[1]
        self._next = time.monotonic() + delay
        self._open = False
        # the arguments of the last update, where it was not shown
        self._last: tuple[int, dict[str, float], float | None] | None = None

    def update(self, step: int, values: dict[str, float], seconds_left: float | None) -> None:
        """Show a step, where the last line is old enough."""
        now = time.monotonic()
        self._last = step, values, seconds_left
        if self._show and now >= self._next:
            self._next = now + SECONDS[not self._terminal]
            self._show_last()

    def show_evaluation(self, step: int, values: dict[str, float]) -> None:
        """Show an evaluation, on a line that stays."""
        self._last = None
        if self._show:
            text = line(
                step, self._steps, values, None, "evaluated", width=self._width, score=self._score
            )
            self._write(text, stays=True)

    def __enter__(self) -> "Live":
        if self._show and self._first:
            self._write(self._first, stays=not self._terminal)
        return self

    def __exit__(self, *_) -> None:
        if self._show:
            self._show_last()
        if self._open:  # the last line stays as it is
            print(file=self._stream, flush=True)

    def _show_last(self) -> None:
        if self._last is None:
            return
        step, values, left = self._last
        self._last = None

        epoch = ""
        if self._steps_per_epoch and self._steps > self._steps_per_epoch:
            current = math.ceil(step / self._steps_per_epoch)
            last = math.ceil(self._steps / self._steps_per_epoch)
            epoch = f"epoch {current:,}/{last:,}"
        text = line(step, self._steps, values, left, width=self._width, epoch=epoch)
        self._write(text, stays=not self._terminal)

    def _write(self, text: str, stays: bool) -> None:
        start = "\r" if self._open else ""
        filled = text.ljust(self._width - 1) if self._terminal else text  # over what stood there
        end = "\n" if stays else ""
        print(f"{start}{filled}{end}", end="", file=self._stream, flush=True)
        self._open = not stays


def line(
    step: int,
    steps: int,
    values: dict[str, float],
    seconds_left: float | None,
    note: str = "",
    width: int = COLUMNS,
    epoch: str = "",
    score: str = "",
) -> str:
    """Return the metrics that fit in fewer columns than `width`, the more important first."""
    start = f"{step:,}/{steps:,} {note}" if note else f"{step:,}/{steps:,}"
    end = "" if seconds_left is None else f"  {duration(seconds_left)} left"
    texts = _describe_metrics(values, score)
    if epoch:
        texts.insert(0, (1, epoch))

    columns_left = width - 1 - len(start) - len(end)
    shown: set[int] = set()
    by_priority = sorted(range(len(texts)), key=lambda index: texts[index][0])
    for index in by_priority:
        size = len(texts[index][1]) + 2
        if size <= columns_left:
            columns_left -= size
            shown.add(index)
    pieces = [start]
    pieces += [texts[index][1] for index in sorted(shown)]
    return "  ".join(pieces) + end


def _describe_metrics(values: dict[str, float], score: str) -> list[tuple[int, str]]:
    """Return (priority, text) in the order of the line; what has a high number is cut first.

    `score` is the metric that says what is best.
    """
    values = {name.removeprefix("val_"): value for name, value in values.items()}
    outputs = [name.removesuffix("_loss") for name in values if name.endswith("_loss")]

    texts = []
    for output in outputs:
        texts.append((0, f"{output} loss {values[f'{output}_loss']:.3f}"))
        accuracy = values.get(f"{output}_accuracy")
        if accuracy is not None:
            texts.append((2, f"acc {accuracy:.1%}"))

    for name in dict.fromkeys((score, *_USUAL)):
        is_loss = name == "loss" or name.endswith("_loss")
        if name in values and not is_loss:
            texts.append((0, f"{name.replace('_', ' ')} {values[name]:.3f}"))

    if "tokens_per_second" in values:
        texts.append((1, f"{short(values['tokens_per_second'])} tok/s"))
    if "mfu" in values:
        texts.append((4, f"{values['mfu']:.0%} of peak"))
    if "loss" in values and len(outputs) != 1:  # of one output it is the same number
        priority = 3 if outputs else 0
        texts.append((priority, f"loss {values['loss']:.3f}"))
    return texts
