"""Calls of a functional model as a function of its weights, which a gradient is taken of."""

from collections.abc import Mapping

from keras import ops


def call_stateless(model, values: dict, inputs: list, training: bool = True, **options) -> list:
    """Return a functional model's outputs, from the values of its variables by id."""
    outputs, *_ = model.stateless_call(
        _read_variables(model.trainable_variables, values),
        _read_variables(model.non_trainable_variables, values),
        inputs if isinstance(model.input, list) else inputs[0],  # as it was built
        training=training,
        **options,
    )
    if isinstance(outputs, (list, tuple)):
        return list(outputs)
    return [outputs]


def _read_variables(variables, values: dict) -> list:
    """Return each variable's value in its dtype: the given one, else its own."""
    read = []
    for variable in variables:
        value = values.get(id(variable))
        if value is None:
            read.append(variable.value)
        else:
            read.append(ops.cast(value, variable.dtype))
    return read


def flatten_sequences(inputs: Mapping) -> dict:
    """Return inputs (B, C, S), of C sequences per example, as (B · C, S); others unchanged."""
    flat = {}
    for name, array in inputs.items():
        if len(array.shape) < 3:
            flat[name] = array
        else:
            seq_len = ops.shape(array)[-1]
            flat[name] = ops.reshape(array, (-1, seq_len))
    return flat
