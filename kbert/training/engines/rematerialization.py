"""A model cut after its embeddings and after each encoder block.

With rematerialization (Chen et al., arXiv 1604.06174) the backward pass keeps the tensors at the
cuts alone, and computes a block's activations again when it comes to the block.
"""

import itertools

from keras import ops

from kbert.graph import names

_ENCODED = (names.TOKEN_IDS, names.SEGMENT_IDS)  # the inputs of the embeddings


class RematerializedModel:
    """Embeddings, encoder blocks and heads, as functional models that share the model's layers.

    Args:
        model: a functional model of `kbert.model.builder`.
    """

    def __init__(self, model):
        import keras

        self._padding = model.get_layer(names.TOKEN_EMBEDDING).compute_mask
        cuts: list[keras.KerasTensor] = []
        layers = {layer.name for layer in model.layers}
        while names.encoder_output(len(cuts)) in layers:
            cuts.append(model.get_layer(names.encoder_output(len(cuts))).output)
        _, table = model.get_layer(names.TOKEN_EMBEDDING).output
        inputs = dict(zip(model.input_names, model.inputs, strict=True))
        self._encoded = [name for name in inputs if name in _ENCODED]
        self._others = [name for name in inputs if name not in _ENCODED]
        self._embeddings = keras.Model([inputs[name] for name in self._encoded], [cuts[0], table])
        self._blocks = [keras.Model(before, after) for before, after in itertools.pairwise(cuts)]
        self._has_table = names.MLM_SIMILARITY in layers  # of use to the MLM head alone
        heads = [cuts[-1], *([table] if self._has_table else [])]
        self._heads = keras.Model([*heads, *(inputs[name] for name in self._others)], model.outputs)

    def outputs(self, values: dict, inputs: dict, recomputed) -> list:
        """The model's outputs, in training.

        Args:
            values: of its variables, by their id.
            inputs: by name.
            recomputed: makes of a function of float tensors one that keeps none of its
                intermediate results for the backward pass.
        """
        ids = [inputs[name] for name in self._encoded]
        x, table = stateless(self._embeddings, values, ids)
        mask, _ = self._padding(inputs[names.TOKEN_IDS])
        for block in self._blocks:
            x = _block(block, values, mask, recomputed)(x)
        rest = [inputs[name] for name in self._others]
        return stateless(self._heads, values, [x, *([table] if self._has_table else []), *rest])


def _block(model, values: dict, mask, recomputed):
    """One block, as a function of its input; weights are arguments of what is recomputed: a
    tensor that it closes over would have no gradient on TensorFlow."""
    weights = model.trainable_variables

    def of(x, *tensors):
        own = values | {id(weight): value for weight, value in zip(weights, tensors, strict=True)}
        return stateless(model, own, [x], mask=mask)[0]

    return lambda x: recomputed(of)(x, *(values[id(weight)] for weight in weights))


def stateless(model, values: dict, inputs: list, training: bool = True, **options) -> list:
    """A functional model's outputs, from the values of its variables by id."""

    def of(variables):
        return [ops.cast(values[id(v)], v.dtype) if id(v) in values else v.value for v in variables]

    outputs, _ = model.stateless_call(
        of(model.trainable_variables),
        of(model.non_trainable_variables),
        inputs if len(inputs) > 1 else inputs[0],
        training=training,
        **options,
    )
    return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
