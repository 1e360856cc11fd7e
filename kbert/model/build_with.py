"""Building of a model with the weights of other models' layers, by the layers' names."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kbert.graph.spec import GraphSpec
from kbert.model import deferred
from kbert.model.matrices import is_adapter


def build_with(spec: GraphSpec, layers: Mapping[str, Any]):
    """Build a graph whose layers have copies of others' weights, in its own dtype; no adapters.

    Nothing is drawn at random for these, which for base takes seconds.

    Args:
        spec: what to build.
        layers: Keras layers by their names; None for one that is newly initialized, none for all.

    Raises:
        KeyError: a layer with weights that is not among them.
    """
    from kbert.model import builder  # imports Keras

    if not layers:
        return builder.build(spec)
    values: dict[str, Callable[[], np.ndarray]] = {}
    with deferred.without_values():
        model = builder.build(spec)
        for layer in model.layers:
            if layer.weights and (given := layers[layer.name]):
                weights = [one for one in given.weights if not is_adapter(one.path)]
                for new, old in zip(layer.weights, weights, strict=True):
                    values[new.path] = functools.partial(_copy, old)
    deferred.fill(model, values)
    return model


def layers_of(model) -> dict[str, Any]:
    """Return a model's layers by their names."""
    return {layer.name: layer for layer in model.layers}


def _copy(weight) -> np.ndarray:
    """Return a weight's values, float32, as a copy: JAX and torch keep the array that they get."""
    from keras import ops

    return np.array(ops.convert_to_numpy(ops.cast(weight, "float32")), order="C")
