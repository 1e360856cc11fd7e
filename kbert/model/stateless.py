"""A model's outputs as a function of the values of its variables, by their id."""

from keras import ops


def stateless(model, values: dict, inputs: list, training: bool = True, **options) -> list:
    """Return a functional model's outputs, from the values of its variables by id."""
    given = inputs if isinstance(model.input, list) else inputs[0]  # as it was built
    outputs = layer_stateless(model, values, given, training=training, **options)
    return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


def layer_stateless(layer, values: dict, inputs, **options):
    """Call a layer with given values of its variables, by the variables' ids."""

    def of(variables):
        return [value_of(values, variable) for variable in variables]

    states = of(layer.trainable_variables), of(layer.non_trainable_variables)
    return layer.stateless_call(*states, inputs, **options)[0]


def value_of(values: dict, variable):
    """Return a variable's value in its dtype: the given one, else its own."""
    given = values.get(id(variable))
    return variable.value if given is None else ops.cast(given, variable.dtype)
