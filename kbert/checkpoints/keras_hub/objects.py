"""The JSON objects of a KerasHub preset, as Keras serializes KerasHub's classes (0.32)."""

from kbert.data.tokenization.vocabulary import Vocabulary
from kbert.graph.config import BertConfig

BACKBONE = "BertBackbone"  # the class without a task
VERSION = "0.32.0"  # of the KerasHub whose files these are
VOCABULARY = "assets/tokenizer/vocabulary.txt"
# BertBackbone's arguments, and what kbert calls them.
SIZES = {
    "vocabulary_size": "vocab_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "hidden_dim": "hidden_size",
    "intermediate_dim": "intermediate_size",
    "max_sequence_length": "max_position_embeddings",
    "num_segments": "type_vocab_size",
}
_MODULES = {
    "BertBackbone": "bert_backbone",
    "BertTokenizer": "bert_tokenizer",
    "BertMaskedLM": "bert_masked_lm",
    "BertMaskedLMPreprocessor": "bert_masked_lm_preprocessor",
    "BertTextClassifier": "bert_text_classifier",
    "BertTextClassifierPreprocessor": "bert_text_classifier_preprocessor",
    "BertTextEmbedder": "bert_text_embedder",
    "BertTextEmbedderPreprocessor": "bert_text_embedder_preprocessor",
}
# BertMaskedLMPreprocessor's defaults, which are the paper's rates (section 3.1).
_MASKING = {
    "mask_selection_rate": 0.15,
    "mask_selection_length": 96,
    "mask_token_rate": 0.8,
    "random_token_rate": 0.1,
}


def backbone_object(config: BertConfig) -> dict:
    """BertBackbone's."""
    sizes = {theirs: getattr(config, ours) for theirs, ours in SIZES.items()}
    return _object("BertBackbone", "float32", **sizes, dropout=config.hidden_dropout_prob)


def tokenizer_object(vocabulary: Vocabulary) -> dict:
    """BertTokenizer's, set to what kbert does: accents go off where the casing does."""
    strips = vocabulary.strip_accents
    return _object(
        "BertTokenizer",
        "int32",
        config_file="tokenizer.json",
        vocabulary=None,  # it is in assets/tokenizer
        sequence_length=None,
        lowercase=vocabulary.lowercase,
        strip_accents=vocabulary.lowercase if strips is None else strips,
        split=True,
        suffix_indicator="##",
        oov_token="[UNK]",
        special_tokens=None,
        special_tokens_in_strings=True,
        **({} if vocabulary.tokenize_chinese_chars else {"split_on_cjk": False}),
    )


def preprocessor_object(task: str, tokenizer: dict, length: int) -> dict:
    """Return the preprocessor of a task: its tokenizer, and the tokens that a text is cut to."""
    return _object(
        f"{task}Preprocessor",
        "float32",
        tokenizer=tokenizer,
        config_file="preprocessor.json",
        sequence_length=length,
        truncate="round_robin",
        **(_MASKING if task == "BertMaskedLM" else {}),
    )


def task_object(task: str, backbone: dict, preprocessor: dict | None, **settings) -> dict:
    """Return a task's object."""
    values = {"backbone": backbone, "preprocessor": preprocessor, "name": _MODULES[task]}
    return _serialize(task, values | settings)


def _object(name: str, dtype: str, **settings) -> dict:
    policy = {
        "module": "keras",
        "class_name": "DTypePolicy",
        "config": {"name": dtype},
        "registered_name": None,
    }
    return _serialize(name, {"name": _MODULES[name], "trainable": True, "dtype": policy} | settings)


def _serialize(name: str, config: dict) -> dict:
    return {
        "module": f"keras_hub.src.models.bert.{_MODULES[name]}",
        "class_name": name,
        "config": config,
        "registered_name": f"keras_hub>{name}",
    }
