"""The sizes of published models in models.tsv: by the accounting, and as others count them."""

import pytest

from kbert.checkpoints.hub.names import ModelName, list_known_models
from kbert.graph.accounting import account
from kbert.graph.config import BertConfig
from kbert.graph.presets import PRESETS
from kbert.graph.reference import published_totals

ROWS = list_known_models()


def bert(vocab_size, layers=12, hidden=768, heads=None, **others) -> BertConfig:
    sizes = {
        "vocab_size": vocab_size,
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads or hidden // 64,
        "intermediate_size": 4 * hidden,
    }
    return BertConfig(**sizes | others)


def minilm(layers, vocab_size=30_522, **others) -> BertConfig:
    return bert(vocab_size, layers, 384, 12, **others)


def distilbert(vocab_size) -> BertConfig:
    return bert(vocab_size, 6, model_type="distilbert", type_vocab_size=1)


def roberta(vocab_size, layers=12, hidden=768, family="roberta") -> BertConfig:
    own = {"type_vocab_size": 1, "max_position_embeddings": 514, "pad_token_id": 1}
    return bert(vocab_size, layers, hidden, model_type=family, **own)


# Configurations of the models without a preset, by what their names begin with.
CONFIGS = {
    "bert-base-multilingual-uncased": bert(105_879),
    "bert-base-german-cased": bert(30_000),
    "bert-base-NER": bert(28_996),
    "all-MiniLM-L6": minilm(6),
    "all-MiniLM-L12": minilm(12),
    "multi-qa-MiniLM-L6": minilm(6),
    "paraphrase-MiniLM-L6": minilm(6),
    "paraphrase-multilingual-MiniLM-L12": minilm(12, 250_037),
    "multilingual-e5-small": minilm(12, 250_037),
    "all-distilroberta": roberta(50_265, 6),
    "LaBSE": bert(501_153),
    "ms-marco-MiniLM-L6": minilm(6),
    "ms-marco-MiniLM-L12": minilm(12),
    "ms-marco-TinyBERT-L2": bert(30_522, 2, 128),
    "distilbert-base-uncased": distilbert(30_522),
    "distilbert-base-cased": distilbert(28_996),
    "distilbert-base-multilingual-cased": distilbert(119_547),
    "distilroberta-base": roberta(50_265, 6),
    "roberta-base": roberta(50_265),
    "roberta-large": roberta(50_265, 24, 1024),
    "xlm-roberta-base": roberta(250_002, family="xlm-roberta"),
    "xlm-roberta-large": roberta(250_002, 24, 1024, "xlm-roberta"),
    "camembert-base": roberta(32_005, family="camembert"),
    **{f"{e}-small": minilm(12) for e in ("bge", "e5")},
    **{f"{e}-base": bert(30_522) for e in ("bge", "e5")},
    **{f"{e}-large": bert(30_522, 24, 1024) for e in ("bge", "e5")},
    "paraphrase_minilm_l3": minilm(3),
    **{f"{name}_minilm_l6": minilm(6) for name in ("all", "multi_qa", "msmarco", "paraphrase")},
    **{f"{name}_minilm_l12": minilm(12) for name in ("all", "msmarco", "paraphrase")},
    **{f"bge_small{v}_en": minilm(12) for v in ("", "_v1.5")},
    **{f"bge_base{v}_en": bert(30_522) for v in ("", "_v1.5")},
    **{f"bge_large{v}_en": bert(30_522, 24, 1024) for v in ("", "_v1.5")},
    "bge_small_v1.5_zh": bert(21_128, 4, 512),
    **{f"bge_base{v}_zh": bert(21_128) for v in ("", "_v1.5")},
    **{f"bge_large{v}_zh": bert(21_128, 24, 1024) for v in ("", "_v1.5")},
    "bge_llm_embedder": bert(30_522),
    "mxbai_embed_large": bert(30_522, 24, 1024),
    "mxbai_embed_2d_large": bert(30_522, 24, 1024),
    "mxbai_embed_xsmall": minilm(6, max_position_embeddings=4096),
}
# The head in a model's file, with its labels: by its name, else by its owner.
HEADS = {
    "squad": ("qa", 2),
    "sst-2": ("classifier", 2),
    "bert-base-NER": ("tokens", 9),
    "cross-encoder/": ("classifier", 1),
    **dict.fromkeys(("google", "distilbert/", "FacebookAI/", "almanach/"), ("pretraining", 2)),
}
# Files with a pooler that their own class does not use: weights of an older transformers.
WITH_POOLER = ("finetuned-squad", "NER", "distilroberta-base", "xlm-roberta", "camembert")
# Bytes of the tokenizer's files on Hugging Face, in MB, by the number of tokens; of the miniatures
# and of KerasHub the vocabulary alone.
TOKENIZERS_MB = {
    **{30_522: 0.7, 28_996: 0.65, 119_547: 2.96, 105_879: 2.59, 21_128: 0.38, 30_000: 0.74},
    **{50_265: 2.7, 250_002: 9.1, 250_037: 9.1, 32_005: 2.2, 501_153: 14.8},
}
VOCABULARIES_MB = {30_522: 0.23, 28_996: 0.21, 119_547: 1.0, 21_128: 0.11}


def config_of(name: str) -> BertConfig:
    if preset := ROWS[name]["preset"]:
        return PRESETS[preset]
    return CONFIGS[max((start for start in CONFIGS if name.startswith(start)), key=len)]


def tokenizer_megabytes(name: str) -> float:
    tokens = config_of(name).vocab_size
    if name == "multilingual-e5-small":  # its tokenizer.json is written with blanks
        return 17.1
    alone = ROWS[name]["address"].startswith(("kaggle:", "google/"))
    return (VOCABULARIES_MB if alone else TOKENIZERS_MB)[tokens]


def megabytes(name: str, parameters: int) -> str:
    return str(round(4 * parameters / 1e6 + tokenizer_megabytes(name)))


@pytest.mark.parametrize("name", ROWS)
def test_size_of_a_published_model_follows_from_its_configuration(name):
    row, config = ROWS[name], config_of(name)
    assert row["parameters"] == str(account(config, head="encoder").params)
    heads = (head for part, head in HEADS.items() if part in row["address"])
    head, labels = ("encoder", 2) if "kaggle" in row["address"] else next(heads, ("encoder", 2))
    parameters = account(config, head=head, num_labels=labels).params
    if any(part in name for part in WITH_POOLER):
        parameters += config.hidden_size**2 + config.hidden_size
    assert row["megabytes"] == megabytes(name, parameters)


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
    assert ROWS[name]["megabytes"] == megabytes(name, in_file)


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
    width = config_of(name).hidden_size
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
    sizes = [
        PRESETS[row["preset"]] for row in ROWS.values() if row["address"].startswith("google/")
    ]
    shapes = {(config.num_hidden_layers, config.hidden_size) for config in sizes}
    assert shapes == {(n, h) for n in (2, 4, 6, 8, 10, 12) for h in (128, 256, 512, 768)}
    for row in ROWS.values():
        if row["address"].startswith("google/"):
            config = PRESETS[row["preset"]]
            wanted = config.num_hidden_layers, config.hidden_size, config.num_attention_heads
            assert row["address"].endswith("_L-{}_H-{}_A-{}".format(*wanted))
