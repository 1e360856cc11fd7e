"""transformers' classes by family: heads, prefixes of the weights, tied weights."""

from dataclasses import dataclass

from kbert.checkpoints.weight_names import BODY, OF_FAMILY, TEMPLATES
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
    tokenizer: str  # the class of the tokenizer
    bare: str  # the class with no head


_TIED = {  # by column of the table of names
    "transformers": {
        "cls.predictions.decoder.weight": _TABLE,
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
    "roberta": {"lm_head.decoder.weight": _TABLE, "lm_head.decoder.bias": "lm_head.bias"},
    "distilbert": {"vocab_projector.weight": _TABLE},
}


def _make_classes(name: str, model_type: str, prefix: str, column: str) -> Classes:
    """Return the classes of a family; `name` is what their names begin with."""
    named: dict[str, tuple[str, tuple[str, ...]]] = {}
    for head in sorted(HEADS.values(), key=lambda head: "Model" not in head.classes):
        if head.families and model_type not in head.families:
            continue
        whole = head.variant(FAMILIES[model_type]).parts
        for ending, groups in head.classes.items():
            if groups is None:
                groups = whole
            if set(groups) <= set(whole):
                class_groups = (*BODY, *groups)
                named[name + ending] = (head.name, class_groups)

    without_prefix = (*BODY, "pooler")
    beginnings = []
    for row in TEMPLATES:
        if row.part not in without_prefix and column in row.names:
            first, *_ = row.names[column].split(".")
            beginnings.append(f"{first}.")
    heads = tuple(dict.fromkeys(beginnings))
    tokenizer = "DistilBertTokenizer" if column == "distilbert" else "BertTokenizer"
    return Classes(prefix, named, _TIED[column], heads, tokenizer, bare=f"{name}Model")


CLASSES = {  # by model_type
    model_type: _make_classes(name, model_type, prefix, column)
    for model_type, name, prefix, column in (
        ("bert", "Bert", "bert.", "transformers"),
        ("roberta", "Roberta", "roberta.", "roberta"),
        ("xlm-roberta", "XLMRoberta", "roberta.", "roberta"),
        ("camembert", "Camembert", "roberta.", "roberta"),
        ("data2vec-text", "Data2VecText", "data2vec_text.", "roberta"),
        ("distilbert", "DistilBert", "distilbert.", "distilbert"),
    )
}


def classes_by_column() -> dict[str, Classes]:
    """Return the classes by the column with their weights' names; RoBERTa's stand for XLM-R's."""
    families = {"transformers": "bert"} | {name: name for name in OF_FAMILY}
    return {column: CLASSES[family] for column, family in families.items()}
