"""First weights come from a run's seed alone, and the caller's random numbers go on."""

import random

import keras
import numpy as np

import kbert
from kbert.training.runner import seed_weights


def weights(config, seed):
    with seed_weights(seed):
        model = kbert.build_bert(config, seq_len=7)
    return model.get_weights()


def test_initial_weights_equal_those_of_the_keras_seed(small):
    """Keras's own way to set every seed there is, TensorFlow's too, draws the same."""
    found = weights(small, 13)
    keras.utils.set_random_seed(13)
    wanted = kbert.build_bert(small, seq_len=7).get_weights()
    others = weights(small, 14)
    for one, same, other in zip(found, wanted, others, strict=True):
        np.testing.assert_array_equal(one, same)
        assert one.std() == 0 or not np.array_equal(one, other)


def test_build_leaves_the_callers_random_numbers(small):
    random.seed(3)
    expected = [random.random() for _ in range(2)]
    random.seed(3)
    assert random.random() == expected[0]
    weights(small, 13)
    assert random.random() == expected[1]
