"""The functional model of a configuration, one function per part of the paper's figure.

All models of a configuration share the layer names of `kbert.graph.names`, so weights can be copied
between them by layer name.
"""

import contextlib
import dataclasses
import os

import keras

from kbert.graph import names
from kbert.graph.config import BertConfig
from kbert.graph.spec import POSITIONS, GraphSpec
from kbert.heads import HEADS, load_function
from kbert.io.wording import hint
from kbert.model.bert_model import BertModel
from kbert.model.heads import make_initializer, make_norm, name_layer
from kbert.model.layers.encoder import (
    Add,
    Dropout,
    Embedding,
    FeedForward,
    MultiHeadAttention,
    PositionEmbedding,
    TokenEmbedding,
)
from kbert.model.layers.heads import Gather, GatherFirsts, Slice
from kbert.ops.forks import check_process

_FLOATS = ("float16", "bfloat16", "float32", "float64")
_POLICIES = (*_FLOATS, "mixed_bfloat16", "mixed_float16")


def build_bert(
    config: BertConfig | str | os.PathLike = "base",
    *,
    head: str | None = None,
    seq_len: int | str | None = POSITIONS,
    max_predictions: int | None = None,
    num_labels: int | None = None,
    selected_positions: bool = False,
    dtype: str | None = None,
) -> BertModel:
    """Build BERT, by default with both pretraining heads, the graph that keras_bert built.

    Args:
        config: a `BertConfig`, a preset's name, a path to a JSON file or a model's folder.
        head: the name or an alias of another head, one of `kbert.heads`; None: the head of the
            model in the folder, "encoder" if it has none; without a folder "pretraining".
        seq_len: tokens in a sequence; default: the configuration's positions; None: any length.
        max_predictions: None: keras_bert's graph, which projects every position onto the
            vocabulary. A number M: the input Input-Masked is replaced by Input-Positions, int32 (B,
            M), the positions to predict (0: none), and the MLM head sees only these. The weights
            are the same.
        num_labels: number of labels, of a head that has them; None: that of the folder or the JSON
            file, else 2.
        selected_positions: True: the last encoder block computes only the positions that the heads
            read, the first and those to predict; it needs `max_predictions`. `kbert.pretrain`
            trains this graph. Outputs and weights are the same, and a training step of base at 128
            tokens has 1/18 fewer FLOPs.
        dtype: the dtype policy of every layer, such as "float32", "mixed_bfloat16" or "bfloat16";
            None: Keras's current policy, which is not changed.

    Returns:
        A functional model. Inputs Input-Token, Input-Segment, Input-Masked: int32 (B, S). Outputs
        MLM: float (B, S, T), and NSP: float (B, 2), both logits. With `max_predictions`:
        Input-Positions int32 (B, M) instead of Input-Masked, and MLM (B, M, T).

    Raises:
        ValueError: an impossible configuration, length, number of predictions or dtype.
    """
    spec = GraphSpec.of(
        config,
        head,
        seq_len=seq_len,
        max_predictions=max_predictions,
        num_labels=num_labels,
        selected_positions=selected_positions,
        dtype=dtype,
    )
    return build(spec)


def build_encoder(
    config: BertConfig | str | os.PathLike = "base",
    *,
    seq_len: int | str | None = POSITIONS,
    dtype: str | None = None,
) -> BertModel:
    """Build the encoder with the pooler, which transformers calls BertModel.

    Args and errors as in `build_bert`.

    Returns:
        A functional model. Inputs Input-Token, Input-Segment: int32 (B, S). Outputs: the sequence
        output, float (B, S, H), and the pooled output, float (B, H).
    """
    spec = GraphSpec.of(config, "encoder", seq_len=seq_len, dtype=dtype)
    return build(spec)


