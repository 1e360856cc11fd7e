"""The table of keys beside a checkpoint's weights: each row is tested."""

import pytest

from kbert import BertConfig
from kbert.io.setting_keys import setting_keys

SIZES = {
    "vocab_size": 41,
    "hidden_size": 12,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 20,
    "max_position_embeddings": 17,
    "type_vocab_size": 2,
}
HANDLINGS = ("obeyed", "refused", "ignored")


def rows(handling, *files):
    found = [row for row in setting_keys() if row.handling == handling and row.file in files]
    return pytest.mark.parametrize("row", found, ids=[f"{row.file}-{row.key}" for row in found])


def test_each_key_has_one_row_and_a_reason():
    table = setting_keys()
    assert len({(row.file, row.key) for row in table}) == len(table)
    for row in table:
        assert row.handling in HANDLINGS and row.why.endswith("."), row
        assert bool(row.allowed) == (row.handling == "refused"), row


@rows("refused", "config.json")
def test_a_key_that_changes_the_graph_is_refused(row):
    for value in row.allowed:
        assert BertConfig.from_dict(SIZES | {row.key: value}) == BertConfig(**SIZES)
    with pytest.raises(ValueError, match=f"its config: {row.key} must be .*, got 'odd'"):
        BertConfig.from_dict(SIZES | {row.key: "odd"}, source="its config")


@rows("ignored", "config.json")
def test_a_key_that_changes_nothing_is_ignored(row):
    assert BertConfig.from_dict(SIZES | {row.key: "odd"}) == BertConfig(**SIZES)
