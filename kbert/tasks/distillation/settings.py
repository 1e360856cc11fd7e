"""What a run with a teacher is asked for."""

import dataclasses
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class DistillationSettings:
    """Settings of runs with a `teacher`, beside the others; without one they must be left out.

    The loss is alpha · T² · KL(teacher ‖ student) at temperature T + (1 − alpha) · the labels' own
    (Hinton et al. 2015, section 2), and hidden_loss_weight · that of the hidden states.

    Args:
        temperature: T, which logits are divided by. Numbers ("regress") have the squared error to
            the teacher's, and none.
        alpha: share of the teacher's outputs in the loss; 0: labels and hidden states alone, of
            any teacher with the vocabulary; 1: no labels.
        hidden_loss: "mse": each block's, and the embeddings', to those of the teacher at the same
            part of its depth (TinyBERT, Jiao et al. 2020, section 3); "cosine": the last block's
            to the teacher's last (DistilBERT, Sanh et al. 2019); None: outputs alone.
        hidden_loss_weight: what each of these counts for.
    """

    temperature: float = 2.0
    alpha: float = 0.5
    hidden_loss: str | None = None
    hidden_loss_weight: float = 1.0


DEFAULTS = {field.name: field.default for field in dataclasses.fields(DistillationSettings)}


def check(settings: DistillationSettings, teacher) -> None:
    """A ValueError for settings without a teacher, and a teacher of whom nothing is learned."""
    if teacher is None:
        for name, default in DEFAULTS.items():
            if (value := getattr(settings, name)) != default:
                raise ValueError(
                    f"{name} is for runs with a teacher, got {value!r} without one: give a "
                    "teacher, or leave it out"
                )
    elif settings.alpha == 0 and settings.hidden_loss is None:
        raise ValueError(
            "alpha must be above 0 for a teacher of whom no hidden_loss are learned, got 0: "
            "raise it, or take hidden_loss mse or cosine"
        )
