"""All losses by name: of labels, of a teacher's outputs, of text embeddings."""

import dataclasses
import functools

from kbert.training.losses import distillation_losses, embedding_losses, label_losses
from kbert.training.losses.loss import Loss, make_keras_flags, make_keras_numbers

_LABEL_LOSSES = (
    Loss(
        "cross_entropy",
        label_losses.sum_cross_entropy,
        compute=label_losses.compute_cross_entropy,
        teacher="kl_divergence",
    ),
    Loss(
        "binary_cross_entropy",
        label_losses.sum_binary_cross_entropy,
        compute=label_losses.compute_binary_cross_entropy,
        make_keras=make_keras_flags,
        teacher="binary_kl_divergence",
    ),
    Loss(
        "squared_error",
        label_losses.sum_squared_error,
        metric="absolute_error",
        compute=label_losses.compute_squared_error,
        make_keras=make_keras_numbers,
        teacher="squared_error",
    ),
    Loss(
        "absolute_error",
        label_losses.sum_absolute_error,
        metric="absolute_error",
        compute=label_losses.compute_absolute_error,
        make_keras=make_keras_numbers,
        teacher="squared_error",
    ),
    Loss(
        "huber",
        label_losses.sum_huber,
        metric="absolute_error",
        compute=label_losses.compute_huber,
        make_keras=make_keras_numbers,
        teacher="squared_error",
    ),
)
_DISTILLATION_LOSSES = (
    Loss("kl_divergence", distillation_losses.sum_kl_divergence, metric="agreement"),
    Loss(
        "binary_kl_divergence",
        distillation_losses.sum_binary_kl_divergence,
        metric="agreement",
    ),
    Loss("state_errors", distillation_losses.sum_state_errors, metric="cosine"),
    Loss("state_cosines", distillation_losses.sum_state_cosines, metric="cosine"),
)
_EMBEDDING_LOSSES = (
    Loss(
        "infonce",
        embedding_losses.infonce,
        options=("scale",),
        needs_whole_batch=True,
    ),
    Loss("triplet", embedding_losses.triplet, options=("margin",)),
    Loss(
        "cosine",
        embedding_losses.cosine,
        metric="absolute_error",
        make_keras=make_keras_numbers,
    ),
    Loss(
        "cosent",
        embedding_losses.cosent,
        make_keras=make_keras_flags,
        options=("scale",),
        needs_whole_batch=True,
    ),
)
LOSSES = {loss.name: loss for loss in (*_LABEL_LOSSES, *_DISTILLATION_LOSSES, *_EMBEDDING_LOSSES)}
# by the setting `hidden_loss`; all other settings have the names of the table
HIDDEN_STATE_LOSSES = {
    "mse": LOSSES["state_errors"],
    "cosine": LOSSES["state_cosines"],
}


def make_loss(name: str, output: str | None = None, **options) -> Loss:
    """Return a loss of `LOSSES` with options, such as smoothing or temperature."""
    loss = LOSSES[name]
    compute = loss.sum_losses
    if options:
        compute = functools.partial(compute, **options)
    return dataclasses.replace(loss, sum_losses=compute, output=output)
