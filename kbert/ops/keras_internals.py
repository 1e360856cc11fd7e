"""All uses of undocumented parts of Keras, TensorFlow and torch, in one place.

Each function says what it is for, and which public way was tried (Keras 3.15.1). If a version of
Keras lacks one, the first use raises a one-line error; it never gives a wrong number.
`tests/model/test_internals.py` refuses such names in every other module. Formats are documented
next to their one reader, in `kbert.checkpoints.keras` and `kbert.checkpoints.keras_hub`.
"""

import contextlib
import functools
import itertools
import logging
import platform
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

_logger = logging.getLogger("kbert")

# torch's logger that says at each export that torchvision is absent. The public one, torch.onnx,
# would take all other remarks along. Under another name that line is seen again, no more.
TORCHVISION_REMARKS = "torch.onnx._internal.exporter._registration"


def onednn_product() -> Callable | None:
    """Return oneDNN's f(x, matrix, bias, activation, scalars, formula) on a CPU, or None.

    x is (N, in), matrix (out, in), bias (out,) or None. It knows no gradient.

    Tried: torch's public products of float32 are MKL's whatever `torch.backends.mkldnn` says, and a
    convolution of 1 × 1 is as fast forward, but not its gradient.
    """
    import torch

    return getattr(torch.ops.mkldnn, "_linear_pointwise", None)


@functools.cache
def has_onednn() -> bool:
    """Return whether TensorFlow's operations on this CPU are oneDNN's, as with AVX-512 VNNI.

    Tried: `tf.sysconfig.get_build_info` says how TensorFlow was built, not what this processor and
    `TF_ENABLE_ONEDNN_OPTS` made of it. Where the name is lacking the answer is no, which is right
    everywhere, and slower.
    """
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return False

    try:
        from tensorflow.python.util import _pywrap_util_port
    except ImportError:
        return False
    return _pywrap_util_port.IsMklEnabled()


def attention_seed(layer):
    """Return the next seed for the dropout of a `keras.layers.MultiHeadAttention`.

    Tried: a `SeedGenerator` of kbert's own would be one more variable in every saved model.
    """
    with _needed("to draw attention's dropout"):
        return layer._dropout_layer.seed_generator.next()


def is_plain(dense) -> bool:
    """Return whether a call of a dense layer is its product, bias and activation, and no more.

    Quantized layers, activity regularizers, subclasses, replaced calls and torch's hooks do more:
    such a layer must be called itself.

    Tried: torch documents how to add hooks to a module, and not how to ask for them.
    """
    import keras

    return (
        type(dense) in (keras.layers.Dense, keras.layers.EinsumDense)
        and dense.quantization_mode is None
        and dense.activity_regularizer is None
        and vars(dense).keys().isdisjoint(("call", "forward"))
        and not any(getattr(dense, name, None) for name in _TORCH_HOOKS)
    )


_TORCH_HOOKS = "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"


def make_stateless(optimizer) -> None:
    """Have the `update_step` of an optimizer of one variable work in a `keras.StatelessScope`.

    Tried: `stateless_apply`, which refuses to work on TensorFlow, whose optimizers assign to
    `tf.Variable`s that they look up by an identity of TensorFlow's.
    """
    with _needed("to update weights by an optimizer"):
        optimizer._get_variable_index  # noqa: B018
    optimizer._get_variable_index = lambda variable: 0
    optimizer.assign = lambda variable, value: variable.assign(value)
    optimizer.assign_add = lambda variable, value: variable.assign(variable.value + value)
    optimizer.assign_sub = lambda variable, value: variable.assign(variable.value - value)


def changes_more_than_a_weight(optimizer) -> bool:
    """Return whether an optimizer changes something in a step beside each weight and its slots."""
    of_keras = ("keras.src.backend", "keras.src.optimizers.base_optimizer")
    return any(
        "_backend_update_step" in vars(kind) and not kind.__module__.startswith(of_keras)
        for kind in type(optimizer).__mro__
    )


def call_with_gradient(function: Callable, inputs: Sequence, gradient: Callable) -> list:
    """Call a function of tensors, whose gradient TensorFlow's tapes take from another function.

    Tried: `tf.custom_gradient` and `tf.recompute_grad`, of whose gradients TensorFlow keeps each
    trace, and with it the graph and its weights, for as long as the process lives.
    """
    from tensorflow.python.eager import record

    with record.stop_recording():
        outputs = function(*inputs)
    record.record_operation("checkpoint", outputs, inputs, gradient)
    return outputs


def hide_from_xla(tensors: list) -> list:
    """Return TensorFlow's tensors such that XLA does not know them to be equal to those given.

    It then computes again what it would else keep. Tried: `tf.raw_ops` has all operations but this
    one, and `tf.recompute_grad` keeps a gradient and its graph for each trace.
    """
    from tensorflow.compiler.tf2xla.ops import gen_xla_ops

    return gen_xla_ops.xla_optimization_barrier(tensors)


class Calls(NamedTuple):
    """An operation of a graph: its output and input tensors, and the source of each input.

    A source is (operation, which of its calls, which of that call's outputs).
    """

    operation: Any
    outputs: list
    sources: list[tuple[Any, int, int]]
    inputs: list


def calls(model) -> list[Calls]:
    """Return the operations of a functional `keras.Model` in its order, with its own calls.

    Tried: `layer.input` and `layer.output` know the first call alone, and nothing of where a tensor
    comes from; what `get_config` says of it is undocumented too, and imports TensorFlow.
    """
    operations = getattr(model, "operations", None)
    if operations is None:
        raise ValueError(
            f"expected a functional keras.Model, got {type(model).__name__}: build it with "
            "keras.Model(inputs, outputs)"
        )

    with _needed("to read a graph"):
        nodes = itertools.chain.from_iterable(model._nodes_by_depth.values())
        node_ids = {id(node) for node in nodes}
        return [_read_calls(operation, node_ids) for operation in operations]


