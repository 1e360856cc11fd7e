"""Settings of a run with a teacher."""

import dataclasses
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class DistillationSettings:
    """Settings of distillation, for runs with a `teacher`.

    The loss is alpha · T² · KL(teacher ‖ student) at temperature T + (1 − alpha) · the loss of the
    labels (Hinton et al. 2015, section 2) + hidden_loss_weight · the loss of the hidden states.

    Args:
        temperature: distillation temperature, by which the logits are divided (with `teacher`). The
            task "regress" has none: its loss is the squared error to the teacher's number.
        alpha: weight of the teacher in the loss; the labels have the rest (with `teacher`). With 0,
            any teacher with the same vocabulary will do. With 1, there are no labels.
        hidden_loss: loss between the hidden states of student and teacher: mse of the embeddings
            and all blocks, or cosine of the last block (with `teacher`). None: none. "mse" compares
            with the teacher's at the same relative depth (TinyBERT, Jiao et al. 2020, section 3);
            "cosine" is DistilBERT's (Sanh et al. 2019).
        hidden_loss_weight: weight of each hidden-state loss (with `hidden_loss`).
    """

    temperature: float = 2.0
    alpha: float = 0.5
    hidden_loss: str | None = None
    hidden_loss_weight: float = 1.0


def check_teacher(settings: DistillationSettings, has_teacher: bool) -> None:
    """Raise a ValueError for settings without a teacher, or a teacher that is not used."""
    for field in dataclasses.fields(DistillationSettings):
        value = getattr(settings, field.name)
        if not has_teacher and value != field.default:
            raise ValueError(
                f"{field.name} is for runs with a teacher, got {value!r} without one: give a "
                "teacher, or leave it out"
            )
    if has_teacher and settings.alpha == 0 and settings.hidden_loss is None:
        raise ValueError(
            "alpha must be above 0 for a teacher without hidden_loss, got 0: "
            "raise alpha, or give hidden_loss mse or cosine"
        )
