"""transformers' classes by family: heads, prefixes of the weights, tied weights."""

from dataclasses import dataclass

from kbert.graph.config import BertConfig

_BODY = ("embeddings", "encoder")


@dataclass(frozen=True)
class Classes:
    """A family's.

    Attributes:
        prefix: what the names of the encoder's weights begin with in a class with a head.
        named: by class, the head that it has in kbert, and the parts of it that the class has.
        tied: copies of weights, by their names, and the weights that they must equal.
        heads: what the names of heads' weights begin with, which have no prefix.
        tokenizer: the class of its WordPiece.
    """

    prefix: str
    named: dict[str, tuple[str, tuple[str, ...]]]
    tied: dict[str, str]
    heads: tuple[str, ...]
    tokenizer: str = "BertTokenizer"

    @property
    def bare(self) -> str:
        """The class with no head."""
        return next(iter(self.named))


_TABLE = "embeddings.word_embeddings.weight"
BERT = Classes(
    "bert.",
    {
        "BertModel": ("encoder", (*_BODY, "pooler")),
        "BertForPreTraining": ("pretraining", (*_BODY, "pooler", "mlm", "nsp")),
        "BertForMaskedLM": ("pretraining", (*_BODY, "mlm")),
        "BertForNextSentencePrediction": ("pretraining", (*_BODY, "pooler", "nsp")),
        "BertForSequenceClassification": ("classifier", (*_BODY, "pooler", "classifier")),
        "BertForTokenClassification": ("tokens", (*_BODY, "tokens")),
        "BertForQuestionAnswering": ("qa", (*_BODY, "qa")),
    },
    {
        "cls.predictions.decoder.weight": _TABLE,
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
    ("cls.", "classifier.", "qa_"),
)


def _without_next_sentence(name: str, encoder: tuple[str, ...]) -> dict:
    return {
        f"{name}Model": ("encoder", (*_BODY, *encoder)),
        f"{name}ForMaskedLM": ("pretraining", (*_BODY, "mlm")),
        f"{name}ForSequenceClassification": ("classifier", (*_BODY, "first_token", "classifier")),
        f"{name}ForTokenClassification": ("tokens", (*_BODY, "tokens")),
        f"{name}ForQuestionAnswering": ("qa", (*_BODY, "qa")),
    }


def _roberta(name: str, prefix: str = "roberta.") -> Classes:
    return Classes(
        prefix,
        _without_next_sentence(name, ("pooler",)),
        {"lm_head.decoder.weight": _TABLE, "lm_head.decoder.bias": "lm_head.bias"},
        ("lm_head.", "classifier.", "qa_"),
    )


_BY_MODEL_TYPE = {
    "bert": BERT,
    "roberta": _roberta("Roberta"),
    "xlm-roberta": _roberta("XLMRoberta"),
    "camembert": _roberta("Camembert"),
    "data2vec-text": _roberta("Data2VecText", "data2vec_text."),
    "distilbert": Classes(
        "distilbert.",
        _without_next_sentence("DistilBert", ()),
        {"vocab_projector.weight": _TABLE},
        ("vocab_", "pre_classifier.", "classifier.", "qa_"),
        "DistilBertTokenizer",
    ),
}


def classes_of(config: BertConfig) -> Classes:
    """Return the classes of a configuration's family."""
    return _BY_MODEL_TYPE[config.model_type]


def classes_by_column() -> dict[str, Classes]:
    """Return the classes by the column that has their weights' names.

    RoBERTa's stand for XLM-R's.
    """
    return {
        "transformers": BERT,
        "roberta": _BY_MODEL_TYPE["roberta"],
        "distilbert": _BY_MODEL_TYPE["distilbert"],
    }
