"""The loss scale of float16."""

from keras import ops

FIRST_SCALE = 2.0**15
GROWTH = 2_000  # good updates after which the scale is doubled
MOST_SKIPPED = 30  # updates in a row: any loss scale has then fallen below 1


def needs_scale(model) -> bool:
    """Return whether a model computes in float16, whose gradients need a loss scale."""
    return any(layer.compute_dtype == "float16" for layer in model.layers)


def next_scale(scale, good, finite):
    """Return the next loss scale and count of good steps: the scale is halved, or later doubled."""
    grown = ops.logical_and(finite, good + 1 >= GROWTH)
    larger = ops.where(grown, scale * 2.0, scale)
    scale = ops.where(finite, larger, ops.maximum(scale * 0.5, 2.0**-14))
    counted = ops.where(finite, good + 1, ops.zeros_like(good))
    return scale, ops.where(grown, ops.zeros_like(good), counted)
