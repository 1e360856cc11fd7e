"""An id that a table does not have is never answered with a plausible number."""

import re

import numpy as np
import pytest
from helpers.errors import raises
from helpers.marks import full

import kbert

LATER = [full(way) for way in ("predict", "compiled")]
REFUSED = re.compile(r"not in \[0|out of range|out of bounds")  # the backends' own words


def answer(run) -> list:
    """The outputs; where the backend refused, what it said."""
    import keras

    try:
        outputs = run()
    except Exception as error:
        return [str(error)]
    outputs = outputs if isinstance(outputs, list) else [outputs]
    return [np.asarray(keras.ops.convert_to_numpy(output)) for output in outputs]


def is_refused_or_nan(output, wrong, right) -> bool:
    """Whether a backend said what is wrong, or its numbers are NaN there and nowhere else."""
    if isinstance(output, str):
        return bool(REFUSED.search(output))
    return np.isnan(output[wrong]).all() and np.isfinite(output[right]).all()


@pytest.fixture(scope="module")
def model(small):
    return kbert.build_bert(small, seq_len=7)


@pytest.fixture
def inputs():
    random = np.random.default_rng(11)
    token_ids = random.integers(1, 99, (13, 7)).astype("int32")
    token_ids[:, 5:] = 0
    segment_ids = random.integers(0, 3, (13, 7)).astype("int32")
    return [token_ids, segment_ids, np.ones((13, 7), "int32")]


@pytest.mark.parametrize("way", ["call", *LATER])
@pytest.mark.parametrize(
    ("which", "place", "wrong"),
    [
        (0, (2, 3), 99),
        (0, (2, 0), -1),
        (0, (2, 3), 2**31 - 1),
        (1, (2, 3), 3),
        (1, (2, 0), -3),
        (1, (2, 6), 3),  # on padding
    ],
)
def test_id_out_of_range_gives_an_error_or_nan(model, inputs, way, which, place, wrong, backend):
    if way == "compiled" and backend == "torch":
        pytest.skip("on torch this takes a minute each; test_numbers compiles once")
    inputs[which][place] = wrong
    if way == "call":
        outputs = answer(lambda: model(inputs))
    else:
        model.compile(optimizer="sgd", jit_compile=way == "compiled")
        outputs = answer(lambda: model.predict(inputs, verbose=0))
    others = [row for row in range(13) if row != 2]
    assert [is_refused_or_nan(output, 2, others) for output in outputs] in ([True], [True] * 2)


@pytest.mark.parametrize("way", ["call", LATER[1]])
def test_a_position_outside_the_sequence_is_an_error_or_nan(small, inputs, way, backend):
    if way == "compiled" and backend == "torch":
        pytest.skip("on torch this takes a minute each; test_numbers compiles once")
    model = kbert.build_bert(small, seq_len=7, max_predictions=4)
    positions = np.full((13, 4), 2, "int32")
    positions[2, 1] = 7
    model.compile(optimizer="sgd", jit_compile=True)
    run = model if way == "call" else model.predict_on_batch
    outputs = answer(lambda: run([*inputs[:2], positions]))
    assert is_refused_or_nan(outputs[0], (2, 1), (2, [0, 2, 3]))


def test_sequence_longer_than_the_position_table_is_refused(small):
    model = kbert.build_encoder(small, seq_len=None)
    with raises(ValueError, 17):
        model([np.ones((2, 18), "int32"), np.zeros((2, 18), "int32")])
