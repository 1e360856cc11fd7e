"""A run's history, as its user gets it."""

from dataclasses import dataclass, field


@dataclass
class History:
    """A run's history.

    Attributes:
        updates: one dictionary per recorded step: "step" (steps done), "loss", each output's loss
            and accuracy, "gradient_norm", "learning_rate", "tokens_per_second", "seconds" (of the
            run so far, over all its starts, without lost work) and, if the model was evaluated, the
            evaluation's metrics with "val_" before the name.
        stopped: why it ended before its last step; None if it did not.
        restored: whether a callback set other weights at the end, as EarlyStopping does with
            `restore_best_weights`. The result has these.
    """

    updates: list[dict] = field(default_factory=list)
    stopped: str | None = None
    restored: bool = False

    def __repr__(self) -> str:
        if not self.updates:
            return "History(no steps)"
        figures = [f"{len(self.updates)} recorded, to step {self.updates[-1].get('step')}"]
        losses = [line["loss"] for line in self.updates if "loss" in line]
        if losses:
            figures.append(f"loss {losses[0]:.4g} … {losses[-1]:.4g}")
        if self.evaluations and "val_loss" in self.evaluations[-1]:
            figures.append(f"val_loss {self.evaluations[-1]['val_loss']:.4g}")
        return f"History({', '.join(figures)}{', stopped' if self.stopped else ''})"

    @property
    def evaluations(self) -> list[dict]:
        """Recorded steps after which there was an evaluation."""
        return [line for line in self.updates if any(key.startswith("val_") for key in line)]

    def find_evaluation(self, metrics: dict[str, float]) -> dict | None:
        """Return the recorded evaluation that gave these metrics; None where none did."""
        wanted = {f"val_{name}": value for name, value in metrics.items()}
        return next((one for one in self.evaluations if wanted.items() <= one.items()), None)
