"""Dropout's seeds: which variables hold them, and their values, a pure function of (seed, step)."""

import numpy as np

from kbert.data.counter_draws import fork, key_of

_SEED_STATE = "seed_generator_state"  # Keras's name of such a variable


def seed_states(model) -> list:
    """The states of the model's seed generators, in the order of its layers.

    Raises:
        RuntimeError: fewer than there are layers with dropout: those would draw the same mask at
            each update, and nothing would show it.
    """
    found = [v for v in model.non_trainable_variables if v.path.endswith(_SEED_STATE)]
    # Dropout's rate, and the attention's
    rates = [getattr(layer, "rate", 0) or getattr(layer, "dropout", 0) for layer in model.layers]
    drawing = sum(rate > 0 for rate in rates)
    if len(found) < drawing:
        raise RuntimeError(
            f"the model has {drawing} layers with dropout and {len(found)} variables named "
            f"{_SEED_STATE}, expected one for each: this version of Keras names them otherwise; "
            "take one that kbert was tested with, or dropout 0"
        )
    return found


def seeds_of(seed: int, step: int, replicas: range, micro_batches: int, states: int) -> np.ndarray:
    """int32 (replicas, micro-batches, states, 2): one hash for each."""
    shape = (len(replicas), micro_batches, states, 2)
    if 0 in shape:
        return np.zeros(shape, np.int32)
    keys = fork(key_of(seed, step), np.array(replicas))[:, None]
    places = np.arange(np.prod(shape[1:]), dtype=np.uint64)
    return (fork(keys, places) >> np.uint64(33)).astype(np.int32).reshape(shape)