def build_classifier(
    config: BertConfig | str | os.PathLike = "base",
    *,
    num_labels: int | None = None,
    seq_len: int | str | None = POSITIONS,
    selected_positions: bool = False,
    dtype: str | None = None,
) -> BertModel:
    """Build the encoder, the pooler and a sequence classifier (the paper, section 4.1).

    Args:
        config, num_labels, seq_len, dtype: as in `build_bert`.
        selected_positions: whether the last encoder block computes only the first position, which
            the pooler reads. Outputs and weights are the same.

    Returns:
        A functional model. Inputs Input-Token, Input-Segment: int32 (B, S). Output: logits, float
        (B, num_labels).
    """
    variant: dict = {"num_labels": num_labels, "selected_positions": selected_positions}
    spec = GraphSpec.of(config, "classifier", seq_len=seq_len, dtype=dtype, **variant)
    return build(spec)


def build_token_classifier(
    config: BertConfig | str | os.PathLike = "base",
    *,
    num_labels: int | None = None,
    seq_len: int | str | None = POSITIONS,
    dtype: str | None = None,
) -> BertModel:
    """Build the encoder and a token classifier (the paper, section 5.3).

    Args and errors as in `build_bert`.

    Returns:
        A functional model. Inputs Input-Token, Input-Segment: int32 (B, S). Output: logits, float
        (B, S, num_labels); they carry the padding mask, so Keras's losses ignore padding.
    """
    spec = GraphSpec.of(config, "tokens", num_labels=num_labels, seq_len=seq_len, dtype=dtype)
    return build(spec)


def build_question_answering(
    config: BertConfig | str | os.PathLike = "base",
    *,
    seq_len: int | str | None = POSITIONS,
    dtype: str | None = None,
) -> BertModel:
    """Build the encoder and a head for the start and end of an answer (the paper, section 4.2).

    Args and errors as in `build_bert`.

    Returns:
        A functional model. Inputs Input-Token, Input-Segment: int32 (B, S). Outputs Span-Start and
        Span-End: logits over the positions, float (B, S) each.
    """
    spec = GraphSpec.of(config, "qa", seq_len=seq_len, dtype=dtype)
    return build(spec)


def build(spec: GraphSpec) -> BertModel:
    """Build the model of a spec. The model carries the spec with the dtype policy that was used.

    Raises:
        ValueError: a dtype that is not a policy of floating point numbers.
        RuntimeError: a process that was forked after its parent had used the backend.
    """
    check_process()
    return build_graph(spec)


def build_graph(spec: GraphSpec) -> BertModel:
    """Build the model of a spec, as `build` does, in any process."""
    _check_dtype(spec.dtype)

    inputs = _inputs(spec)
    x, table = _embeddings(spec, inputs)
    last = spec.config.num_hidden_layers
    for block in range(1, last + 1):
        is_selective = block == last and spec.selected_positions
        selected = _queries(spec, x, inputs) if is_selective else []
        x = _encoder_block(spec, x, block, selected)

    head = HEADS[spec.head]
    build_outputs = load_function(head.build_outputs)
    outputs = build_outputs(spec, x, table, inputs)

    policy = spec.dtype or keras.config.dtype_policy().name
    carried = dataclasses.replace(spec, dtype=policy)
    tensors = list(inputs.values())
    model = BertModel(tensors, outputs, name=head.model_name, spec=carried)
    if spec.dtype is not None:
        model.dtype_policy = spec.dtype  # else that of Keras, by which `compile` scales a loss
    return model


def _check_dtype(dtype: str | None) -> None:
    if dtype is None:
        return
    with contextlib.suppress(TypeError, ValueError):
        if keras.DTypePolicy(dtype).compute_dtype in _FLOATS:
            return

    close = hint(dtype, _POLICIES, "")
    raise ValueError(
        "dtype must be the name of a dtype policy of Keras, such as float32, mixed_bfloat16, "
        f"mixed_float16 or bfloat16, got {dtype!r}" + (f": {close}" if close else "")
    )


