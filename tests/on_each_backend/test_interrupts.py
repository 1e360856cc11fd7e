"""A model keeps its weights whatever ends a prediction, and threads may share it."""

import contextlib
import itertools
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import keras
import numpy as np
import pytest
from helpers.backends import full_on
from helpers.small_berts import TEXTS, small_bert
from keras.src.backend.common import global_state

import kbert

THREADS = 8
INTERRUPTS = {"kbert.embed": 30}
if keras.backend.backend() == "jax":  # which alone takes a model's weights while it computes
    INTERRUPTS |= {"kbert.predict": 30, "predict": 30, "evaluate": 20}
    INTERRUPTS |= {"predict_on_batch": 20, "test_on_batch": 20}
PACKAGES = tuple(str(Path(package.__file__).parent) for package in (kbert, keras))
CATCHES_ALL = "_maybe_warn_inputs_struct_mismatch"  # of Keras: a bare `except`, Ctrl-C too
SIZES = {
    "vocab_size": 40,
    "hidden_size": 12,
    "num_hidden_layers": 1,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 50,
}


def build_bert():
    return small_bert(kbert.BertConfig(**SIZES), "encoder")


def ids(count=11, length=7, seed=3):
    random = np.random.default_rng(seed)
    tokens = random.integers(5, SIZES["vocab_size"], (count, length)).astype("int32")
    return [tokens, np.zeros_like(tokens)]


@pytest.fixture(scope="module")
def bert():
    bert = build_bert()
    bert.model.compile(loss=["mse", "mse"])
    return bert


def calls_of(bert) -> dict:
    """What computes with the weights, by name; Keras's own functions among it."""
    model, inputs = bert.model, ids()
    count, length = inputs[0].shape
    width = SIZES["hidden_size"]
    zeros = [np.zeros(shape, "float32") for shape in ((count, length, width), (count, width))]
    return {
        "kbert.embed": lambda: kbert.embed(bert, TEXTS[:5], progress=False),
        "kbert.predict": lambda: next(iter(kbert.predict(model, *inputs, batch_size=4).values())),
        "predict": lambda: model.predict(inputs, batch_size=4, verbose=0)[0],
        "predict_on_batch": lambda: model.predict_on_batch(inputs)[0],
        "evaluate": lambda: model.evaluate(inputs, zeros, batch_size=4, verbose=0),
        "test_on_batch": lambda: model.test_on_batch(inputs, zeros),
    }


def count_calls(call, stop_at: int = 0) -> int:
    """Call a function; Ctrl-C at the start of one of the functions of kbert and Keras in it.

    At the start of a function is where Python looks for signals. Not in other packages: tqdm and
    logging would keep their locks, and have other threads wait for ever. Nor below the function of
    Keras that catches every exception.
    """
    calls = itertools.count(1)

    def profile(frame, event, _):
        counts = event == "call" and frame.f_code.co_filename.startswith(PACKAGES)
        if counts and not is_below(frame, CATCHES_ALL) and next(calls) == stop_at:
            raise KeyboardInterrupt

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return next(calls)


def is_below(frame, function: str) -> bool:
    while frame is not None and frame.f_code.co_name != function:
        frame = frame.f_back
    return frame is not None


@pytest.mark.parametrize("name", INTERRUPTS)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # in a finalizer
def test_interrupts_keep_the_weights(bert, name):
    call = calls_of(bert)[name]
    expected, weights = call(), bert.model.get_weights()
    interrupted = 0
    for moment in np.linspace(1, count_calls(call) - 1, INTERRUPTS[name], dtype=int):
        try:
            count_calls(call, moment)
        except KeyboardInterrupt:
            interrupted += 1
            # Where Keras was about to leave a name scope, later layers would be named after it.
            global_state.set_global_attribute("name_scope_stack", [])
    assert interrupted > 0.9 * INTERRUPTS[name]  # the others end a finalizer
    keras.tree.map_structure(np.testing.assert_array_equal, bert.model.get_weights(), weights)
    np.testing.assert_allclose(call(), expected, rtol=1e-6)


@pytest.mark.full
def test_an_error_keeps_the_weights(bert):
    """A text of more tokens than the model has positions."""
    calls = calls_of(bert)
    expected = calls["predict"]()
    with contextlib.suppress(Exception):  # each backend has an error of its own, or NaN
        bert.model.predict(ids(length=51), verbose=0)
    for name in ("predict", "kbert.predict"):
        np.testing.assert_allclose(calls[name](), expected, rtol=1e-6)


@full_on("jax", "tensorflow")
def test_threads_share_a_model():
    """The first calls of all: the function is compiled while others ask for it."""
    bert, alone = build_bert(), build_bert()
    bert.model.set_weights(alone.model.get_weights())
    texts = [TEXTS[start : start + 5] for start in range(THREADS)]
    inputs = [ids(5, seed=thread) for thread in range(THREADS)]
    expected = [kbert.embed(alone, some, progress=False) for some in texts]
    predicted = [kbert.predict(alone.model, *one) for one in inputs]
    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(lambda some: kbert.embed(bert, some, progress=False), texts))
        again = [pool.submit(kbert.embed, bert, some, progress=False) for some in texts]
        outputs = list(pool.map(lambda one: kbert.predict(bert.model, *one), inputs))
        found += [one.result() for one in again]
    for one, other in zip(found, expected * 2, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
    keras.tree.map_structure(
        lambda one, other: np.testing.assert_allclose(one, other, atol=1e-6), outputs, predicted
    )
