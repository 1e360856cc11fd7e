"""Inference on JAX that keeps the weights, whatever ends it.

Keras's `predict` and `evaluate` on JAX take the weights out of the model's variables and donate
their buffers to the compiled program. An exception or Ctrl-C inside leaves the model without
weights, and a second thread reads random initial values or deleted buffers in the meantime.
"""

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from weakref import WeakKeyDictionary

import keras

# By the first layer with weights, which a model shares with its views.
_locks: WeakKeyDictionary = WeakKeyDictionary()


def _lock_of(model):
    layer = next((layer for layer in model.layers if layer.weights), model)
    return _locks.setdefault(layer, threading.RLock())


def compile_forward(model: keras.Model) -> Callable:
    """Compile a model's outputs as a function of its inputs, a list of arrays.

    The weights are arguments of the program, read at each call, and are not donated.
    """
    import jax

    variables = list(model.variables)

    @jax.jit
    def forward(values: Sequence, inputs: list):
        with keras.StatelessScope(state_mapping=list(zip(variables, values, strict=True))):
            return model(inputs, training=False)

    def call(inputs: list):
        with _lock_of(model):  # `model.predict` of another thread has them meanwhile
            values = [variable.value for variable in variables]
        return forward(values, inputs)

    return call


@contextlib.contextmanager
def keep_weights(model: keras.Model) -> Iterator[None]:
    """Have Keras's `predict` and `evaluate` donate nothing; put the weights back after an error.

    One thread at a time: another one waits. A distributed model (`keras.distribution`) is left to
    Keras.
    """
    if keras.backend.backend() != "jax" or keras.distribution.distribution() is not None:
        yield
        return
    with _lock_of(model):
        if model.jit_compile and not model.run_eagerly:  # only then does Keras donate
            _replace_functions(model)
        values = [(variable, variable.value) for variable in model.variables]
        try:
            yield
        except BaseException:
            model.jax_state_sync()  # or Keras would take the state for a newer one later
            for variable, value in values:
                variable.assign(value)
            raise


def _replace_functions(model: keras.Model) -> None:
    """Give the model functions that do what Keras makes, without donation."""
    makers = {"predict_function": _predict_function, "test_function": _test_function}
    for name, make in makers.items():
        if getattr(getattr(model, name), "__module__", None) != __name__:
            setattr(model, name, make(model))


def _predict_function(model: keras.Model) -> Callable:
    import jax

    step = jax.jit(model.predict_step)

    def predict_batches(state, iterator):
        first, others = step(state, next(iterator))
        parts = [first]
        for data in itertools.islice(iterator, model.steps_per_execution - 1):
            part, others = step((state[0], others), data)
            parts.append(part)
        if len(parts) > 1:
            first = keras.tree.map_structure(lambda *ones: keras.ops.concatenate(ones), *parts)
        return first, (state[0], others)

    return predict_batches


def _test_function(model: keras.Model) -> Callable:
    import jax

    step = jax.jit(model.test_step)

    def test_batches(state, iterator):
        logs, state = step(state, next(iterator))
        for data in itertools.islice(iterator, model.steps_per_execution - 1):
            logs, state = step(state, data)
        return logs, state

    return test_batches
