"""Engines of small models, with the same weights each time."""

import keras
import numpy as np

import kbert
from helpers.sizes import SIZES
from kbert.graph.spec import GraphSpec
from kbert.model.builder import build
from kbert.training import backends
from kbert.training.engine import Engine
from kbert.training.optimization.optimizers import Optimizer


def small_config(blocks: int = 1, dropout: float = 0.1, **changes) -> kbert.BertConfig:
    """A configuration of odd sizes; `dropout` is both rates."""
    rates = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    return kbert.BertConfig(**SIZES | rates | {"num_hidden_layers": blocks} | changes)


def build_engine(spec: GraphSpec, optimizer: Optimizer | None = None, **options) -> Engine:
    """An engine of a graph; `options` as of `Engine.prepare`."""
    keras.utils.set_random_seed(5)
    backend = backends.start()
    with backend.scope():
        model = build(spec)
    engine = Engine(backend, model, optimizer or Optimizer(total_steps=9), **options)
    return engine


def largest_difference(one: dict, other: dict, floor: float = 0.0) -> float:
    """Of two sets of gradients, as a part of each gradient's largest number.

    `floor`: of gradients that are smaller than this part of the largest gradient.
    """
    assert list(one) == list(other)
    largest = max(np.abs(value).max() for value in one.values())
    return max(
        float(np.abs(one[name] - other[name]).max() / max(np.abs(one[name]).max(), floor * largest))
        for name in one
        if not name.endswith("key/bias")  # it has no gradient: nothing but rounding
    )
