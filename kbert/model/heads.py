"""The layers after the encoder: one function per head, from the encoder's output to the outputs.

`kbert.heads` names these functions. Each takes the spec, the last hidden state x, the token table
and the inputs by name.
"""

import keras
from keras import layers as kl

from kbert.graph import names
from kbert.graph.spec import GraphSpec
from kbert.model.layers.encoder import Dropout, LayerNormalization
from kbert.model.layers.heads import (
    EmbeddingSimilarity,
    Extract,
    Gather,
    GatherFirsts,
    Masked,
    Slice,
)
from kbert.ops import activations


def apply_pretraining(spec: GraphSpec, x, table, inputs: dict):
    mask = list(inputs.values())[-1]
    states = _select_states(spec, x, mask)
    logits = _apply_mlm(spec, states, table)
    mask_logits = Masked(**name_layer(spec, names.MLM))
    mlm = mask_logits([logits, mask])
    if not spec.has_pooler:
        return [mlm]
    # Before the pooler: Keras draws a layer's seed as it is constructed, so a run's initial
    # weights depend on the order.
    nsp = make_dense(spec, 2, names.NSP)
    return [mlm, nsp(_pooler(spec, x))]


def _select_states(spec: GraphSpec, x, mask):
    """Return the hidden states that the MLM head reads."""
    if spec.max_predictions is None:
        return x
    if not spec.selected_positions:
        gather = Gather(**name_layer(spec, names.MLM_GATHER))
        return gather([x, mask])
    if spec.has_pooler:
        without_first = Slice(1, **name_layer(spec, names.MLM_SLICE))
        return without_first(x)
    return x


def _apply_mlm(spec: GraphSpec, states, table):
    """Return the logits (B, M, T) of the MLM head."""
    config = spec.config
    hidden_act = config.family.mlm_activation or config.hidden_act
    function = activations.activation(hidden_act)
    dense = make_dense(spec, config.hidden_size, names.MLM_DENSE, function)
    norm = make_norm(spec, names.MLM_NORM)
    similarity = EmbeddingSimilarity(**name_layer(spec, names.MLM_SIMILARITY))
    states = norm(dense(states))
    return similarity([states, table])


def apply_encoder(spec: GraphSpec, x, table, inputs: dict):
    if not spec.has_pooler:
        return [x]
    return [x, _pooler(spec, x)]


def apply_classifier(spec: GraphSpec, x, table, inputs: dict):
    if spec.packs_firsts and not spec.selected_positions:
        firsts = inputs[names.PACKED_FIRSTS]
        gather = GatherFirsts(**name_layer(spec, names.FIRST_TOKENS))
        x = gather([x, firsts])
    # The dropout is constructed first, for the order of the seeds: see `apply_pretraining`.
    dropout = Dropout(spec.classifier_rate, **name_layer(spec, names.CLASSIFIER_DROPOUT))
    pooled = _pooler(spec, x)
    classifier = make_dense(spec, spec.num_labels, names.CLASSIFIER)
    return classifier(dropout(pooled))


def apply_token_classifier(spec: GraphSpec, x, table, inputs: dict):
    dropout = Dropout(spec.classifier_rate, **name_layer(spec, names.TOKEN_CLASSIFIER_DROPOUT))
    classifier = make_dense(spec, spec.num_labels, names.TOKEN_CLASSIFIER)
    return classifier(dropout(x))


def apply_span(spec: GraphSpec, x, table, inputs: dict):
    if spec.config.family.drops_answers:
        dropout = Dropout(spec.answer_rate, **name_layer(spec, names.SPAN_DROPOUT))
        x = dropout(x)
    span = make_dense(spec, 2, names.SPAN)(x)
    take_start = Extract(0, axis=-1, **name_layer(spec, names.SPAN_START))
    take_end = Extract(1, axis=-1, **name_layer(spec, names.SPAN_END))
    return [take_start(span), take_end(span)]


def _pooler(spec: GraphSpec, x):
    x = Extract(**name_layer(spec, names.FIRST_TOKEN))(x)

    function = "tanh"
    if "first_token" in spec.variant.parts:  # the classifier's own dense layer
        family = spec.config.family
        function = family.pooled_activation
        if family.drops_first_token:
            dropout = Dropout(spec.classifier_rate, **name_layer(spec, names.FIRST_TOKEN_DROPOUT))
            x = dropout(x)

    pooler = make_dense(spec, spec.config.hidden_size, names.POOLER, function)
    return pooler(x)


def make_dense(spec: GraphSpec, units: int, name: str, function=None) -> kl.Dense:
    return kl.Dense(
        units, function, kernel_initializer=make_initializer(spec), **name_layer(spec, name)
    )


def make_norm(spec: GraphSpec, name: str) -> LayerNormalization:
    return LayerNormalization(epsilon=spec.config.layer_norm_eps, **name_layer(spec, name))


def name_layer(spec: GraphSpec, name: str) -> dict:
    """Return a layer's name and dtype; a dtype of None would change the order that Keras saves."""
    if spec.dtype is None:
        return {"name": name}
    return {"name": name, "dtype": spec.dtype}


def make_initializer(spec: GraphSpec) -> keras.initializers.Initializer:
    """Return a new truncated normal initializer, as google-research/bert's create_initializer."""
    return keras.initializers.TruncatedNormal(stddev=spec.config.initializer_range)
