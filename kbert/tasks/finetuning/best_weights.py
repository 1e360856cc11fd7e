"""Choice of the weights that a fine-tuning keeps: the best on the dev data, or the last."""

import logging
from collections.abc import Mapping

from kbert.tasks.finetuning.evaluate import Evaluation
from kbert.tasks.intervals import Scores, find_intervals
from kbert.training.loop.history import WORST, rank
from kbert.training.run.run_folder import RunFolder

_logger = logging.getLogger("kbert")


class BestWeights:
    """Evaluation of the current weights, and memory of the best ones without a run's folder.

    Args:
        engine: whose weights.
        dev: gives their metrics; None: there are none.
        score: which metric says what is best, higher is better; the loss breaks ties.
        wanted: whether the best weights are to be kept, or the last.
        run: the run's folder, which has the best state; None: none is kept.
    """

    def __init__(
        self,
        engine,
        dev: Evaluation | None,
        score: str,
        wanted: bool,
        run: RunFolder | None,
    ):
        self._engine, self._dev, self._name, self._run = engine, dev, score, run
        self._wanted = wanted and dev is not None
        self._best, self._weights = WORST, None
        # the metrics of the best and of the last evaluation of this start, and their scores
        self._best_scores: tuple[dict[str, float], Mapping[str, Scores]] | None = None
        self._last_scores: tuple[dict[str, float], Mapping[str, Scores]] | None = None

    def evaluate(self) -> dict[str, float]:
        """Return the metrics of the dev data."""
        metrics = self._compute_metrics()
        score = rank(metrics[self._name], metrics.get("loss"))
        if score > self._best:
            self._best, self._best_scores = score, self._last_scores
            if self._wanted and self._run is None:
                self._weights = self._engine.state.weights()
        return metrics

    def _compute_metrics(self) -> dict[str, float]:
        if self._dev is None:
            return {}
        metrics = self._dev(self._engine.predict, self._engine.output_names)
        self._last_scores = metrics, self._dev.scores
        return metrics

    def find_intervals(self, metrics: dict[str, float]) -> dict[str, tuple[float, float]]:
        """Compute the 95 % intervals of the metrics of the weights that the engine has.

        The dev data are evaluated again where an earlier start did it.
        """
        for known in (self._best_scores, self._last_scores):
            if known is not None and known[0] == metrics:
                return find_intervals(known[1])
        self._compute_metrics()
        return {} if self._dev is None else find_intervals(self._dev.scores)

    def restore(self, history) -> tuple[int, dict[str, float]]:
        """Give the engine the weights to keep; return their update and their metrics.

        Those that a callback restored at the end are kept, whatever did best.
        """
        step, lines = history.updates[-1]["step"], history.evaluations
        if history.restored:
            metrics = self._compute_metrics()
            return (history.find_evaluation(metrics) or {"step": step})["step"], metrics
        if self._wanted and lines:
            line = max(lines, key=lambda one: rank(one[f"val_{self._name}"], one.get("val_loss")))
            step = self._restore_best(line["step"], step)
        for line in lines:
            if line["step"] == step:
                return step, {name[4:]: line[name] for name in line if name.startswith("val_")}
        return step, self._compute_metrics()

    def _restore_best(self, best: int, last: int) -> int:
        """Restore the best weights that are whole; return the step that they are of."""
        if self._run is None:
            if self._weights is not None:
                self._engine.state.restore_weights(self._weights)
            return best
        whole = self._run.states.best()
        if whole is not None:
            self._engine.state.restore(whole.arrays)
        step = whole.step if whole else last
        if step != best:
            _logger.warning(
                "the weights of step %d had the best score, but no intact state has them: the "
                "result has the weights and metrics of step %d",
                best,
                step,
            )
        return step
