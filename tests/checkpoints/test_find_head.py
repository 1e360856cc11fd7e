"""The head of a checkpoint is found by the names of its tensors, in every format."""

import pytest

from kbert.checkpoints import weight_names
from kbert.graph.families import FAMILIES
from kbert.heads import HEADS

COLUMNS = ["transformers", *weight_names.OF_FAMILY, "google", "keras_bert"]


def names_of(column: str, *parts: str) -> set[str]:
    return {
        row.names[column]
        for row in weight_names.TEMPLATES
        if row.part in parts and column in row.names
    }


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("head", HEADS)
def test_each_head_is_found_by_its_own_tensors(head, column):
    parts = HEADS[head].variant(FAMILIES.get(column, FAMILIES["bert"])).parts
    first = next(name for name in HEADS if HEADS[name].layers == HEADS[head].layers)
    names = names_of(column, "embeddings", "encoder", *parts)
    has_own = names - names_of(column, "embeddings", "encoder", "pooler")
    if has_own and not all(names_of(column, part) for part in parts):
        pytest.skip("the format has names for some of its layers, and so cannot have the head")
    assert weight_names.find_head(names, column) == (first if has_own else "encoder")


@pytest.mark.parametrize(
    ("column", "parts", "head"),
    [
        ("transformers", ["mlm", "nsp", "pooler", "qa"], "qa"),
        ("transformers", ["mlm", "pooler", "classifier"], "classifier"),
        ("transformers", ["mlm", "tokens"], "tokens"),
        ("transformers", ["pooler", "tokens"], "classifier"),  # the names are the same
        ("transformers", ["classifier", "qa"], "qa"),
        ("transformers", ["mlm"], "pretraining"),
        ("transformers", ["nsp"], "pretraining"),
        ("roberta", ["mlm", "tokens"], "tokens"),
        ("roberta", ["first_token", "classifier", "mlm"], "classifier"),
        ("distilbert", ["first_token", "classifier"], "classifier"),
        ("distilbert", ["classifier"], "tokens"),
        ("google", ["mlm", "nsp", "pooler", "qa"], "qa"),
        ("google", ["classifier", "qa"], "qa"),
        ("google", ["mlm", "classifier"], "classifier"),
        ("keras_bert", ["nsp"], "pretraining"),
        ("keras_bert", [], "encoder"),
    ],
)
def test_a_task_head_is_found_before_the_pretraining_heads(column, parts, head):
    names = names_of(column, "embeddings", "encoder", *parts)
    assert weight_names.find_head(names, column) == head
