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
    """Compile a model's outputs of a list of inputs; weights are read at each call."""
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
    """Have Keras donate nothing in one thread at a time; put the weights back after an error."""
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
    import jax

    compiled_predict_step = jax.jit(model.predict_step)
    test_step = jax.jit(model.test_step)

    def predict_step(state, data):
        outputs, non_trainable = compiled_predict_step(state, data)
        return outputs, (state[0], non_trainable)

    def predict_batches(state, iterator):
        batches = _take_batches(iterator, model.steps_per_execution)
        outputs, state = _run_steps(predict_step, state, batches)
        joined = keras.tree.map_structure(lambda *arrays: keras.ops.concatenate(arrays), *outputs)
        return joined, state

    def test_batches(state, iterator):
        batches = _take_batches(iterator, model.steps_per_execution)
        logs, state = _run_steps(test_step, state, batches)
        return logs[-1], state

    if not _is_replaced(model.predict_function):
        model.predict_function = predict_batches
    if not _is_replaced(model.test_function):
        model.test_function = test_batches


def _is_replaced(function: Callable | None) -> bool:
    return getattr(function, "__module__", None) == __name__


def _take_batches(iterator: Iterator, count: int) -> list:
    """Return the next batches, as many as there are up to `count`; StopIteration without one."""
    return [next(iterator), *itertools.islice(iterator, count - 1)]


def _run_steps(step: Callable, state, batches: list) -> tuple[list, tuple]:
    """Return the results of a step on each batch, and the last state."""
    results = []
    for data in batches:
        result, state = step(state, data)
        results.append(result)
    return results, state
