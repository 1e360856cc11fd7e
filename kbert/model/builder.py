"""From a configuration to a functional model: the paper's figure, one function a part.

Every model of one configuration shares the layer names of `kbert.graph.names`, so weights move
between them by layer name.
"""

import keras
from keras import layers as kl

from kbert.graph import closed_form, names
from kbert.graph.config import BertConfig, require_positive
from kbert.graph.presets import get_config
from kbert.model import deferred
from kbert.model.bert_model import BertModel
from kbert.model.layers import (
    Add,
    Embedding,
    EmbeddingSimilarity,
    Extract,
    FeedForward,
    Gather,
    Masked,
    MultiHeadAttention,
    PositionEmbedding,
    TokenEmbedding,
    activation,
)

POSITIONS = "positions"  # seq_len's default: as many tokens as the configuration has positions


def build_bert(
    config: BertConfig | str = "base",
    *,
    seq_len: int | str | None = POSITIONS,
    max_predictions: int | None = None,
) -> BertModel:
    """BERT with both pretraining heads: document 004's graph.

    Args:
        config: a `BertConfig`, a preset's name or a path to a JSON file.
        seq_len: tokens in a sequence; default: the configuration's positions; None: any length.
        max_predictions: None for the document's graph, which projects every position onto the
            vocabulary. A number M replaces Input-Masked by Input-Positions, int32 (B, M), the
            positions to predict (0: none), and the MLM head sees only them. Same weights.

    Returns:
        A functional model. Inputs Input-Token, Input-Segment, Input-Masked: int32 (B, S).
        Outputs MLM: float (B, S, T), NSP: float (B, 2), logits both.

    Raises:
        ValueError: a configuration, length or number of predictions that cannot be.
    """
    config, seq_len = _checked(config, "pretraining", seq_len, max_predictions)
    inputs, (x, table) = _encoder(config, seq_len)
    marks, predicted = _positions_to_predict(x, seq_len, max_predictions)
    mlm = _mlm_head(config, predicted, table, marks)
    pooled_output = _pooler(config, x)
    nsp = _dense(config, 2, names.NSP)(pooled_output)
    return BertModel([*inputs, marks], [mlm, nsp], name="bert")


def build_encoder(
    config: BertConfig | str = "base", *, seq_len: int | str | None = POSITIONS
) -> BertModel:
    """The encoder with the pooler: what transformers calls BertModel.

    Args and errors as in `build_bert`.

    Returns:
        A functional model. Inputs Input-Token, Input-Segment. Outputs: the sequence output, float
        (B, S, H), and the pooled output, float (B, H).
    """
    config, seq_len = _checked(config, "encoder", seq_len)
    inputs, (x, _) = _encoder(config, seq_len)
    return BertModel(inputs, [x, _pooler(config, x)], name="bert_encoder")


def build_classifier(
    config: BertConfig | str = "base",
    *,
    num_labels: int = 2,
    seq_len: int | str | None = POSITIONS,
) -> BertModel:
    """Encoder, pooler and a classifier of whole sequences (the paper, section 4.1).

    Returns:
        A functional model. Inputs Input-Token, Input-Segment. Output: logits, float
        (B, num_labels).
    """
    config, seq_len = _checked(config, "classifier", seq_len, num_labels=num_labels)
    inputs, (x, _) = _encoder(config, seq_len)
    x = _classifier_dropout(config, names.CLASSIFIER_DROPOUT)(_pooler(config, x))
    return BertModel(
        inputs, _dense(config, num_labels, names.CLASSIFIER)(x), name="bert_classifier"
    )


def build_token_classifier(
    config: BertConfig | str = "base",
    *,
    num_labels: int = 2,
    seq_len: int | str | None = POSITIONS,
) -> BertModel:
    """Encoder and a classifier of each token (the paper, section 5.3).

    Returns:
        A functional model. Inputs Input-Token, Input-Segment. Output: logits, float
        (B, S, num_labels); they carry the padding mask, so Keras's losses leave padding out.
    """
    config, seq_len = _checked(config, "tokens", seq_len, num_labels=num_labels)
    inputs, (x, _) = _encoder(config, seq_len)
    x = _classifier_dropout(config, names.TOKEN_CLASSIFIER_DROPOUT)(x)
    outputs = _dense(config, num_labels, names.TOKEN_CLASSIFIER)(x)
    return BertModel(inputs, outputs, name="bert_token_classifier")


def build_question_answering(
    config: BertConfig | str = "base", *, seq_len: int | str | None = POSITIONS
) -> BertModel:
    """Encoder and the start and end of an answer (the paper, section 4.2).

    Returns:
        A functional model. Inputs Input-Token, Input-Segment. Outputs Span-Start and Span-End:
        logits over the positions, float (B, S) each.
    """
    config, seq_len = _checked(config, "qa", seq_len)
    inputs, (x, _) = _encoder(config, seq_len)
    span = _dense(config, 2, names.SPAN)(x)
    start = Extract(0, axis=-1, name=names.SPAN_START)(span)
    end = Extract(1, axis=-1, name=names.SPAN_END)(span)
    return BertModel(inputs, [start, end], name="bert_question_answering")


BUILDERS = {
    "pretraining": build_bert,
    "encoder": build_encoder,
    "classifier": build_classifier,
    "tokens": build_token_classifier,
    "qa": build_question_answering,
}


