"""The page of a run under way: written from before the first step on, and never in its way."""

import logging
import signal
import time
from collections.abc import Callable, Sequence
from typing import Any

from kbert.io import printable
from kbert.training.run import report_page
from kbert.training.run.predictions import Predictions
from kbert.training.run.record_summary import RecordSummary
from kbert.training.stopping import Stopped

_logger = logging.getLogger("kbert")
_FIRST_PAGES = 5  # are written whatever they take: a short run shows its first evaluations
_SHARE = 0.005  # of the time since the start, that all pages may take from then on


class LiveReport:
    """RUN/report.html, which is written again as the run goes on.

    An error in it is logged once, and training continues.
    """

    def __init__(self, run, plan, get_predictions: Callable[[], Predictions | None]):
        """`get_predictions` returns those of the last evaluation, or None; `run` may be None."""
        self._run = run
        self._plan = plan
        self._get_predictions = get_predictions
        self._records = RecordSummary()
        self._count = 0  # of records that are in it
        self._predictions: tuple[Predictions, int] | None = None  # and their step
        self._begin = time.monotonic()
        self._next = self._begin  # when the page is old, by the same clock
        self._pages, self._seconds = 0, 0.0  # written, and the time that they took
        self._step: int | None = None  # of the page that is there
        self._has_failed = False

    def write(
        self,
        done: int,
        records: Sequence[dict],
        *,
        due: bool = False,
        interrupted: BaseException | None = None,
    ) -> None:
        """Write the page after so many steps and their records, if it is due or old enough.

        It is `due` before the first step and after evaluations, unless these follow each other so
        fast that the pages would take too much of the training's time. A page of a run that was
        interrupted is always written, and says by what.
        """
        if not (interrupted or self._is_time(done, len(records), due)):
            return
        result: dict[str, Any] = {"steps": done, "asked": self._plan.steps}
        if interrupted is not None:
            result["interrupted"] = _describe_interruption(interrupted)
        self._write(records, result)

    def _is_time(self, done: int, count: int, due: bool) -> bool:
        """Return whether a page after so many steps and records is to be written now."""
        if done == self._step and count == self._count:
            return False  # it is there

        has_first_record = count > 0 and self._count == 0
        now = time.monotonic()
        seconds_allowed = _SHARE * (now - self._begin)
        affordable = self._pages < _FIRST_PAGES or self._seconds <= seconds_allowed
        return has_first_record or (affordable and (due or now >= self._next))

    def finish(self, bert, records: Sequence[dict], result: dict) -> None:
        """Write the page of a finished run, with the predictions of the weights that were kept."""
        self._write(records, result, bert)

    def _write(self, records: Sequence[dict], result: dict, bert=None) -> None:
        run = self._run
        if run is None or not run.chief:
            return

        begin = time.monotonic()
        try:
            self._records.extend(records[self._count :])
            self._count = len(records)
            self._update_predictions(result)
            run.check_not_moved()
            report_page.write_report(
                run,
                self._records,
                result,
                self._plan,
                predictions=self._predictions,
                bert=bert,
            )
        except Exception as error:
            if not self._has_failed:
                _logger.warning(
                    "%s cannot be written, training continues: %s",
                    run.path / report_page.FILE,
                    str(error),
                )
            self._has_failed = True

        end = time.monotonic()
        self._step = result["steps"]
        self._pages += 1
        self._seconds += end - begin
        self._next = end + report_page.REFRESH

    def _update_predictions(self, result: dict) -> None:
        """Remember new predictions, and after which step they were made."""
        predictions = self._get_predictions()
        known = self._predictions and self._predictions[0]
        if predictions is None or predictions is known:
            return
        evaluations = self._records.evaluations
        evaluated = evaluations[-1]["step"] if evaluations else result["steps"]
        self._predictions = predictions, result.get("weights_of_update", evaluated)


def _describe_interruption(error: BaseException) -> str:
    """Return what stopped a run: the signal's name, or the error's first line."""
    if isinstance(error, Stopped):
        number = error.status - 128
        return "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
    if isinstance(error, KeyboardInterrupt):
        return "Ctrl-C"
    message = str(error).strip()
    first_line = message.splitlines()[0] if message else ""
    text = f"{type(error).__name__}: {first_line}" if first_line else type(error).__name__
    return printable.cut(text, 300)
