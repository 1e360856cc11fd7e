"""Choice of the weights that are a run's result: the best on the dev data, or the last."""

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from kbert.training.loop.history import WORST, History, rank_metrics
from kbert.training.run.predictions import Predictions
from kbert.training.run.run_folder import RunFolder

_logger = logging.getLogger("kbert")


class Evaluated(NamedTuple):
    """An evaluation: its metrics, a function of their intervals, and the predictions."""

    metrics: dict[str, float]
    find_intervals: Callable[[], dict[str, tuple[float, float]]] = dict
    predictions: Predictions | None = None


class BestWeights:
    """Evaluation of the engine's weights, and memory of the best ones without a run's folder.

    `evaluate` evaluates an engine's weights; None: there are no dev data.
    `wanted` says whether the best weights are kept, or the last.
    """

    def __init__(
        self,
        engine,
        evaluate: Callable[[Any], Evaluated] | None,
        score: str,
        wanted: bool,
        run: RunFolder | None,
    ):
        self._engine = engine
        self._evaluate = evaluate
        self._score = score
        self._run = run
        self._wanted = wanted and evaluate is not None
        self._best = WORST
        self._weights = None
        # the best and the last evaluation of this start
        self._best_evaluation = self._last_evaluation = Evaluated({})
        self._chosen_evaluation: Evaluated | None = None

    def evaluate(self) -> dict[str, float]:
        """Return the metrics of the dev data."""
        metrics = self._compute_metrics()
        score = rank_metrics(self._score, metrics)
        if score > self._best:
            self._best = score
            self._best_evaluation = self._last_evaluation
            if self._wanted and self._run is None:
                self._weights = self._engine.state.weights()
        return metrics

    def _compute_metrics(self) -> dict[str, float]:
        if self._evaluate is not None:
            self._last_evaluation = Evaluated(*self._evaluate(self._engine))
        return self._last_evaluation.metrics

    @property
    def predictions(self) -> Predictions | None:
        """Predictions of the evaluation whose intervals were computed, else of the last one."""
        return (self._chosen_evaluation or self._last_evaluation).predictions

    def find_intervals(self, metrics: dict[str, float]) -> dict[str, tuple[float, float]]:
        """Compute the metrics' 95 % intervals; what an earlier start evaluated, again."""
        known = [self._best_evaluation, self._last_evaluation]
        equal = [evaluation for evaluation in known if evaluation.metrics == metrics]
        if equal:
            chosen = equal[0]
        else:
            self._compute_metrics()
            chosen = self._last_evaluation
        self._chosen_evaluation = chosen
        return chosen.find_intervals()

    def restore(self, history: History) -> tuple[int, dict[str, float]]:
        """Give the engine the best weights, or a callback's; return their step and metrics."""
        step = history.updates[-1]["step"]
        evaluations = history.evaluations
        if history.restored:
            metrics = self._compute_metrics()
            evaluation = history.find_evaluation(metrics)
            return evaluation["step"] if evaluation else step, metrics

        if self._wanted and evaluations:
            step = self._restore_best(evaluations, step)
        for line in evaluations:
            if line["step"] == step:
                scores = [name for name in line if name.startswith("val_")]
                values = {name.removeprefix("val_"): line[name] for name in scores}
                return step, values
        return step, self._compute_metrics()

    def _restore_best(self, evaluations: list[dict], last_step: int) -> int:
        """Give the engine the best weights; return their step, or the last one without them."""
        best_line = max(evaluations, key=lambda line: rank_metrics(self._score, line, "val_"))
        best_step = best_line["step"]
        if self._run is None:
            if self._weights is not None:
                self._engine.state.restore_weights(self._weights)
            return best_step

        step = last_step
        state = self._run.states.best()
        if state is not None:
            step = state.step
            self._engine.state.restore(state.arrays)
            self._engine.state.use_averages()
        if step != best_step:
            _logger.warning(
                "the weights of step %d had the best score, but no intact state has them: the "
                "result has the weights and metrics of step %d",
                best_step,
                step,
            )
        return step


def choose_best(best: BestWeights, history: History) -> dict:
    """Give the engine the weights that are the result; describe them for result.json."""
    step, metrics = best.restore(history)
    return {
        "loss": history.updates[-1]["loss"],
        "weights_of_update": step,
        "metrics": metrics,
        "intervals": best.find_intervals(metrics),
    }
