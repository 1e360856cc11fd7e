"""Dropout's seeds: which variables hold them, and their values, a pure function of (seed, step)."""

import keras
import numpy as np

from kbert.data.counter_draws import fork, key_of


def seed_states(model) -> list:
    """Return the states of the model's seed generators, in the order of its layers.

    Keras: `variables` are "all layer state, including random seeds", `weights` without these.

    Raises:
        RuntimeError: fewer than there are layers with dropout: those would draw the same mask at
            each step, and nothing would show it.
    """
    weights = set(map(id, model.weights))
    found = [variable for variable in model.variables if id(variable) not in weights]
    drawing = sum(
        (isinstance(layer, keras.layers.Dropout) and layer.rate > 0)
        or (isinstance(layer, keras.layers.MultiHeadAttention) and layer.dropout > 0)
        for layer in model.layers
    )
    if len(found) < drawing:
        raise RuntimeError(
            f"Keras {keras.__version__} has {len(found)} seeds among the model's variables for "
            f"{drawing} layers with dropout, which need one each: use Keras 3.15, or dropout 0"
        )
    return found


def seeds_of(seed: int, step: int, replicas: range, micro_batches: int, states: int) -> np.ndarray:
    """Return int32 (replicas, micro-batches, states, 2): one hash for each."""
    shape = (len(replicas), micro_batches, states, 2)
    keys = fork(key_of(seed, step), np.array(replicas))[:, None]
    places = np.arange(np.prod(shape[1:]), dtype=np.uint64)
    return (fork(keys, places) >> np.uint64(33)).astype(np.int32).reshape(shape)
