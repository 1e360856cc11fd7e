"""What a run recorded, as its user gets it."""

from dataclasses import dataclass, field


@dataclass
class History:
    """What a run recorded.

    Attributes:
        updates: a dictionary an update that was recorded: "step" (updates done), "loss", each
            output's loss and accuracy, "gradient_norm", "learning_rate", "tokens_per_second",
            "seconds" (of the run so far, over all its starts, without what was lost) and, where it
            was evaluated, the evaluation's with "val_" before the name.
        stopped: why it ended before its last update; None where it did not.
    """

    updates: list[dict] = field(default_factory=list)
    stopped: str | None = None

    def __repr__(self) -> str:
        if not self.updates:
            return "History(no updates)"
        figures = [f"{len(self.updates)} recorded, to update {self.updates[-1].get('step')}"]
        losses = [line["loss"] for line in self.updates if "loss" in line]
        if losses:
            figures.append(f"loss {losses[0]:.4g} … {losses[-1]:.4g}")
        if self.evaluations and "val_loss" in self.evaluations[-1]:
            figures.append(f"val_loss {self.evaluations[-1]['val_loss']:.4g}")
        return f"History({', '.join(figures)}{', stopped' if self.stopped else ''})"

    @property
    def evaluations(self) -> list[dict]:
        """The updates after which there was an evaluation."""
        return [line for line in self.updates if any(key.startswith("val_") for key in line)]
