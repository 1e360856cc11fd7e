"""Losses of the user, functions and Keras's: sums, gradients and means equal torch's."""

import keras
import numpy as np
import pytest
from helpers.gradients import differentiate
from keras import ops

from kbert.training.losses.table import LOSSES, make_loss
from kbert.training.losses.user_loss import make_user_loss
from kbert.training.settings.setting_rules import check_settings

torch = pytest.importorskip("torch")
functional = torch.nn.functional
RANDOM = np.random.default_rng(17)
LOGITS = RANDOM.standard_normal((13, 7)).astype("float32") * 3
CLASSES = RANDOM.integers(0, 7, 13).astype("int32")
SETS = (RANDOM.random((13, 7)) < 0.3).astype("float32")
NUMBERS = RANDOM.standard_normal(13).astype("float32") * 3
WEIGHTS = RANDOM.random(13).astype("float32")
WEIGHTS[5] = 0.0
SET_WEIGHTS = np.repeat(WEIGHTS[:, None], 7, 1) / 7


def focal_loss(labels, logits, gamma=2.0, alpha=0.25):
    """Lin et al. 2017, equation 5."""
    log_probs = ops.log_softmax(logits, axis=-1)
    log_prob = ops.take_along_axis(log_probs, ops.expand_dims(labels, -1), axis=-1)[..., 0]
    return -alpha * (1 - ops.exp(log_prob)) ** gamma * log_prob


def binary_focal_loss(labels, logits):
    losses = ops.relu(logits) - logits * labels + ops.log1p(ops.exp(-ops.abs(logits)))
    return 0.25 * (1 - ops.exp(-losses)) ** 2.0 * losses


def squared_loss(labels, logits):
    return ops.square(labels - logits)


def focal(logits, labels):
    losses = functional.cross_entropy(logits, labels.long(), reduction="none")
    return 0.25 * (1 - torch.exp(-losses)) ** 2 * losses


def binary_focal(logits, labels):
    losses = functional.binary_cross_entropy_with_logits(logits, labels, reduction="none")
    return (0.25 * (1 - torch.exp(-losses)) ** 2 * losses).mean(-1)


def binary(logits, labels):
    losses = functional.binary_cross_entropy_with_logits(logits, labels, reduction="none")
    return losses.mean(-1)


def of_numbers(function):
    return lambda logits, labels: function(logits[:, 0], labels, reduction="none")


FROM_LOGITS = {"from_logits": True}
TASK_LOSSES = {
    "classes": "cross_entropy",
    "sets": "binary_cross_entropy",
    "numbers": "squared_error",
}
DATA = {
    "classes": (LOGITS, CLASSES, WEIGHTS),
    "sets": (LOGITS, SETS, SET_WEIGHTS),
    "numbers": (LOGITS[:, :1], NUMBERS, WEIGHTS),
}
CASES = {
    "focal function": ("classes", focal_loss, focal),
    "focal Keras": (
        *("classes", keras.losses.CategoricalFocalCrossentropy(alpha=0.25, **FROM_LOGITS), focal),
    ),
    "sparse Keras": (
        "classes",
        keras.losses.SparseCategoricalCrossentropy(**FROM_LOGITS),
        lambda logits, labels: functional.cross_entropy(logits, labels.long(), reduction="none"),
    ),
    "binary focal function": ("sets", binary_focal_loss, binary_focal),
    "binary Keras": ("sets", keras.losses.BinaryCrossentropy(**FROM_LOGITS), binary),
    "squared function": ("numbers", squared_loss, of_numbers(functional.mse_loss)),
    "Huber Keras": ("numbers", keras.losses.Huber(), of_numbers(functional.huber_loss)),
}


def make(kind: str, value):
    return make_user_loss(LOSSES[TASK_LOSSES[kind]], check_settings({"loss": value})["loss"])


def compare(loss, data, peer) -> None:
    """Check the sums of a loss, its gradient, and its mean over dev data, with torch's losses."""
    logits, labels, weights = data
    tensor = torch.tensor(logits, requires_grad=True)
    losses = peer(tensor, torch.tensor(labels))
    example_weights = weights if weights.ndim == 1 else weights.sum(1)
    expected = (torch.tensor(example_weights) * losses).sum()
    expected.backward()
    arrays = [ops.convert_to_tensor(array) for array in (labels, weights)]

    sums = ops.convert_to_numpy(loss.sum_losses(ops.convert_to_tensor(logits), *arrays))
    np.testing.assert_allclose(sums[[0, 2]], [expected.item(), weights.sum()], rtol=2e-5)
    gradient = differentiate(lambda x: loss.sum_losses(x, *arrays)[0], logits)
    np.testing.assert_allclose(gradient, tensor.grad.numpy(), rtol=1e-4, atol=2e-6)
    mean = loss.compute_mean({"a": list(labels)}, {"a": list(logits)})
    assert mean == pytest.approx(losses.mean().item(), rel=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_sums_gradients_and_means_equal_torch(name):
    kind, value, peer = CASES[name]
    loss = make(kind, value)
    compare(loss, DATA[kind], peer)
    own = LOSSES[TASK_LOSSES[kind]]
    assert (loss.metric, loss.teacher) == (own.metric, own.teacher)


@pytest.mark.parametrize(
    ("name", "peer"), [("huber", functional.huber_loss), ("absolute_error", functional.l1_loss)]
)
def test_named_losses_of_numbers_equal_torch(name, peer):
    compare(make_loss(name), DATA["numbers"], of_numbers(peer))


def test_logits_of_examples_of_weight_0_may_be_anything():
    logits = LOGITS.copy()
    logits[5] = np.nan
    arrays = [ops.convert_to_tensor(array) for array in (CLASSES, WEIGHTS)]
    loss = make("classes", focal_loss)
    gradient = differentiate(lambda x: loss.sum_losses(x, *arrays)[0], logits)
    assert np.isfinite(gradient).all() and not gradient[5].any()


def test_tokens_without_a_label_do_not_count():
    """A batch of tokens, (B, S); dev data of several lengths."""
    labels = np.array([[3, -100, 1, 0], [-100, 6, 2, -100]], "int32")
    logits = RANDOM.standard_normal((2, 4, 7)).astype("float32")
    counts = labels != -100
    loss = make("classes", focal_loss)
    expected = focal(torch.tensor(logits[counts]), torch.tensor(labels[counts]))
    arrays = np.where(counts, labels, 0), counts.astype("float32") / 5
    tensors = [ops.convert_to_tensor(array) for array in (logits, *arrays)]
    found = ops.convert_to_numpy(loss.sum_losses(*tensors))
    assert found[0] == pytest.approx(expected.mean().item(), rel=1e-5)
    rows = [labels[0, :3].tolist(), labels[1].tolist()]
    mean = loss.compute_mean({"a": rows}, {"a": [logits[0, :3], logits[1]]})
    kept = [0, 1, 3, 4]  # of the labels that count, all but the first row's last
    assert mean == pytest.approx(expected[kept].mean().item(), rel=1e-5)


def test_callbacks_see_a_loss_with_the_same_mean():
    loss, _ = make("classes", focal_loss).make_keras()
    expected = focal(torch.tensor(LOGITS), torch.tensor(CLASSES)).mean().item()
    assert float(loss(CLASSES, LOGITS)) == pytest.approx(expected, rel=1e-5)
