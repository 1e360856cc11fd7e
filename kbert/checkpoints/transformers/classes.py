"""transformers' classes by family: heads, prefixes of the weights, tied weights."""

from dataclasses import dataclass

from kbert.checkpoints.weight_names import BODY, OF_FAMILY, TEMPLATES
from kbert.graph.config import BertConfig
from kbert.graph.families import FAMILIES
from kbert.heads import HEADS

_TABLE = "embeddings.word_embeddings.weight"


@dataclass(frozen=True)
class Classes:
    """The classes of a family."""

    prefix: str  # of the names of the encoder's weights in a class with a head
    named: dict[str, tuple[str, tuple[str, ...]]]  # by class its head in kbert, and parts of that
    tied: dict[str, str]  # copies of weights, and the weights that they must equal
    heads: tuple[str, ...]  # what the names of heads' weights begin with, which have no prefix
    tokenizer: str = "BertTokenizer"

    @property
    def bare(self) -> str:
        """The class with no head."""
        return next(iter(self.named))


def _name_classes(name: str, model_type: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return `Classes.named` of a family whose classes begin with `name`."""
    named = {}
    for head in sorted(HEADS.values(), key=lambda head: "Model" not in head.classes):
        if head.families and model_type not in head.families:
            continue
        whole = head.variant(FAMILIES[model_type]).parts
        for ending, parts in head.classes.items():
            if set(parts or ()) <= set(whole):
                named[name + ending] = head.name, (*BODY, *(whole if parts is None else parts))
    return named


def _list_prefixes(column: str) -> tuple[str, ...]:
    """Return what the names of heads' weights begin with."""
    rows = [row for row in TEMPLATES if row.part not in (*BODY, "pooler") and column in row.names]
    return tuple(dict.fromkeys(row.names[column].split(".")[0] + "." for row in rows))


def _roberta(name: str, model_type: str, prefix: str = "roberta.") -> Classes:
    return Classes(
        prefix,
        _name_classes(name, model_type),
        {"lm_head.decoder.weight": _TABLE, "lm_head.decoder.bias": "lm_head.bias"},
        _list_prefixes("roberta"),
    )


BERT = Classes(
    "bert.",
    _name_classes("Bert", "bert"),
    {
        "cls.predictions.decoder.weight": _TABLE,
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
    _list_prefixes("transformers"),
)
_BY_MODEL_TYPE = {
    "bert": BERT,
    "roberta": _roberta("Roberta", "roberta"),
    "xlm-roberta": _roberta("XLMRoberta", "xlm-roberta"),
    "camembert": _roberta("Camembert", "camembert"),
    "data2vec-text": _roberta("Data2VecText", "data2vec-text", "data2vec_text."),
    "distilbert": Classes(
        "distilbert.",
        _name_classes("DistilBert", "distilbert"),
        {"vocab_projector.weight": _TABLE},
        _list_prefixes("distilbert"),
        "DistilBertTokenizer",
    ),
}


def classes_of(config: BertConfig) -> Classes:
    """Return the classes of a configuration's family."""
    return _BY_MODEL_TYPE[config.model_type]


def classes_by_column() -> dict[str, Classes]:
    """Return the classes by the column with their weights' names; RoBERTa's stand for XLM-R's."""
    return {"transformers": BERT} | {name: _BY_MODEL_TYPE[name] for name in OF_FAMILY}
