"""What is minimized: the sum of weight × cross-entropy over every label of every output."""

from collections.abc import Mapping

from keras import ops

MEASURES = ("loss", "accuracy", "weight")  # a column each of `measured`


def measured(logits, labels, weights):
    """The sums that an output's loss and accuracy are made of, in float32.

    Args:
        logits: float (…, classes), in any precision.
        labels: int32 (…).
        weights: float32 (…): what each label counts for; 0: padding.

    Returns:
        float32 (3,): Σ weight × cross-entropy, Σ weight × (largest logit is the label's),
        Σ weight.
    """
    counted = weights > 0
    # a label that counts for nothing may have any logits: NaN would pass to the gradients too
    logits = ops.where(ops.expand_dims(counted, -1), ops.cast(logits, "float32"), 0.0)
    losses = ops.logsumexp(logits, axis=-1) - ops.squeeze(
        ops.take_along_axis(logits, ops.expand_dims(labels, -1), axis=-1), -1
    )
    hits = ops.cast(ops.equal(ops.cast(ops.argmax(logits, axis=-1), "int32"), labels), "float32")
    return ops.stack([ops.sum(weights * losses), ops.sum(weights * hits), ops.sum(weights)])


def objective(outputs: Mapping, labels: Mapping, weights: Mapping, measure=measured):
    """The loss of some examples, a scalar, and `measured` of each output, (outputs, 3)."""
    sums = ops.stack([measure(outputs[name], labels[name], weights[name]) for name in labels])
    return ops.sum(sums[:, 0]), sums


def scaled_objective(forward, micro_batch, scale, measure=measured):
    """What an engine takes the gradient of: the loss of one micro-batch of a replica.

    Args:
        forward: gives the outputs, logits by name, for inputs by name.
        micro_batch: inputs, labels, their weights, and {"wishes": float32 (B, 3)}.
        scale: the loss scale. It comes in here, before the gradients are taken, so that none of
            them is too small for float16; the engine divides by it once they are summed.
        measure: `measured`, or what gives the same.

    Returns:
        The loss times the scale, and sums, (outputs + 1, 3): `measured` of each output, and in the
        last row the wishes.
    """
    inputs, labels, weights, wishes = micro_batch
    loss, sums = objective(forward(inputs), labels, weights, measure)
    wished = ops.sum(wishes["wishes"], 0, keepdims=True)
    return loss * scale, ops.concatenate([sums, wished])


def figures(names, sums) -> dict:
    """From `measured`'s sums, (outputs, 3), to figures: "loss", "MLM_loss", "MLM_accuracy", …

    An output whose labels all count for nothing has a loss and an accuracy of 0.
    """
    found = {"loss": ops.sum(sums[:, 0])}
    for place, name in enumerate(names):
        total = ops.maximum(sums[place, 2], 1e-30)
        found[f"{name}_loss"] = sums[place, 0] / total
        found[f"{name}_accuracy"] = sums[place, 1] / total
    return found


def totals(names, sums) -> dict[str, tuple[float, float]]:
    """From `measured`'s sums, (outputs, 3), numbers that add up over batches.

    Returns:
        By name ("MLM_loss", "MLM_accuracy", …) Σ weight × figure and Σ weight.
    """
    found = {}
    for name, (loss, hits, weight) in zip(names, sums.tolist(), strict=True):
        found[f"{name}_loss"], found[f"{name}_accuracy"] = (loss, weight), (hits, weight)
    return found
