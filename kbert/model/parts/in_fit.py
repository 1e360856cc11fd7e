"""The fused parts in Keras's own `fit`, on TensorFlow and JAX on a CPU: beside the graph, as in the
engines, with the graph's weights and the dropout layers' seeds."""

import keras
from keras import ops

from kbert.model.devices import device_names
from kbert.model.parts import fused_parts
from kbert.model.parts.cut_model import CutModel
from kbert.model.parts.dropout_seeds import seed_states

_WORTH_COMPILING = 5_000_000  # parameters; programs of XLA's take seconds, whatever the model


def kit(model, inputs) -> fused_parts.Kit | None:
    """What a training call is computed with; None: with the graph's layers.

    The call has to be one that is being compiled, of a whole model that was `compile`d.

    Args:
        model: a `BertModel`.
        inputs: of the call.
    """
    if not (model.compiled and _is_traced(keras.tree.flatten(inputs))):
        return None
    if not is_large_on_cpu(model):
        return None
    if model.spec is None or model.spec.head == "encoder" or not fused_parts.fits(model):
        return None  # a model whose last cut is an output cannot be cut there
    if keras.backend.backend() == "jax":
        from kbert.model.parts import jax_kit

        return None if keras.distribution.distribution() else jax_kit
    import tensorflow as tf

    from kbert.model.parts import tensorflow_ordered_kit

    # XLA sees all of it, or would compile each part again for each length
    if model.jit_compile or model.inputs[0].shape[1] is None or tf.distribute.has_strategy():
        return None
    return tensorflow_ordered_kit


def is_large_on_cpu(model) -> bool:
    """Whether programs of XLA's are worth their seconds of compiling."""
    return device_names() == ["CPU"] and model.count_params() >= _WORTH_COMPILING


def _is_traced(tensors: list) -> bool:
    """Whether a backend is compiling a function of these tensors."""
    if any(isinstance(tensor, keras.KerasTensor) for tensor in tensors):
        return False
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return not tf.executing_eagerly()
    if keras.backend.backend() == "jax":
        import jax

        return any(isinstance(tensor, jax.core.Tracer) for tensor in tensors)
    return False


def outputs(model, inputs: dict, kit: fused_parts.Kit) -> list:
    """The model's outputs in training; its seeds go on by one, as with each of Keras's own draws.

    Args:
        model: see `kit`.
        inputs: by name, in the graph's types.
        kit: of `kit`.
    """

    def of(inputs):
        values = {id(weight): ops.convert_to_tensor(weight.value) for weight in model.weights}
        for state in seed_states(model):
            values[id(state)] = seed = state.value * 1  # read now, not when it has gone on
            state.assign(seed + ops.convert_to_tensor([0, 1], seed.dtype))
        return CutModel(model, fused_parts.FusedParts(kit)).outputs(values, inputs)

    return _InOwnTypes(of)(inputs)


class _InOwnTypes(keras.layers.Layer):
    """Calls a function with variables in their own types: within a mixed model's call all are cast,
    whatever its `autocast` says."""

    def __init__(self, function):
        super().__init__(dtype="float32", autocast=False)
        self._function = function

    def call(self, inputs):
        return self._function(inputs)
