"""BERT as a Keras 3 functional graph that one can read, count, draw, check and train.

Public names are resolved when they are first used: importing kbert imports no Keras.
"""

import importlib

from kbert.registration import register_with_keras

__version__ = "0.1.0"

_PUBLIC = {
    "Bert": "kbert.bert",
    "BertConfig": "kbert.config",
    "PRESETS": "kbert.presets",
    "base": "kbert.presets",
    "large": "kbert.presets",
    "get_config": "kbert.presets",
    "Tokenizer": "kbert.tokenizer",
    "account": "kbert.accounting",
    "build_bert": "kbert.builder",
    "build_classifier": "kbert.builder",
    "build_encoder": "kbert.builder",
    "build_question_answering": "kbert.builder",
    "build_token_classifier": "kbert.builder",
    "build_attention_maps": "kbert.probes",
    "build_hidden_states": "kbert.probes",
    "compare_heads": "kbert.heads",
    "keep_tokens": "kbert.resizing",
    "load": "kbert.bert",
    "model_rows": "kbert.summary",
    "named_parameters": "kbert.checkpoints.tables",
    "plot": "kbert.diagrams",
    "predict": "kbert.inference",
    "resize_positions": "kbert.resizing",
    "resize_vocab": "kbert.resizing",
    "save": "kbert.bert",
    "verify": "kbert.verification",
}

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str):
    if name not in _PUBLIC:
        raise AttributeError(f"module 'kbert' has no attribute {name!r}")
    value = getattr(importlib.import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted(__all__)


register_with_keras()
