"""Which precision a model is built in, and the loss scale of float16."""

import contextlib

from keras import ops

from kbert.training.setting_rules import checked

FIRST_SCALE = 2.0**15
GROWTH = 2_000  # good updates after which the scale is doubled
MOST_SKIPPED = 30  # updates in a row: any loss scale has then fallen below 1


@contextlib.contextmanager
def built_in(precision: str):
    """Models built within compute in that precision; their weights stay float32."""
    import keras

    checked({"precision": precision})
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(precision)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def needs_scale(model) -> bool:
    """Whether a model computes in float16, whose gradients need a loss scale."""
    return any(layer.compute_dtype == "float16" for layer in model.layers)


def next_scale(scale, good, finite):
    """The loss scale and the count of good updates after an update: halved, or doubled at last."""
    grown = ops.logical_and(finite, good + 1 >= GROWTH)
    larger = ops.where(grown, scale * 2.0, scale)
    scale = ops.where(finite, larger, ops.maximum(scale * 0.5, 2.0**-14))
    counted = ops.where(finite, good + 1, ops.zeros_like(good))
    return scale, ops.where(grown, ops.zeros_like(good), counted)
