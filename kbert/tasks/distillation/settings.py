"""Settings of a run with a teacher."""

import dataclasses
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class DistillationSettings:
    """Settings of distillation, for runs with a `teacher`.

    The loss is alpha · T² · KL(teacher ‖ student) at temperature T + (1 − alpha) · the loss of the
    labels (Hinton et al. 2015, section 2) + hidden_loss_weight · the loss of the hidden states.

    Args:
        temperature: T, by which the logits are divided. The task "regress" has no temperature: its
            loss is the squared error to the teacher's number.
        alpha: weight of the teacher's outputs in the loss. 0: only labels and hidden states; then
            any teacher with the same vocabulary will do. 1: no labels.
        hidden_loss: loss between hidden states. "mse": those of each block and the embeddings, to
            the teacher's at the same relative depth (TinyBERT, Jiao et al. 2020, section 3).
            "cosine": that of the last block to the teacher's last (DistilBERT, Sanh et al. 2019).
            None: no such loss.
        hidden_loss_weight: weight of each hidden-state loss.
    """

    temperature: float = 2.0
    alpha: float = 0.5
    hidden_loss: str | None = None
    hidden_loss_weight: float = 1.0


DEFAULTS = {field.name: field.default for field in dataclasses.fields(DistillationSettings)}


def check(settings: DistillationSettings, teacher) -> None:
    """Raise a ValueError for settings without a teacher, or a teacher that is not used."""
    if teacher is None:
        for name, default in DEFAULTS.items():
            if (value := getattr(settings, name)) != default:
                raise ValueError(
                    f"{name} is for runs with a teacher, got {value!r} without one: give a "
                    "teacher, or leave it out"
                )
    elif settings.alpha == 0 and settings.hidden_loss is None:
        raise ValueError(
            "alpha must be above 0 for a teacher without hidden_loss, got 0: "
            "raise alpha, or give hidden_loss mse or cosine"
        )