def _read_calls(operation, node_ids: set[int]) -> Calls:
    """Return an operation of a graph with these nodes, by the ids of the Python objects."""
    nodes = [node for node in operation._inbound_nodes if id(node) in node_ids]
    inputs: list = []
    for node in nodes:
        inputs += node.input_tensors

    sources = []
    for tensor in inputs:
        history = tensor._keras_history
        sources.append((history.operation, history.node_index, history.tensor_index))
    return Calls(operation, list(nodes[-1].output_tensors), sources, inputs)


def model_between(inputs: Sequence, outputs: Sequence):
    """`keras.Model(inputs, outputs)`, for tensors within a graph and some of its inputs.

    Keras copies the former and moves the latter to a place of the copy; the model whose inputs
    they are then knows them no more, and can be neither saved nor cloned. Tried: models of inputs
    alone or of tensors within alone move nothing, but heads take both.
    """
    import keras

    with _needed("to cut a graph"):
        histories = [tensor._keras_history for tensor in inputs]
        model = keras.Model(list(inputs), list(outputs))
        for tensor, history in zip(inputs, histories, strict=True):
            tensor._keras_history = history
    return model


def give_first_value(variable, initializer: Callable) -> None:
    """Have a variable that waits take its value from another initializer.

    Where Keras has given it one already it is assigned: slower, and the same numbers. Tried:
    initializers of one's own, which are saved with the model.
    """
    if can_defer():
        variable._initializer = initializer
    else:
        variable.assign(initializer(variable.shape, variable.dtype))


def forget_waiting() -> None:
    """Leave variables that wait without a value for ever; else Keras would keep and fill them.

    Tried: `keras.utils.clear_session` forgets them with everything else, the names among it.
    """
    if can_defer():
        from keras.src.backend.common import global_state

        global_state.set_global_attribute("uninitialized_variables", [])


@functools.cache
def can_defer() -> bool:
    """Return whether Keras can initialize a variable later, tried on one; if not, log it."""
    import keras

    try:
        from keras.src.backend.common import global_state

        with keras.StatelessScope(initialize_variables=False):
            tried = keras.Variable("zeros", (1,), "float32", name="tried")
        waits = global_state.get_global_attribute("uninitialized_variables")[-1] is tried
        tried._initializer = keras.initializers.Ones()
        with keras.StatelessScope():  # at its end Keras fills what waits
            pass
        works = waits and float(keras.ops.convert_to_numpy(tried)[0]) == 1.0
    except (AttributeError, ImportError, IndexError, TypeError, ValueError):
        works = False
    if not works:
        _logger.warning(
            "Keras %s has no variables that wait for their values: a model is drawn at random "
            "before a checkpoint fills it, which takes longer. Use Keras 3.15, or report it",
            keras.__version__,
        )
    return works


@contextlib.contextmanager
def unlocked(layer) -> Iterator[None]:
    """Have a built layer take more sublayers, such as adapters.

    Keras locks a layer once it is built. Tried: an empty sublayer from the beginning, which every
    saved model would have in its file; `enable_lora`, which does the same to the layer, splits
    another axis than PEFT and knows no dropout.
    """
    with _needed("to add adapters to a layer"):
        layer._tracker.unlock()
    try:
        yield
    finally:
        layer._tracker.lock()


def predict_without_donation(model) -> None:
    """Give a model on JAX functions that do what Keras makes for `predict` and `evaluate`.

    Keras's own donate the buffers of the weights, which an error or another thread then misses.
    Tried: `predict_step` can be replaced, but `make_predict_function` compiles it with donation.
    """
    import jax
    import keras

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


@contextlib.contextmanager
def without_tensorflow() -> Iterator[None]:
    """Have Keras save and serialize on JAX and torch without importing TensorFlow.

    Keras asks whether an object is one of TensorFlow's, and imports it for that: seconds, and
    warnings in the middle of a run's output. Tried: TF_CPP_MIN_LOG_LEVEL leaves some of them.
    """
    import keras

    module: Any = None
    if keras.backend.backend() != "tensorflow" and "tensorflow" not in sys.modules:
        with contextlib.suppress(ImportError):
            from keras.src.utils import module_utils

            module = getattr(module_utils, "tensorflow", None)
    before = getattr(module, "_available", False)
    if before is None:  # Keras has not asked yet
        module._available = False
    try:
        yield
    finally:
        if before is None:
            module._available = None


@functools.cache
def check_seeds_are_pythons() -> None:
    """Check that initializers take the seeds that they are not given from Python's `random`.

    So `random.seed` sets a model's initial weights. Tried: `keras.utils.set_random_seed` does the
    same, sets NumPy's and the backend's as well, and imports TensorFlow on every backend.

    A RuntimeError says that they come from elsewhere: a seed would no longer decide the weights.
    """
    import keras

    before = random.getstate()
    keras.initializers.TruncatedNormal()
    uses_python = random.getstate() != before
    random.setstate(before)
    if not uses_python:
        raise _lacking("initializers that are seeded by Python's random", "to repeat a run")


@contextlib.contextmanager
def _needed(purpose: str) -> Iterator[None]:
    try:
        yield
    except (AttributeError, IndexError, TypeError) as error:
        raise _lacking(getattr(error, "name", None) or "calls of a layer", purpose) from error


def _lacking(what: str, purpose: str) -> RuntimeError:
    import keras

    return RuntimeError(
        f"Keras {keras.__version__} has no {what}, which kbert needs {purpose}: use Keras 3.15, or "
        "report it"
    )