def _inputs(spec: GraphSpec) -> dict:
    """Build the inputs, in the model's order."""
    shape = (spec.seq_len,)

    shapes: dict[str, tuple] = {names.TOKEN_IDS: shape}
    if spec.config.family.segments:
        shapes[names.SEGMENT_IDS] = shape
    if spec.packed:
        shapes |= {names.PACKED_POSITIONS: shape, names.PACKED_TEXTS: shape}
        if spec.packs_firsts:
            shapes[names.PACKED_FIRSTS] = ()
    if spec.max_predictions is not None:
        shapes[names.MASKED_POSITIONS] = (spec.max_predictions,)
    elif HEADS[spec.head].predicts_tokens:
        shapes[names.MASKED] = shape

    inputs = {}
    for name, shape_of_input in shapes.items():
        inputs[name] = keras.Input(shape_of_input, dtype="int32", name=name)
    return inputs


def _queries(spec: GraphSpec, x, inputs: dict) -> list:
    """Return attention's inputs besides x (B, S, H): its positions that are read."""
    last = spec.config.num_hidden_layers
    queries = name_layer(spec, names.encoder(last, names.QUERIES))
    if spec.packs_firsts:
        firsts = inputs[names.PACKED_FIRSTS]
        return [GatherFirsts(**queries)([x, firsts]), firsts]  # (N, 1, H)
    if spec.max_predictions is None:
        return [Slice(0, 1, **queries)(x)]  # (B, 1, H)
    gather = Gather(spec.has_pooler, **queries)
    selected = gather([x, inputs[names.MASKED_POSITIONS]])  # (B, R, H)
    return [selected]


def _embeddings(spec: GraphSpec, inputs: dict):
    config = spec.config
    hidden = config.hidden_size
    x, table = TokenEmbedding(
        config.vocab_size,
        hidden,
        pad_token_id=config.pad_token_id,
        embeddings_initializer=make_initializer(spec),
        **name_layer(spec, names.TOKEN_EMBEDDING),
    )(inputs[names.TOKEN_IDS])

    if config.family.segments:
        segments = Embedding(
            config.type_vocab_size,
            hidden,
            embeddings_initializer=make_initializer(spec),
            **name_layer(spec, names.SEGMENT_EMBEDDING),
        )(inputs[names.SEGMENT_IDS])
        add_segments = Add(**name_layer(spec, names.TOKEN_PLUS_SEGMENT))
        x = add_segments([x, segments])

    if spec.packed:
        x = [x, inputs[names.PACKED_POSITIONS], inputs[names.PACKED_TEXTS]]
    x = PositionEmbedding(
        config.max_position_embeddings,
        hidden,
        embeddings_initializer=make_initializer(spec),
        first=config.first_position,
        **name_layer(spec, names.POSITION_EMBEDDING),
    )(x)

    # Differs from Google: keras_bert drops out first and normalizes then.
    options = name_layer(spec, names.EMBEDDING_DROPOUT)
    x = Dropout(config.hidden_dropout_prob, **options)(x)
    return make_norm(spec, names.EMBEDDING_NORM)(x), table


def _encoder_block(spec: GraphSpec, x, block: int, selected: list):
    config = spec.config
    attention = MultiHeadAttention(
        config.num_attention_heads,
        config.head_size,
        dropout=config.attention_probs_dropout_prob,
        kernel_initializer=make_initializer(spec),
        **name_layer(spec, names.encoder(block, names.ATTENTION)),
    )
    y = attention([x, *selected] if selected else x)
    attending = selected[0] if selected else x
    x = _residual(spec, attending, y, block, names.ATTENTION)

    feed_forward = FeedForward(
        config.intermediate_size,
        config.hidden_act,
        kernel_initializer=make_initializer(spec),
        **name_layer(spec, names.encoder(block, names.FEED_FORWARD)),
    )
    y = feed_forward(x)
    return _residual(spec, x, y, block, names.FEED_FORWARD)


def _residual(spec: GraphSpec, x, y, block: int, part: str):
    """Apply LayerNorm(x + Dropout(y)), where y is a sublayer's output."""
    name = names.encoder(block, part, "Dropout")
    dropout = Dropout(spec.config.hidden_dropout_prob, **name_layer(spec, name))
    y = dropout(y)
    add = Add(**name_layer(spec, names.encoder(block, part, "Add")))
    normalize = make_norm(spec, names.encoder(block, part, "Norm"))
    x = add([x, y])
    return normalize(x)
