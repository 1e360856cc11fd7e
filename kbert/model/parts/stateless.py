"""A model's outputs as a function of the values of its variables, by their id."""

from keras import ops


def stateless(model, values: dict, inputs: list, training: bool = True, **options) -> list:
    """A functional model's outputs, from the values of its variables by id."""

    def of(variables):
        return [value_of(values, variable) for variable in variables]

    outputs, _ = model.stateless_call(
        of(model.trainable_variables),
        of(model.non_trainable_variables),
        inputs if isinstance(model.input, list) else inputs[0],  # as it was built
        training=training,
        **options,
    )
    return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


def value_of(values: dict, variable):
    """A variable's, in its type: the one that is given, else its own."""
    given = values.get(id(variable))
    return variable.value if given is None else ops.cast(given, variable.dtype)
