"""Where a run is, on stderr: one line that is rewritten in a terminal, a line now and then else."""

import sys
import time

WIDTH = 80
SECONDS = (0.2, 10.0)  # between two lines: in a terminal, in a file


class Live:
    """The line; a context, which ends it.

    Args:
        steps: updates of the whole run.
        show: False writes nothing.
        stream: where to; None: stderr.
    """

    def __init__(self, steps: int, show: bool = True, stream=None):
        self._steps, self._show = steps, show
        self._stream = sys.stderr if stream is None else stream
        self._terminal = self._stream.isatty()
        self._next = time.monotonic() + (0.0 if self._terminal else SECONDS[1])
        self._open = False

    def update(self, step: int, values: dict[str, float], seconds_left: float | None) -> None:
        """Shows an update, where the last line is old enough."""
        now = time.monotonic()
        if self._show and now >= self._next:
            self._next = now + SECONDS[not self._terminal]
            self._write(line(step, self._steps, values, seconds_left), stays=not self._terminal)

    def evaluated(self, step: int, values: dict[str, float]) -> None:
        """Shows an evaluation, on a line that stays."""
        if self._show:
            self._write(line(step, self._steps, values, None, "evaluated"), stays=True)

    def __enter__(self) -> "Live":
        return self

    def __exit__(self, *_) -> None:
        if self._open:  # the last line stays as it is
            self._stream.write("\n")
            self._stream.flush()
            self._open = False

    def _write(self, text: str, stays: bool) -> None:
        start = "\r" if self._open else ""
        filled = text.ljust(WIDTH - 1) if self._terminal else text  # over what stood there
        self._stream.write(f"{start}{filled}" + ("\n" if stays else ""))
        self._stream.flush()
        self._open = not stays


def line(
    step: int, steps: int, values: dict[str, float], seconds_left: float | None, note: str = ""
) -> str:
    """One line of at most 79 columns: what fits, the more important first.

    Args:
        step, steps: updates done, and of the whole run.
        values: as in metrics.jsonl: losses, accuracies, tokens_per_second, mfu.
        seconds_left: None where it is not known yet.
        note: a word before the figures.
    """
    end = "" if seconds_left is None else f"{duration(seconds_left)} left"
    text = f"{step:,}/{steps:,}" + (f" {note}" if note else "")
    for part in _figures(values):
        if len(text) + len(part) + len(end) + 4 < WIDTH:
            text += f"  {part}"
    return f"{text}  {end}" if end else text


def duration(seconds: float) -> str:
    """As 3d04h, 3h05m, 2m10s or 7s."""
    seconds = max(0, round(seconds))
    for size, unit, inner, inner_unit in ((86400, "d", 3600, "h"), (3600, "h", 60, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit}{seconds % size // inner:02d}{inner_unit}"
    return f"{seconds // 60}m{seconds % 60:02d}s" if seconds >= 60 else f"{seconds}s"


def _figures(values: dict[str, float]):
    """Each output's loss and accuracy, an evaluation's figures, the speed, the loss."""
    values = {name.removeprefix("val_"): value for name, value in values.items()}
    for name, value in values.items():
        output = name.removesuffix("_loss")
        if name.endswith("_loss"):
            accuracy = values.get(f"{output}_accuracy")
            yield f"{output} {value:.3f}" + ("" if accuracy is None else f" {accuracy:.1%}")
    for name in ("accuracy", "f1", "matthews", "exact_match"):
        if name in values:
            yield f"{name} {values[name]:.3f}"
    if "tokens_per_second" in values:
        yield f"{_short(values['tokens_per_second'])} tok/s"
    if "mfu" in values:
        yield f"mfu {values['mfu']:.0%}"
    if "loss" in values:
        yield f"loss {values['loss']:.3f}"


def _short(number: float) -> str:
    """As 1.23M, 45.6k or 789."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.0f}"
