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
    "PretrainingBatches": "kbert.data.pretraining_batches",
    "SentenceSettings": "kbert.sentence",
    "Tokenizer": "kbert.tokenizer",
    "account": "kbert.accounting",
    "answer": "kbert.tasks.answers",
    "attention": "kbert.tasks.maps",
    "base": "kbert.presets",
    "build_attention_maps": "kbert.probes",
    "build_bert": "kbert.builder",
    "build_classifier": "kbert.builder",
    "build_encoder": "kbert.builder",
    "build_hidden_states": "kbert.probes",
    "build_question_answering": "kbert.builder",
    "build_token_classifier": "kbert.builder",
    "classify": "kbert.tasks.sentences",
    "compare_heads": "kbert.heads",
    "embed": "kbert.tasks.embedding",
    "evaluate": "kbert.training.evaluation",
    "fill_mask": "kbert.tasks.masked",
    "finetune": "kbert.training.finetuning",
    "get_config": "kbert.presets",
    "inspect": "kbert.inspection",
    "keep_tokens": "kbert.resizing",
    "large": "kbert.presets",
    "load": "kbert.bert",
    "model_rows": "kbert.summary",
    "named_parameters": "kbert.checkpoints.tables",
    "next_sentence": "kbert.tasks.sentences",
    "open_shards": "kbert.data.shards",
    "plot": "kbert.diagrams",
    "predict": "kbert.inference",
    "prepare": "kbert.data.preparing",
    "pretrain": "kbert.training.pretraining",
    "resize_positions": "kbert.resizing",
    "resize_vocab": "kbert.resizing",
    "resume": "kbert.training.resuming",
    "save": "kbert.bert",
    "similarity": "kbert.tasks.embedding",
    "tag": "kbert.tasks.words",
    "train_vocab": "kbert.data.vocab_training",
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
