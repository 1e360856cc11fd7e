"""Losses of numbers, of several labels, of smoothed ones, and their gradients, beside torch."""

import numpy as np
import pytest
from helpers.gradients import differentiate

from kbert.training import loss as objectives

torch = pytest.importorskip("torch")
functional = torch.nn.functional
RANDOM = np.random.default_rng(11)
LOGITS = RANDOM.standard_normal((13, 7)).astype("float32") * 3
WEIGHTS = RANDOM.random(13).astype("float32")
WEIGHTS[5] = 0.0
NUMBERS = RANDOM.standard_normal(13).astype("float32")
EACH = (RANDOM.random((13, 7)) < 0.3).astype("float32")
EACH_WEIGHTS = np.repeat(WEIGHTS[:, None], 7, 1)
CLASSES = RANDOM.integers(0, 7, 13).astype("int32")


def smoothed(logits, labels):
    return functional.cross_entropy(logits, labels.long(), reduction="none", label_smoothing=0.3)


CASES = {
    "numbers": (LOGITS[:, :1], NUMBERS, WEIGHTS, 0.0, lambda x, y: (x[:, 0] - y) ** 2),
    "each": (
        *(LOGITS, EACH, EACH_WEIGHTS, 0.0),
        lambda x, y: functional.binary_cross_entropy_with_logits(x, y, reduction="none"),
    ),
    "classes": (
        *(LOGITS, CLASSES, WEIGHTS, 0.0),
        lambda x, y: functional.cross_entropy(x, y.long(), reduction="none"),
    ),
    "smoothed": (LOGITS, CLASSES, WEIGHTS, 0.3, smoothed),
}
SECOND = {
    "numbers": np.abs(LOGITS[:, 0] - NUMBERS),
    "each": (LOGITS > 0) == (EACH > 0.5),
    **dict.fromkeys(("classes", "smoothed"), LOGITS.argmax(1) == CLASSES),
}


@pytest.mark.parametrize("name", CASES)
def test_losses_and_gradients_equal_torch(name):
    from keras import ops

    logits, labels, weights, smoothing, peer = CASES[name]
    tensor = torch.tensor(logits, requires_grad=True)
    expected = (torch.tensor(weights) * peer(tensor, torch.tensor(labels))).sum()
    expected.backward()
    given = [ops.convert_to_tensor(array) for array in (labels, weights)]

    def sums_of(logits):
        return objectives.sum_losses(logits, *given, smoothing=smoothing)

    sums = ops.convert_to_numpy(sums_of(ops.convert_to_tensor(logits)))
    second = float((weights * SECOND[name]).sum())
    np.testing.assert_allclose(sums, [expected.item(), second, weights.sum()], rtol=2e-5)
    slopes = differentiate(lambda x: sums_of(x)[0], logits)
    np.testing.assert_allclose(slopes, tensor.grad.numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_examples_of_weight_0_may_be_anything(name):
    from keras import ops

    logits, labels, weights, smoothing, _ = CASES[name]
    logits = logits.copy()
    logits[5], logits[5, 0] = np.inf, np.nan
    given = [ops.convert_to_tensor(array) for array in (labels, weights)]
    found = differentiate(
        lambda x: objectives.sum_losses(x, *given, smoothing=smoothing)[0], logits
    )
    assert np.isfinite(found).all() and not found[5].any()


def test_second_metric_is_named_by_the_label_type():
    labels = {"a": NUMBERS, "b": EACH, "c": CLASSES}
    names = {"a": "absolute_error", "b": "accuracy", "c": "accuracy"}
    assert objectives.name_second_metrics(labels) == names
    parted = {name: np.stack([array, array]) for name, array in labels.items()}
    assert objectives.name_second_metrics(parted, axes=2) == names