def build(config: BertConfig, head: str, *, num_labels: int = 2, **options) -> BertModel:
    """The model of one of `kbert.graph.closed_form.HEADS`; `num_labels` where it has labels."""
    if head in ("classifier", "tokens"):
        options["num_labels"] = num_labels
    return BUILDERS[head](config, **options)


def build_outline(config: BertConfig | str, head: str = "pretraining", **options) -> BertModel:
    """A graph to look at and throw away: names, shapes and counts, and weights without values.

    What `summary`, `verify` and `plot` need; drawing base's 110 million random numbers takes most
    of the time that `build` takes. Arguments as in `build`.
    """
    with deferred.for_shapes_only():
        return build(get_config(config), head, **options)


def _encoder(config: BertConfig, seq_len: int | None):
    """Inputs, and (sequence output, token table)."""
    token_ids = keras.Input((seq_len,), dtype="int32", name=names.TOKEN_IDS)
    segment_ids = keras.Input((seq_len,), dtype="int32", name=names.SEGMENT_IDS)
    x, table = _embeddings(config, token_ids, segment_ids)
    for block in range(1, config.num_hidden_layers + 1):
        x = _encoder_block(config, x, block)
    return [token_ids, segment_ids], (x, table)


def _embeddings(config: BertConfig, token_ids, segment_ids):
    hidden = config.hidden_size
    tokens, table = TokenEmbedding(
        config.vocab_size,
        hidden,
        pad_token_id=config.pad_token_id,
        embeddings_initializer=_normal(config),
        name=names.TOKEN_EMBEDDING,
    )(token_ids)
    segments = Embedding(
        config.type_vocab_size,
        hidden,
        embeddings_initializer=_normal(config),
        name=names.SEGMENT_EMBEDDING,
    )(segment_ids)
    x = Add(name=names.TOKEN_PLUS_SEGMENT)([tokens, segments])
    x = PositionEmbedding(
        config.max_position_embeddings,
        hidden,
        embeddings_initializer=_normal(config),
        name=names.POSITION_EMBEDDING,
    )(x)
    # Differs from Google: keras_bert drops out first and normalizes then.
    x = kl.Dropout(config.hidden_dropout_prob, name=names.EMBEDDING_DROPOUT)(x)
    return _norm(config, names.EMBEDDING_NORM)(x), table


def _encoder_block(config: BertConfig, x, block: int):
    attention = MultiHeadAttention(
        config.num_attention_heads,
        config.head_size,
        dropout=config.attention_probs_dropout_prob,
        kernel_initializer=_normal(config),
        name=names.encoder(block, names.ATTENTION),
    )
    x = _residual(config, x, attention, block, names.ATTENTION)
    feed_forward = FeedForward(
        config.intermediate_size,
        config.hidden_act,
        kernel_initializer=_normal(config),
        name=names.encoder(block, names.FEED_FORWARD),
    )
    return _residual(config, x, feed_forward, block, names.FEED_FORWARD)


def _residual(config: BertConfig, x, sublayer, block: int, part: str):
    """LayerNorm(x + Dropout(sublayer(x)))."""
    y = sublayer(x)
    y = kl.Dropout(config.hidden_dropout_prob, name=names.encoder(block, part, "Dropout"))(y)
    x = Add(name=names.encoder(block, part, "Add"))([x, y])
    return _norm(config, names.encoder(block, part, "Norm"))(x)


def _positions_to_predict(x, seq_len: int | None, max_predictions: int | None):
    """The third input, and the vectors that the MLM head sees."""
    if max_predictions is None:
        return keras.Input((seq_len,), dtype="int32", name=names.MASKED), x
    positions = keras.Input((max_predictions,), dtype="int32", name=names.MASKED_POSITIONS)
    return positions, Gather(name=names.MLM_GATHER)([x, positions])


def _mlm_head(config: BertConfig, x, table, marks):
    function = activation(config.hidden_act)
    x = _dense(config, config.hidden_size, names.MLM_DENSE, function)(x)
    x = _norm(config, names.MLM_NORM)(x)
    logits = EmbeddingSimilarity(name=names.MLM_SIMILARITY)([x, table])
    return Masked(name=names.MLM)([logits, marks])


def _pooler(config: BertConfig, x):
    first_token = Extract(name=names.FIRST_TOKEN)(x)
    return _dense(config, config.hidden_size, names.POOLER, "tanh")(first_token)


def _classifier_dropout(config: BertConfig, name: str) -> kl.Dropout:
    rate = config.classifier_dropout
    return kl.Dropout(config.hidden_dropout_prob if rate is None else rate, name=name)


def _dense(config: BertConfig, units: int, name: str, function=None) -> kl.Dense:
    return kl.Dense(units, function, kernel_initializer=_normal(config), name=name)


def _norm(config: BertConfig, name: str) -> kl.LayerNormalization:
    return kl.LayerNormalization(epsilon=config.layer_norm_eps, name=name)


def _normal(config: BertConfig) -> keras.initializers.Initializer:
    """Truncated normal, as google-research/bert's create_initializer; a new one for each use."""
    return keras.initializers.TruncatedNormal(stddev=config.initializer_range)


def _checked(config, head: str, seq_len, max_predictions=None, num_labels: int = 2):
    config = get_config(config)
    if isinstance(seq_len, str) and seq_len == POSITIONS:
        seq_len = config.max_position_embeddings
    closed_form.check(config, head, seq_len, max_predictions)
    require_positive("num_labels", num_labels)
    return config, seq_len if seq_len is None else int(seq_len)
