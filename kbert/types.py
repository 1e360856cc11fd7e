"""The classes of kbert's arguments and results, and its exceptions: for annotations and `except`.

def pick_best(labels: list[kbert.types.Label]) -> str: ...

Like the names of `kbert` itself, they are imported when they are first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # `_MODULES` once more: what type checkers see
    from kbert.checkpoints.adapters.adapter import LoraAdapter as LoraAdapter
    from kbert.checkpoints.adapters.adapter import Pair as Pair
    from kbert.checkpoints.checkpoint import Backbone as Backbone
    from kbert.checkpoints.inspection import InspectedTensor as InspectedTensor
    from kbert.checkpoints.inspection import Inspection as Inspection
    from kbert.checkpoints.sentence_settings import CrossEncoderSettings as CrossEncoderSettings
    from kbert.checkpoints.sentence_settings import SentenceDense as SentenceDense
    from kbert.checkpoints.transfer import TransferReport as TransferReport
    from kbert.data.corpus.shards import Shards as Shards
    from kbert.data.labelled.columns import ColumnOptions as ColumnOptions
    from kbert.data.labelled.length_buckets import Examples as Examples
    from kbert.data.tokenization.encodings import EncodedBatch as EncodedBatch
    from kbert.data.tokenization.encodings import Encoding as Encoding
    from kbert.data.tokenization.rust_tokenizer import RustTokenizer as RustTokenizer
    from kbert.data.tokenization.subwords import Subwords as Subwords
    from kbert.data.tokenization.vocabulary import Rules as Rules
    from kbert.data.tokenization.vocabulary import Vocabulary as Vocabulary
    from kbert.data.training_batch import Batches as Batches
    from kbert.data.training_batch import TrainingBatch as TrainingBatch
    from kbert.graph.accelerators import Accelerator as Accelerator
    from kbert.graph.accelerators import Devices as Devices
    from kbert.graph.accounting import Account as Account
    from kbert.graph.accounting import LayerAccount as LayerAccount
    from kbert.graph.accounting import Memory as Memory
    from kbert.graph.accounting import Totals as Totals
    from kbert.graph.closed_form import Row as Row
    from kbert.graph.comparison import AccountComparison as AccountComparison
    from kbert.graph.families import Family as Family
    from kbert.graph.reference import NamedParameter as NamedParameter
    from kbert.graph.spec import GraphSpec as GraphSpec
    from kbert.graph.trained_parts import AdaptedMatrix as AdaptedMatrix
    from kbert.graph.trained_parts import TrainedParts as TrainedParts
    from kbert.heads.head import Variant as Variant
    from kbert.model.bert_model import BertModel as BertModel
    from kbert.planning.compiler import CompiledUpdate as CompiledUpdate
    from kbert.planning.plan import ChipMemory as ChipMemory
    from kbert.planning.plan import Plan as Plan
    from kbert.show.explorer.explore import Explorer as Explorer
    from kbert.show.explorer.live.attention_weights import AttentionWeights as AttentionWeights
    from kbert.show.one_projection import HeadsReport as HeadsReport
    from kbert.show.verification import Comparison as Comparison
    from kbert.show.verification import Difference as Difference
    from kbert.show.verification import VerificationReport as VerificationReport
    from kbert.tasks.answering.inference import Answer as Answer
    from kbert.tasks.attention.attention_map import AttentionMap as AttentionMap
    from kbert.tasks.attention.head_statistics import HeadStatistics as HeadStatistics
    from kbert.tasks.attribution.attribution import Attribution as Attribution
    from kbert.tasks.attribution.attribution import WordScore as WordScore
    from kbert.tasks.choosing.inference import Choice as Choice
    from kbert.tasks.classification.inference import Label as Label
    from kbert.tasks.classification.inference import Value as Value
    from kbert.tasks.common.intervals import Scores as Scores
    from kbert.tasks.distillation.settings import DistillationSettings as DistillationSettings
    from kbert.tasks.fill_mask.inference import Candidate as Candidate
    from kbert.tasks.finetuning.results import Finetuned as Finetuned
    from kbert.tasks.finetuning.settings import FinetuningSettings as FinetuningSettings
    from kbert.tasks.finetuning.task import Task as Task
    from kbert.tasks.glue.results import GlueResult as GlueResult
    from kbert.tasks.glue.results import Metric as Metric
    from kbert.tasks.glue.results import Run as Run
    from kbert.tasks.glue.results import TaskResult as TaskResult
    from kbert.tasks.glue.tasks import Setting as Setting
    from kbert.tasks.pretraining.results import Trained as Trained
    from kbert.tasks.pretraining.settings import PretrainingSettings as PretrainingSettings
    from kbert.tasks.recipes.running import RecipeResult as RecipeResult
    from kbert.tasks.searching.inference import Hit as Hit
    from kbert.tasks.tagging.inference import Word as Word
    from kbert.training.loop.history import History as History
    from kbert.training.loop.loop import NotFinite as NotFinite
    from kbert.training.run.predictions import AnswerProb as AnswerProb
    from kbert.training.run.predictions import Baseline as Baseline
    from kbert.training.run.predictions import LabelScores as LabelScores
    from kbert.training.run.predictions import PredictedExample as PredictedExample
    from kbert.training.run.predictions import Predictions as Predictions
    from kbert.training.run.predictions import TextPiece as TextPiece
    from kbert.training.settings.run_settings import RunOptions as RunOptions
    from kbert.training.settings.run_settings import RunSettings as RunSettings
    from kbert.training.settings.user_objects import UserFunction as UserFunction
    from kbert.training.stopping import ProcessFailed as ProcessFailed
    from kbert.training.stopping import Stopped as Stopped

_MODULES = {
    "Accelerator": "kbert.graph.accelerators",
    "Account": "kbert.graph.accounting",
    "AccountComparison": "kbert.graph.comparison",
    "AdaptedMatrix": "kbert.graph.trained_parts",
    "Answer": "kbert.tasks.answering.inference",
    "AnswerProb": "kbert.training.run.predictions",
    "AttentionMap": "kbert.tasks.attention.attention_map",
    "AttentionWeights": "kbert.show.explorer.live.attention_weights",
    "Attribution": "kbert.tasks.attribution.attribution",
    "Backbone": "kbert.checkpoints.checkpoint",
    "Baseline": "kbert.training.run.predictions",
    "Batches": "kbert.data.training_batch",
    "BertModel": "kbert.model.bert_model",
    "Candidate": "kbert.tasks.fill_mask.inference",
    "ChipMemory": "kbert.planning.plan",
    "Choice": "kbert.tasks.choosing.inference",
    "ColumnOptions": "kbert.data.labelled.columns",
    "Comparison": "kbert.show.verification",
    "CompiledUpdate": "kbert.planning.compiler",
    "CrossEncoderSettings": "kbert.checkpoints.sentence_settings",
    "Devices": "kbert.graph.accelerators",
    "Difference": "kbert.show.verification",
    "DistillationSettings": "kbert.tasks.distillation.settings",
    "EncodedBatch": "kbert.data.tokenization.encodings",
    "Encoding": "kbert.data.tokenization.encodings",
    "Examples": "kbert.data.labelled.length_buckets",
    "Explorer": "kbert.show.explorer.explore",
    "Family": "kbert.graph.families",
    "Finetuned": "kbert.tasks.finetuning.results",
    "FinetuningSettings": "kbert.tasks.finetuning.settings",
    "GlueResult": "kbert.tasks.glue.results",
    "GraphSpec": "kbert.graph.spec",
    "HeadStatistics": "kbert.tasks.attention.head_statistics",
    "HeadsReport": "kbert.show.one_projection",
    "History": "kbert.training.loop.history",
    "Hit": "kbert.tasks.searching.inference",
    "InspectedTensor": "kbert.checkpoints.inspection",
    "Inspection": "kbert.checkpoints.inspection",
    "Label": "kbert.tasks.classification.inference",
    "LabelScores": "kbert.training.run.predictions",
    "LayerAccount": "kbert.graph.accounting",
    "LoraAdapter": "kbert.checkpoints.adapters.adapter",
    "Memory": "kbert.graph.accounting",
    "Metric": "kbert.tasks.glue.results",
    "NamedParameter": "kbert.graph.reference",
    "NotFinite": "kbert.training.loop.loop",
    "Pair": "kbert.checkpoints.adapters.adapter",
    "Plan": "kbert.planning.plan",
    "PredictedExample": "kbert.training.run.predictions",
    "Predictions": "kbert.training.run.predictions",
    "PretrainingSettings": "kbert.tasks.pretraining.settings",
    "ProcessFailed": "kbert.training.stopping",
    "RecipeResult": "kbert.tasks.recipes.running",
    "Row": "kbert.graph.closed_form",
    "Rules": "kbert.data.tokenization.vocabulary",
    "Run": "kbert.tasks.glue.results",
    "RunOptions": "kbert.training.settings.run_settings",
    "RunSettings": "kbert.training.settings.run_settings",
    "RustTokenizer": "kbert.data.tokenization.rust_tokenizer",
    "Scores": "kbert.tasks.common.intervals",
    "SentenceDense": "kbert.checkpoints.sentence_settings",
    "Setting": "kbert.tasks.glue.tasks",
    "Shards": "kbert.data.corpus.shards",
    "Stopped": "kbert.training.stopping",
    "Subwords": "kbert.data.tokenization.subwords",
    "Task": "kbert.tasks.finetuning.task",
    "TaskResult": "kbert.tasks.glue.results",
    "TextPiece": "kbert.training.run.predictions",
    "Totals": "kbert.graph.accounting",
    "Trained": "kbert.tasks.pretraining.results",
    "TrainedParts": "kbert.graph.trained_parts",
    "TrainingBatch": "kbert.data.training_batch",
    "TransferReport": "kbert.checkpoints.transfer",
    "UserFunction": "kbert.training.settings.user_objects",
    "Value": "kbert.tasks.classification.inference",
    "Variant": "kbert.heads.head",
    "VerificationReport": "kbert.show.verification",
    "Vocabulary": "kbert.data.tokenization.vocabulary",
    "Word": "kbert.tasks.tagging.inference",
    "WordScore": "kbert.tasks.attribution.attribution",
}

__all__ = sorted(_MODULES)


if not TYPE_CHECKING:  # else no name would be unknown to them

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            from kbert.graph import aliases

            aliases.refuse_attribute("types", name, _MODULES)
        value = getattr(importlib.import_module(_MODULES[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
