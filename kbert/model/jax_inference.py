"""Inference on JAX that keeps the weights, whatever ends it.

Keras's `predict` and `evaluate` on JAX take the weights out of the model's variables and donate
their buffers to the compiled program. An exception or Ctrl-C inside leaves the model without
weights, and a second thread reads random initial values or deleted buffers in the meantime.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from weakref import WeakKeyDictionary

import keras

from kbert.ops import keras_internals

# By the first layer with weights, which a model shares with its views.
_locks: WeakKeyDictionary = WeakKeyDictionary()


def _lock_of(model):
    with_weights = (layer for layer in model.layers if layer.weights)
    layer = next(with_weights, model)
    return _locks.setdefault(layer, threading.RLock())


def compile_forward(model: keras.Model) -> Callable:
    """Compile a model's outputs of a list of inputs; weights are read at each call."""
    import jax

    variables = list(model.variables)

    @jax.jit
    def forward(values: Sequence, inputs: list):
        mapping = list(zip(variables, values, strict=True))
        with keras.StatelessScope(state_mapping=mapping):
            return model(inputs, training=False)

    def call(inputs: list):
        with _lock_of(model):  # `model.predict` of another thread has them meanwhile
            values = [variable.value for variable in variables]
        return forward(values, inputs)

    return call


@contextlib.contextmanager
def keep_weights(model: keras.Model) -> Iterator[None]:
    """Have Keras donate nothing in one thread at a time; put the weights back after an error."""
    if keras.backend.backend() != "jax" or keras.distribution.distribution() is not None:
        yield
        return
    with _lock_of(model):
        if model.jit_compile and not model.run_eagerly:  # only then does Keras donate
            keras_internals.predict_without_donation(model)
        values = [(variable, variable.value) for variable in model.variables]
        try:
            yield
        except BaseException:
            model.jax_state_sync()  # or Keras would take the state for a newer one later
            for variable, value in values:
                variable.assign(value)
            raise
