"""The page of a run under way: written from before the first step on, and never in its way."""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from kbert.training.run import report_page
from kbert.training.run.predictions import Predictions
from kbert.training.run.record_summary import RecordSummary

_logger = logging.getLogger("kbert")
_SHARE = 0.005  # of the training's time, that writing between evaluations may take


class LiveReport:
    """RUN/report.html, which is written again as the run goes on.

    An error in it is logged once, and training continues.
    """

    def __init__(self, run, plan, get_predictions: Callable[[], Predictions | None]):
        """`get_predictions` returns those of the last evaluation, or None; `run` may be None."""
        self._run, self._plan, self._get_predictions = run, plan, get_predictions
        self._records, self._count = RecordSummary(), 0
        self._predictions: tuple[Predictions, int] | None = None  # and their step
        # By the monotonic clock: when it is written again, and from when on after an evaluation.
        self._next = self._soonest = 0.0
        self._has_failed = False

    def write(
        self, done: int, records: Sequence[dict], *, due: bool = False, interrupted: bool = False
    ) -> None:
        """Write the page after so many steps and their records, if it is due or old enough.

        It is `due` before the first step and after evaluations, unless these follow each other so
        fast that the pages would take too much of the training's time.
        """
        is_first = not self._count and len(records)
        now = time.monotonic()
        is_time = now >= self._next or (due and now >= self._soonest)
        if not (is_first or is_time or interrupted):
            return
        result: dict[str, Any] = {"steps": done, "asked": self._plan.steps}
        if interrupted:
            result["interrupted"] = True
        self._write(records, result)

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
            self._update_predictions(result.get("weights_of_update", result["steps"]))
            run.check_not_moved()
            report_page.write_report(
                *(run, self._records, result, self._plan),
                predictions=self._predictions,
                bert=bert,
            )
        except Exception as error:
            if not self._has_failed:
                _logger.warning(
                    "%s cannot be written, training continues: %s",
                    *(run.path / report_page.FILE, str(error)),
                )
            self._has_failed = True
        end = time.monotonic()
        self._soonest = end + (end - begin) / _SHARE
        self._next = max(end + report_page.REFRESH, self._soonest)

    def _update_predictions(self, step: int) -> None:
        """Remember new predictions, and that they are of the weights after this step."""
        predictions = self._get_predictions()
        known = self._predictions and self._predictions[0]
        if predictions is not None and predictions is not known:
            self._predictions = predictions, step
