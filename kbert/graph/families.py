"""BERT and the models of its family with the same graph, and their differences.

A family is what transformers calls a model_type. RoBERTa (Liu et al. 2019, arXiv 1907.11692), XLM-R
(Conneau et al. 2019, arXiv 1911.02116) and DistilBERT (Sanh et al. 2019, arXiv 1910.01108) are
BERT's blocks with other embeddings and heads; what is another graph has a line in `OTHER_GRAPHS`.
"""

from dataclasses import dataclass

from kbert.io import json_schema as js


@dataclass(frozen=True)
class Family:
    """Differences between a family's graph and BERT's.

    Attributes:
        title: its name.
        segments: whether tokens have a segment embedding.
        pooler: whether the encoder has a pooled output.
        next_sentence: whether it is pretrained with next-sentence prediction as well.
        first_position: offset from the padding token's id to the first position that a token gets;
            None: position 0. RoBERTa's positions up to its padding token's id are unused.
        pooled_activation: activation of the dense layer between the first token and a classifier.
        drops_first_token: whether a classifier has a dropout before that layer too.
        drops_answers: whether the question answering head has a dropout before it, in training.
        mlm_activation: activation of the MLM head; None: the encoder's.
        pad_token_id: the default of a configuration without one.
        renamed: transformers' keys of config.json for which BERT has other names.
        fixed: values of keys that a configuration of this family does not have.
        unsaid: transformers' defaults of keys that a configuration omits.
    """

    title: str
    segments: bool = True
    pooler: bool = True
    next_sentence: bool = True
    first_position: int | None = None
    pooled_activation: str = "tanh"
    drops_first_token: bool = False
    drops_answers: bool = False
    mlm_activation: str | None = None
    pad_token_id: int = 0
    renamed: tuple[tuple[str, str], ...] = ()
    fixed: tuple[tuple[str, int | float], ...] = ()
    unsaid: tuple[tuple[str, int | float], ...] = ()


_DISTILBERT_KEYS = (
    ("dim", "hidden_size"),
    ("hidden_dim", "intermediate_size"),
    ("n_layers", "num_hidden_layers"),
    ("n_heads", "num_attention_heads"),
    ("activation", "hidden_act"),
    ("dropout", "hidden_dropout_prob"),
    ("attention_dropout", "attention_probs_dropout_prob"),
    ("seq_classif_dropout", "classifier_dropout"),
)


def _roberta(title: str) -> Family:
    return Family(
        title,
        next_sentence=False,
        first_position=1,
        drops_first_token=True,
        mlm_activation="gelu",
        pad_token_id=1,
    )


FAMILIES = {
    "bert": Family("BERT"),
    "roberta": _roberta("RoBERTa"),
    "xlm-roberta": _roberta("XLM-R"),
    "camembert": _roberta("CamemBERT"),
    "data2vec-text": _roberta("data2vec-text"),
    "distilbert": Family(
        "DistilBERT",
        segments=False,
        pooler=False,
        next_sentence=False,
        pooled_activation="relu",
        drops_answers=True,
        renamed=_DISTILBERT_KEYS,
        fixed=(("type_vocab_size", 1), ("layer_norm_eps", 1e-12)),
        unsaid=(("classifier_dropout", 0.2), ("qa_dropout", 0.1)),
    ),
}

# model_type of transformers, and what of its graph BERT's has not.
OTHER_GRAPHS = {
    "albert": "ALBERT has one block's weights for all and an embedding narrower than its blocks",
    "electra": "ELECTRA has a projection from an embedding of its own width, and no pooler",
    "modernbert": "ModernBERT has rotary positions, local attention and gated feed-forward layers",
    "mpnet": "MPNet has a bias for relative positions in its attention",
    "deberta": "DeBERTa attends to contents and relative positions apart",
    "deberta-v2": "DeBERTa attends to contents and relative positions apart",
    "mobilebert": "MobileBERT has bottlenecks around its blocks and no LayerNorm in them",
    "squeezebert": "SqueezeBERT has grouped convolutions in the place of dense layers",
    "convbert": "ConvBERT has convolutions in the place of some attention heads",
    "longformer": "Longformer attends within a window",
    "big_bird": "BigBird attends to blocks of tokens",
    "nomic_bert": "Nomic BERT has rotary positions and gated feed-forward layers",
    "new": "GTE 1.5 has rotary positions and gated feed-forward layers",
    "xlnet": "XLNet has relative positions and attends in permuted orders",
    "t5": "T5 has relative positions, and an encoder that normalizes before each layer",
    "gpt2": "GPT-2 is a decoder",
}


MODEL_TYPES = tuple(FAMILIES)


def explain_model_type(value, source: str) -> ValueError:
    """Return the error for a model_type of another graph; it says what that has of its own."""
    other = OTHER_GRAPHS.get(value) if isinstance(value, str) else None
    return ValueError(
        f"{source}: model_type must be one of {', '.join(MODEL_TYPES)}, which are BERT's graph, "
        f"got {js.short_repr(value)}, "
        + (f"another graph: {other}" if other else "which kbert does not build")
    )
