"""Each loss, and its gradient, equals torch's: of labels, numbers, and a teacher's outputs."""

import dataclasses

import numpy as np
import pytest
from helpers.gradients import differentiate

from kbert.training.losses.loss import sum_metrics
from kbert.training.losses.table import LOSSES, make_loss

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
CLASS_WEIGHTS = (0.2 + np.arange(7)).astype("float32")
WEIGHTED = WEIGHTS * CLASS_WEIGHTS[CLASSES]
TEACHER = RANDOM.standard_normal((13, 7)).astype("float32") * 3
STATES, TEACHER_STATES = RANDOM.standard_normal((2, 13, 3, 7)).astype("float32")
STATE_WEIGHTS = np.repeat(WEIGHTS[:, None], 3, 1)
WARM = {"temperature": 2.5}


def smoothed(logits, labels):
    return functional.cross_entropy(logits, labels.long(), reduction="none", label_smoothing=0.3)


def weighted(logits, labels):
    """Per label and its weight, which the test multiplies it by again."""
    given = {"weight": torch.tensor(CLASS_WEIGHTS), "label_smoothing": 0.3, "reduction": "none"}
    losses = functional.cross_entropy(logits, labels.long(), **given)
    return losses / given["weight"][labels.long()]


def soft_classes(logits, teacher):
    logs = functional.log_softmax(logits / 2.5, -1), functional.softmax(teacher / 2.5, -1)
    return 2.5**2 * functional.kl_div(*logs, reduction="none").sum(-1)


def soft_labels(logits, teacher):
    soft = torch.sigmoid(teacher / 2.5)
    losses = functional.binary_cross_entropy_with_logits(logits / 2.5, soft, reduction="none")
    return 2.5**2 * (losses - functional.binary_cross_entropy(soft, soft, reduction="none"))


def squared(states, teacher):
    return functional.mse_loss(states, teacher, reduction="none").mean(-1)


def cosine(states, teacher):
    return 1 - functional.cosine_similarity(states, teacher, dim=-1)


CASES = {
    "squared_error": (LOGITS[:, :1], NUMBERS, WEIGHTS, {}, lambda x, y: (x[:, 0] - y) ** 2),
    "binary_cross_entropy": (
        *(LOGITS, EACH, EACH_WEIGHTS, {}),
        lambda x, y: functional.binary_cross_entropy_with_logits(x, y, reduction="none"),
    ),
    "cross_entropy": (
        *(LOGITS, CLASSES, WEIGHTS, {}),
        lambda x, y: functional.cross_entropy(x, y.long(), reduction="none"),
    ),
    "cross_entropy smoothed": (LOGITS, CLASSES, WEIGHTS, {"smoothing": 0.3}, smoothed),
    "cross_entropy weighted": (
        *(LOGITS, CLASSES, WEIGHTED, {"smoothing": 0.3, "class_weights": CLASS_WEIGHTS}),
        weighted,
    ),
    "kl_divergence": (LOGITS, TEACHER, WEIGHTS, WARM, soft_classes),
    "binary_kl_divergence": (LOGITS, TEACHER, EACH_WEIGHTS, WARM, soft_labels),
    "state_errors": (STATES, TEACHER_STATES, STATE_WEIGHTS, {}, squared),
    "state_cosines": (STATES, TEACHER_STATES, STATE_WEIGHTS, {}, cosine),
}
SECOND = {
    "squared_error": np.abs(LOGITS[:, 0] - NUMBERS),
    "binary_cross_entropy": (LOGITS > 0) == (EACH > 0.5),
    **{
        name: LOGITS.argmax(1) == CLASSES
        for name in ("cross_entropy", "cross_entropy smoothed", "cross_entropy weighted")
    },
}


@pytest.mark.parametrize("name", CASES)
def test_losses_and_gradients_equal_torch(name):
    from keras import ops

    logits, labels, weights, options, peer = CASES[name]
    tensor = torch.tensor(logits, requires_grad=True)
    expected = (torch.tensor(weights) * peer(tensor, torch.tensor(labels))).sum()
    expected.backward()
    given = [ops.convert_to_tensor(array) for array in (labels, weights)]

    loss = make_loss(name.split()[0], **options)

    def sums_of(logits):
        return loss.sum_losses(logits, *given)

    sums = ops.convert_to_numpy(sums_of(ops.convert_to_tensor(logits)))
    second = (weights * SECOND[name]).sum() if name in SECOND else sums[1]
    np.testing.assert_allclose(sums, [expected.item(), second, weights.sum()], rtol=2e-5)
    slopes = differentiate(lambda x: sums_of(x)[0], logits)
    np.testing.assert_allclose(slopes, tensor.grad.numpy(), rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("name", CASES)
def test_examples_of_weight_0_may_be_anything(name):
    from keras import ops

    logits, labels, weights, options, _ = CASES[name]
    logits = logits.copy()
    logits[5], logits[5, 0] = np.inf, np.nan
    given = [ops.convert_to_tensor(array) for array in (labels, weights)]
    loss = make_loss(name.split()[0], **options)
    found = differentiate(lambda x: loss.sum_losses(x, *given)[0], logits)
    assert np.isfinite(found).all() and not found[5].any()


def test_loss_names_its_second_metric():
    losses = {"a": "squared_error", "b": "binary_cross_entropy", "c": "cross_entropy"}
    names = ["a_loss", "a_absolute_error", "b_loss", "b_accuracy", "c_loss", "c_accuracy"]
    losses = {output: LOSSES[loss] for output, loss in losses.items()}
    assert list(sum_metrics(losses, "abc", np.zeros((3, 3)))) == names


def test_mean_over_examples_takes_plain_numbers_too():
    """Of formulas that return one number per example, in place of an array."""
    loss = dataclasses.replace(LOSSES["squared_error"], compute=lambda x, y: (x.sum() - y) ** 2)
    assert loss.compute_mean({"a": [1.0, 3.0]}, {"a": [[2.0], [5.0]]}) == 2.5
