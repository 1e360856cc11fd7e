"""BERT as a Keras 3 functional graph that one can read, count, draw, check and train.

Public names are resolved when they are first used: importing kbert imports no Keras.
"""

import importlib

from kbert.model.registration import register_with_keras

__version__ = "0.1.0"

_PUBLIC = {
    "Bert": "kbert.checkpoints.bert",
    "BertConfig": "kbert.graph.config",
    "PRESETS": "kbert.graph.presets",
    "PretrainingBatches": "kbert.data.pretraining.pretraining_batches",
    "SentenceSettings": "kbert.checkpoints.sentence_settings",
    "Tokenizer": "kbert.data.tokenization.tokenizer",
    "account": "kbert.graph.accounting",
    "answer": "kbert.tasks.answering.inference",
    "attention": "kbert.tasks.attention.inference",
    "base": "kbert.graph.presets",
    "build_attention_maps": "kbert.model.probes",
    "build_bert": "kbert.model.builder",
    "build_classifier": "kbert.model.builder",
    "build_encoder": "kbert.model.builder",
    "build_hidden_states": "kbert.model.probes",
    "build_question_answering": "kbert.model.builder",
    "build_token_classifier": "kbert.model.builder",
    "classify": "kbert.tasks.classification.inference",
    "compare_heads": "kbert.show.one_projection",
    "embed": "kbert.tasks.embedding.inference",
    "evaluate": "kbert.tasks.finetuning.evaluate",
    "fill_mask": "kbert.tasks.fill_mask.inference",
    "finetune": "kbert.tasks.finetuning.finetune",
    "get_config": "kbert.graph.presets",
    "inspect": "kbert.checkpoints.inspection",
    "keep_tokens": "kbert.checkpoints.resizing",
    "large": "kbert.graph.presets",
    "load": "kbert.checkpoints.bert",
    "model_rows": "kbert.model.summary",
    "named_parameters": "kbert.checkpoints.weight_names",
    "next_sentence": "kbert.tasks.classification.inference",
    "open_shards": "kbert.data.corpus.shards",
    "plot": "kbert.show.diagrams",
    "predict": "kbert.model.inference",
    "prepare": "kbert.data.corpus.preparing",
    "pretrain": "kbert.tasks.pretraining.pretrain",
    "resize_positions": "kbert.checkpoints.resizing",
    "resize_vocab": "kbert.checkpoints.resizing",
    "resume": "kbert.tasks.resume",
    "save": "kbert.checkpoints.bert",
    "similarity": "kbert.tasks.embedding.inference",
    "tag": "kbert.tasks.tagging.inference",
    "train_vocab": "kbert.data.corpus.vocab_training",
    "verify": "kbert.show.verification",
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
