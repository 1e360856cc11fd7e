"""The sizes of published models in models.tsv are those that others count."""

import pytest

from kbert.graph.accounting import account
from kbert.graph.presets import PRESETS
from kbert.graph.reference import published_totals
from kbert.hub.names import ModelName, list_known_models

ROWS = list_known_models()


def test_sizes_follow_from_the_configurations():
    """Megabytes are those of the weights and the tokenizer, of some files with a head, too."""
    for name, row in ROWS.items():
        parameters, megabytes = int(row["parameters"]), float(row["megabytes"])
        assert -0.5 < megabytes - 4 * parameters / 1e6 < 20, name
        if row["preset"]:
            assert parameters == account(PRESETS[row["preset"]], head="encoder").params


# Numbers in the weight files: Hugging Face's documentation of safetensors, "Metadata parsing", and
# github.com/huggingface/safetensors/issues/44.
@pytest.mark.parametrize(
    ("name", "in_file"),
    [
        ("bert-base-uncased", 110_106_428),
        ("distilbert-base-uncased", 66_985_530),
        ("roberta-base", 124_697_433),
        ("roberta-large", 355_412_057),
        ("xlm-roberta-base", 278_885_778),
        ("xlm-roberta-large", 561_192_082),
    ],
)
def test_download_agrees_with_the_file_on_hugging_face(name, in_file):
    assert 0 <= float(ROWS[name]["megabytes"]) - 4 * in_file / 1e6 < 10


def test_parameters_are_the_published_totals():
    totals = {total.model: str(total.params_encoder_and_pooler) for total in published_totals()}
    assert len(totals) > 5
    assert {name: ROWS[name]["parameters"] for name in totals} == totals


def keras_hub_presets(family: str) -> dict:
    """Return KerasHub's table of a family's presets."""
    module = f"keras_hub.src.models.{family}.{family}_presets"
    return pytest.importorskip(module).backbone_presets


@pytest.mark.full
def test_presets_have_the_parameters_and_addresses_of_keras_hub():
    presets = keras_hub_presets("bert")
    rows = {name: row for name, row in ROWS.items() if row["address"].startswith("kaggle:")}
    assert len(rows) > 30
    stated = {name: presets[name]["metadata"]["params"] for name in rows}
    # Three of MiniLM's blocks with its embeddings and pooler have 17,389,824 in KerasHub as well.
    assert stated.pop("paraphrase_minilm_l3_v2_en") == 17_066_496
    assert {name: int(rows[name]["parameters"]) for name in stated} == stated
    for name, row in rows.items():
        assert row["address"] == presets[name]["kaggle_handle"]


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "family", "preset"),
    [
        ("distilbert-base-uncased", "distil_bert", "distil_bert_base_en_uncased"),
        ("distilbert-base-cased", "distil_bert", "distil_bert_base_en"),
        ("distilbert-base-multilingual-cased", "distil_bert", "distil_bert_base_multi"),
        ("roberta-base", "roberta", "roberta_base_en"),
        ("roberta-large", "roberta", "roberta_large_en"),
        ("xlm-roberta-base", "xlm_roberta", "xlm_roberta_base_multi"),
        ("xlm-roberta-large", "xlm_roberta", "xlm_roberta_large_multi"),
    ],
)
def test_other_families_have_the_parameters_of_keras_hub(name, family, preset):
    """Its RoBERTa has no pooler, no segments, and none of the two positions that are not used."""
    width = 1024 if "large" in name else 768
    left_out = 0 if family == "distil_bert" else width * (width + 1) + 3 * width
    counted = keras_hub_presets(family)[preset]["metadata"]["params"]
    assert int(ROWS[name]["parameters"]) == counted + left_out


def test_rows_are_short_and_their_addresses_can_be_read():
    for name, row in ROWS.items():
        assert ModelName.parse(row["address"]) == ModelName.parse(name)
        assert 0 < len(row["use"]) < 60, name
        assert not row["preset"] or row["preset"] in PRESETS
    addresses = [row["address"] for row in ROWS.values()]
    assert len(set(addresses)) == len(addresses) == len(ROWS)


def test_all_24_miniatures_are_there():
    rows = [row for row in ROWS.values() if row["address"].startswith("google/")]
    sizes = [PRESETS[row["preset"]] for row in rows]
    shapes = {(config.num_hidden_layers, config.hidden_size) for config in sizes}
    assert shapes == {(n, h) for n in (2, 4, 6, 8, 10, 12) for h in (128, 256, 512, 768)}
    for row, config in zip(rows, sizes, strict=True):
        wanted = config.num_hidden_layers, config.hidden_size, config.num_attention_heads
        assert row["address"].endswith("_L-{}_H-{}_A-{}".format(*wanted))
