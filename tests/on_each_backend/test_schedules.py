"""Learning rates of whole runs equal transformers', torch's and Keras's."""

import keras
import numpy as np
import pytest
from helpers.peer_outputs import run_peer

from kbert.training.optimization import optimizers
from kbert.training.optimization.optimizers import Optimizer

PEAK, STEPS, WARMUP = 3e-4, 37, 5
LONG, LONG_WARMUP = 1_000_000, 10_007
# of a long run: both ends, around the warm-up's end, and in between
FEW = [0, 1, 10_006, 10_007, 10_008, 123_457, 499_999, 750_001, 999_900, 999_997, 999_998, 999_999]
KERAS_SCHEDULES = keras.optimizers.schedules


def find_rates(steps, **settings) -> np.ndarray:
    settings = Optimizer(learning_rate=PEAK, **settings)
    iterations = [keras.ops.convert_to_tensor(step, "float32") for step in steps]
    rates = [optimizers.learning_rate(settings, one) for one in iterations]
    assert all(keras.backend.standardize_dtype(rate.dtype) == "float32" for rate in rates)
    return np.array([float(keras.ops.convert_to_numpy(rate)) for rate in rates])


def make_peers(total: int, warmup: int) -> dict:
    """The settings of kbert, and the call of a peer that means the same, by a name."""
    steps = {"num_warmup_steps": warmup, "num_training_steps": total}
    polynomial = "get_polynomial_decay_schedule_with_warmup"
    floor, minimum = 0.125, {"min_learning_rate_ratio": 0.125}
    return {
        "linear": ({"schedule": "linear"}, "get_linear_schedule_with_warmup", steps),
        "constant": (
            {"schedule": "constant"},
            *("get_constant_schedule_with_warmup", {"num_warmup_steps": warmup}),
        ),
        "cosine": ({"schedule": "cosine"}, "get_cosine_schedule_with_warmup", steps),
        "cosine_with_minimum": (
            {"schedule": "cosine"} | minimum,
            *("get_cosine_with_min_lr_schedule_with_warmup", steps | {"min_lr_rate": floor}),
        ),
        "linear_with_minimum": (
            {"schedule": "linear"} | minimum,
            *(polynomial, steps | {"lr_end": floor * PEAK}),
        ),
        "polynomial": (
            {"schedule": "polynomial", "schedule_power": 2.5} | minimum,
            *(polynomial, steps | {"lr_end": floor * PEAK, "power": 2.5}),
        ),
        "inverse_sqrt": (
            {"schedule": "inverse_sqrt"},
            *("get_inverse_sqrt_schedule", {"num_warmup_steps": warmup}),
        ),
        "inverse_sqrt_with_timescale": (
            {"schedule": "inverse_sqrt", "schedule_timescale": 3},
            *("get_inverse_sqrt_schedule", {"num_warmup_steps": warmup, "timescale": 3}),
        ),
        "one_cycle": (
            {"schedule": "one_cycle"},
            *("OneCycleLR", {"total_steps": total, "pct_start": warmup / total}),
        ),
    }


@pytest.mark.parametrize(
    ("steps", "total", "warmup"),
    [(range(STEPS), STEPS, WARMUP), (range(STEPS), STEPS, 0), (FEW, LONG, LONG_WARMUP)],
    ids=["short", "without_warmup", "long"],
)
def test_rates_equal_those_of_transformers_and_torch(steps, total, warmup, tmp_path):
    cases = make_peers(total, warmup)
    calls = {name: call for name, (_, *call) in cases.items()}
    run_peer("peer_schedules:write_rates", tmp_path, PEAK, list(steps), calls)
    with np.load(tmp_path / "rates.npz") as expected:
        for name, (settings, *_) in cases.items():
            found = find_rates(steps, total_steps=total, warmup_steps=warmup, **settings)
            # A cosine's last rates are small, and the peers' float64 1 - cos has lost digits there.
            np.testing.assert_allclose(
                found, expected[name], rtol=2e-6, atol=1e-15 * PEAK, err_msg=name
            )
            assert len(np.unique(expected[name])) > 1 or name == "constant", name


def test_rates_equal_those_of_keras():
    """CosineDecay has a warm-up of its own, PolynomialDecay has none."""
    steps, after = range(STEPS + 4), STEPS - WARMUP
    cosine = KERAS_SCHEDULES.CosineDecay(
        0.0, after, alpha=0.2, warmup_target=PEAK, warmup_steps=WARMUP
    )
    polynomial = KERAS_SCHEDULES.PolynomialDecay(PEAK, STEPS, 0.2 * PEAK, power=1.7)
    shape = {"total_steps": STEPS, "min_learning_rate_ratio": 0.2}
    cases = [
        (cosine, {"schedule": "cosine", "warmup_steps": WARMUP}),
        (polynomial, {"schedule": "polynomial", "schedule_power": 1.7}),
    ]
    for schedule, settings in cases:
        expected = [float(keras.ops.convert_to_numpy(schedule(step))) for step in steps]
        np.testing.assert_allclose(find_rates(steps, **shape, **settings), expected, rtol=2e-6)


@pytest.mark.parametrize(
    "schedule",
    [
        KERAS_SCHEDULES.CosineDecay(0.0, 32, warmup_target=2e-3, warmup_steps=5),
        KERAS_SCHEDULES.PiecewiseConstantDecay([3, 11], [1e-3, 4e-4, 7e-5]),
        KERAS_SCHEDULES.InverseTimeDecay(1e-3, 7, 0.6, staircase=True),
    ],
    ids=lambda schedule: type(schedule).__name__,
)
def test_keras_schedule_gives_the_whole_rate(schedule):
    """The rate of a step is what `fit` would ask the schedule for, with the peak rate unused."""
    expected = [float(keras.ops.convert_to_numpy(schedule(step))) for step in range(STEPS)]
    found = find_rates(range(STEPS), schedule=schedule, total_steps=STEPS, warmup_steps=9)
    np.testing.assert_allclose(found, expected, rtol=1e-7)


def test_triangle_is_that_of_cramming():
    """get_budget_triangle of JonasGeiping/cramming with its base_percentage and falloff."""
    base, falloff, total = 0.25, 0.25, 40
    expected = [
        PEAK
        * min(
            base + step * (1 - base) / (1 - falloff) / total,
            1 / falloff - step / (total * falloff),
        )
        for step in range(total)
    ]
    found = find_rates(range(total), schedule="triangle", total_steps=total, warmup_steps=30)
    np.testing.assert_allclose(found, expected, rtol=2e-6)


def test_one_cycle_of_a_warmup_of_one_step_begins_at_the_peak():
    rates = find_rates(range(STEPS), schedule="one_cycle", total_steps=STEPS, warmup_steps=1)
    assert rates[0] == pytest.approx(PEAK) and rates[1] < PEAK
    assert rates[-1] == pytest.approx(PEAK / 25 / 1e4)  # torch's smallest rate
