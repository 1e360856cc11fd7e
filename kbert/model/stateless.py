"""A model's outputs as a function of the values of its variables, by their id."""

from keras import ops


def stateless(model, values: dict, inputs: list, training: bool = True, **options) -> list:
    """Return a functional model's outputs, from the values of its variables by id."""

    def read(variables) -> list:
        """Return each variable's value in its dtype: the given one, else its own."""
        each = [(one, values.get(id(one))) for one in variables]
        return [one.value if new is None else ops.cast(new, one.dtype) for one, new in each]

    states = read(model.trainable_variables), read(model.non_trainable_variables)
    given = inputs if isinstance(model.input, list) else inputs[0]  # as it was built
    outputs = model.stateless_call(*states, given, training=training, **options)[0]
    return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
