"""First weights are drawn from the distribution that Keras's initializer has, by its seed."""

import keras
import numpy as np
import pytest

import kbert
from kbert.model import first_weights


def test_the_distribution_is_that_of_keras_initializer():
    """Quantiles of both, 400,001 numbers; also where one portion ends and the next begins."""
    shape = (400_001, 1)
    ours = first_weights.truncated_normal(shape, 0.05, 13)
    theirs = np.asarray(keras.initializers.TruncatedNormal(stddev=0.05, seed=13)(shape))
    assert ours.shape == shape and ours.dtype == np.float32 and abs(ours).max() <= 0.1
    places = np.linspace(0, 1, 41)
    np.testing.assert_allclose(*(np.quantile(x, places) for x in (ours, theirs)), atol=6e-4)
    assert len(np.unique(ours)) > 0.97 * len(np.unique(theirs))


def test_the_inverse_is_that_of_pythons_normal_distribution():
    from statistics import NormalDist

    uniform = np.linspace(0, 1, 997, dtype="float32")
    found = uniform.copy()
    first_weights._to_normal(found, 3.0)
    low, high = NormalDist().cdf(-2), NormalDist().cdf(2)
    wanted = [3 * NormalDist().inv_cdf(low + (high - low) * float(u)) for u in uniform]
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


def test_every_weight_has_a_seed_of_its_own_and_others_keep_their_initializer(small):
    model = kbert.build_bert(small)
    starts = {tuple(weight.numpy().ravel()[:4]) for weight in model.weights if weight.numpy().std()}
    assert len(starts) == sum(bool(weight.numpy().std()) for weight in model.weights) > 9
    for name, value in (("gamma", 1), ("beta", 0), ("bias", 0)):
        (found,) = {
            float(np.unique(w.numpy()).item()) for w in model.weights if w.path.endswith(name)
        }
        assert found == value


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "mixed_bfloat16"])
def test_other_dtypes_are_the_same_numbers_rounded(small, dtype):
    models = []
    for policy in ("float32", dtype):
        keras.utils.set_random_seed(13)
        models.append(kbert.build_encoder(small, seq_len=7, dtype=policy))
    for one, other in zip(*(model.weights for model in models), strict=True):
        rounded = keras.ops.cast(one.value, other.dtype)
        np.testing.assert_array_equal(rounded, other.value)
