"""BERT in plain Keras 3: inspect its architecture, load a checkpoint, fine-tune, pretrain, export.

Public names are imported when they are first used: `import kbert` does not import Keras. So are
those of `kbert.types`, the classes of arguments and results, and the exceptions.
"""

import importlib
import logging
from typing import TYPE_CHECKING, Any

from kbert import types as types
from kbert.io import printable
from kbert.model.registration import register_with_keras
from kbert.version import __version__ as __version__

if TYPE_CHECKING:  # `_PUBLIC` once more: what type checkers see
    from kbert.checkpoints.bert import Bert as Bert
    from kbert.checkpoints.bert import load as load
    from kbert.checkpoints.bert import save as save
    from kbert.checkpoints.inspection import inspect as inspect
    from kbert.checkpoints.keras_hub.writer import to_keras_nlp as to_keras_nlp
    from kbert.checkpoints.resizing import keep_tokens as keep_tokens
    from kbert.checkpoints.resizing import resize_positions as resize_positions
    from kbert.checkpoints.resizing import resize_vocab as resize_vocab
    from kbert.checkpoints.sentence_settings import SentenceSettings as SentenceSettings
    from kbert.checkpoints.weight_names import named_parameters as named_parameters
    from kbert.data.corpus.preparing import prepare as prepare
    from kbert.data.corpus.shards import open_shards as open_shards
    from kbert.data.corpus.vocab_training import train_vocab as train_vocab
    from kbert.data.pretraining.pretraining_batches import PretrainingBatches as PretrainingBatches
    from kbert.data.tokenization.tokenizer import Tokenizer as Tokenizer
    from kbert.graph.accounting import account as account
    from kbert.graph.comparison import compare_accounts as compare_accounts
    from kbert.graph.config import BertConfig as BertConfig
    from kbert.graph.presets import PRESETS as PRESETS
    from kbert.graph.presets import base as base
    from kbert.graph.presets import get_config as get_config
    from kbert.graph.presets import large as large
    from kbert.hub.fetching import download as download
    from kbert.hub.pushing import push as push
    from kbert.model.builder import build_bert as build_bert
    from kbert.model.builder import build_classifier as build_classifier
    from kbert.model.builder import build_encoder as build_encoder
    from kbert.model.builder import build_question_answering as build_question_answering
    from kbert.model.builder import build_token_classifier as build_token_classifier
    from kbert.model.predict import predict as predict
    from kbert.model.probes import build_attention_maps as build_attention_maps
    from kbert.model.probes import build_hidden_states as build_hidden_states
    from kbert.model.summary import model_rows as model_rows
    from kbert.planning.compiler import compile_plan as compile_plan
    from kbert.planning.plan import plan as plan
    from kbert.show.explorer.explore import explore as explore
    from kbert.show.one_projection import compare_heads as compare_heads
    from kbert.show.plotting import plot as plot
    from kbert.show.verification import verify as verify
    from kbert.tasks.answering.inference import answer as answer
    from kbert.tasks.attention.inference import attention as attention
    from kbert.tasks.attribution.inference import attribute as attribute
    from kbert.tasks.choosing.inference import choose as choose
    from kbert.tasks.classification.inference import classify as classify
    from kbert.tasks.classification.inference import next_sentence as next_sentence
    from kbert.tasks.classification.inference import regress as regress
    from kbert.tasks.embedding.inference import embed as embed
    from kbert.tasks.embedding.inference import similarity as similarity
    from kbert.tasks.fill_mask.inference import fill_mask as fill_mask
    from kbert.tasks.finetuning.evaluate import evaluate as evaluate
    from kbert.tasks.finetuning.finetune import finetune as finetune
    from kbert.tasks.glue.glue import glue as glue
    from kbert.tasks.pretraining.pretrain import pretrain as pretrain
    from kbert.tasks.recipes.running import run_recipe as run_recipe
    from kbert.tasks.resume import resume as resume
    from kbert.tasks.searching.inference import rank as rank
    from kbert.tasks.searching.inference import search as search
    from kbert.tasks.tagging.inference import tag as tag


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
    "attribute": "kbert.tasks.attribution.inference",
    "base": "kbert.graph.presets",
    "build_attention_maps": "kbert.model.probes",
    "build_bert": "kbert.model.builder",
    "build_classifier": "kbert.model.builder",
    "build_encoder": "kbert.model.builder",
    "build_hidden_states": "kbert.model.probes",
    "build_question_answering": "kbert.model.builder",
    "build_token_classifier": "kbert.model.builder",
    "choose": "kbert.tasks.choosing.inference",
    "classify": "kbert.tasks.classification.inference",
    "regress": "kbert.tasks.classification.inference",
    "rank": "kbert.tasks.searching.inference",
    "search": "kbert.tasks.searching.inference",
    "compare_accounts": "kbert.graph.comparison",
    "compare_heads": "kbert.show.one_projection",
    "compile_plan": "kbert.planning.compiler",
    "download": "kbert.hub.fetching",
    "embed": "kbert.tasks.embedding.inference",
    "evaluate": "kbert.tasks.finetuning.evaluate",
    "explore": "kbert.show.explorer.explore",
    "fill_mask": "kbert.tasks.fill_mask.inference",
    "finetune": "kbert.tasks.finetuning.finetune",
    "get_config": "kbert.graph.presets",
    "glue": "kbert.tasks.glue.glue",
    "inspect": "kbert.checkpoints.inspection",
    "keep_tokens": "kbert.checkpoints.resizing",
    "large": "kbert.graph.presets",
    "load": "kbert.checkpoints.bert",
    "model_rows": "kbert.model.summary",
    "named_parameters": "kbert.checkpoints.weight_names",
    "to_keras_nlp": "kbert.checkpoints.keras_hub.writer",
    "next_sentence": "kbert.tasks.classification.inference",
    "open_shards": "kbert.data.corpus.shards",
    "plan": "kbert.planning.plan",
    "plot": "kbert.show.plotting",
    "predict": "kbert.model.predict",
    "prepare": "kbert.data.corpus.preparing",
    "pretrain": "kbert.tasks.pretraining.pretrain",
    "push": "kbert.hub.pushing",
    "resize_positions": "kbert.checkpoints.resizing",
    "resize_vocab": "kbert.checkpoints.resizing",
    "resume": "kbert.tasks.resume",
    "run_recipe": "kbert.tasks.recipes.running",
    "save": "kbert.checkpoints.bert",
    "similarity": "kbert.tasks.embedding.inference",
    "tag": "kbert.tasks.tagging.inference",
    "train_vocab": "kbert.data.corpus.vocab_training",
    "verify": "kbert.show.verification",
}

__all__ = ["__version__", *_PUBLIC]


if not TYPE_CHECKING:  # else no name would be unknown to them

    def __getattr__(name: str) -> Any:
        if name not in _PUBLIC:
            from kbert.graph import aliases

            aliases.refuse_attribute("kbert", name, _PUBLIC)
        value = getattr(importlib.import_module(_PUBLIC[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)


logging.getLogger("kbert").addFilter(printable.escape_record)
register_with_keras()
