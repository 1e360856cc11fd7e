"""The names of the weights, as data: transformers' parameters and kbert's variables, in order.

Names and order are those of transformers' `BertModel.named_parameters()`; {i} is a checkpoint's
layer, from 0, and {n} the graph's encoder block, from 1.
"""

import math
from dataclasses import dataclass

from kbert import names
from kbert.config import BertConfig
from kbert.graph import config_letters
from kbert.presets import get_config
from kbert.reference import NamedParameter


@dataclass(frozen=True)
class Template:
    """One parameter, or one for each encoder block.

    Attributes:
        transformers: its name in transformers' BertModel.
        shape: its shape there, in the document's letters; G is the number of segments.
        layer: the kbert layer that has it.
        variable: its path within that layer.
    """

    transformers: str
    shape: tuple[str, ...]
    layer: str
    variable: str


def _dense(name: str, layer: str, variable: str, inputs: str, outputs: str) -> list[Template]:
    prefix = f"{variable}/" if variable else ""
    return [  # torch keeps a kernel as (outputs, inputs)
        Template(f"{name}.weight", (outputs, inputs), layer, f"{prefix}kernel"),
        Template(f"{name}.bias", (outputs,), layer, f"{prefix}bias"),
    ]


def _norm(name: str, layer: str) -> list[Template]:
    return [
        Template(f"{name}.LayerNorm.weight", ("H",), layer, "gamma"),
        Template(f"{name}.LayerNorm.bias", ("H",), layer, "beta"),
    ]


def _table(name: str, rows: str, layer: str) -> Template:
    return Template(f"embeddings.{name}_embeddings.weight", (rows, "H"), layer, "embeddings")


EMBEDDINGS = [
    _table("word", "T", names.TOKEN_EMBEDDING),
    _table("position", "P", names.POSITION_EMBEDDING),
    _table("token_type", "G", names.SEGMENT_EMBEDDING),
    *_norm("embeddings", names.EMBEDDING_NORM),
]

_ATTENTION = "Encoder-{n}-" + names.ATTENTION
_FEED_FORWARD = "Encoder-{n}-" + names.FEED_FORWARD

ENCODER_BLOCK = [
    *_dense("encoder.layer.{i}.attention.self.query", _ATTENTION, "query", "H", "H"),
    *_dense("encoder.layer.{i}.attention.self.key", _ATTENTION, "key", "H", "H"),
    *_dense("encoder.layer.{i}.attention.self.value", _ATTENTION, "value", "H", "H"),
    *_dense("encoder.layer.{i}.attention.output.dense", _ATTENTION, "attention_output", "H", "H"),
    *_norm("encoder.layer.{i}.attention.output", f"{_ATTENTION}-Norm"),
    *_dense("encoder.layer.{i}.intermediate.dense", _FEED_FORWARD, "intermediate", "H", "FFD"),
    *_dense("encoder.layer.{i}.output.dense", _FEED_FORWARD, "output", "FFD", "H"),
    *_norm("encoder.layer.{i}.output", f"{_FEED_FORWARD}-Norm"),
]

POOLER = _dense("pooler.dense", names.POOLER, "", "H", "H")


MLM_HEAD = [
    Template("cls.predictions.bias", ("T",), names.MLM_SIMILARITY, "bias"),
    *_dense("cls.predictions.transform.dense", names.MLM_DENSE, "", "H", "H"),
    *_norm("cls.predictions.transform", names.MLM_NORM),
]
NSP_HEAD = _dense("cls.seq_relationship", names.NSP, "", "H", "2")
HEADS = {
    "pretraining": [*MLM_HEAD, *NSP_HEAD],
    "encoder": [],
    "classifier": _dense("classifier", names.CLASSIFIER, "", "H", "N"),
    "tokens": _dense("classifier", names.TOKEN_CLASSIFIER, "", "H", "N"),
    "qa": _dense("qa_outputs", names.SPAN, "", "H", "2"),
}


CLASSIFIER_NAMES = [entry.transformers for entry in HEADS["classifier"]]


def head_templates(head: str) -> list[Template]:
    """The entries of a head, in transformers' order; N is the number of labels."""
    return HEADS[head]


def shape_of(entry: Template, config: BertConfig, num_labels: int = 2) -> tuple[int, ...]:
    """The parameter's shape in transformers."""
    letters = config_letters(config) | {"G": config.type_vocab_size, "N": num_labels, "2": 2}
    return tuple(letters[letter] for letter in entry.shape)


def templates(config: BertConfig) -> list[Template]:
    """The table with every block's numbers put in, in transformers' order."""
    blocks = []
    for index in range(config.num_hidden_layers):
        numbers = {"i": index, "n": names.from_checkpoint_index(index)}
        blocks += [
            Template(
                entry.transformers.format(**numbers),
                entry.shape,
                entry.layer.format(**numbers),
                entry.variable,
            )
            for entry in ENCODER_BLOCK
        ]
    return EMBEDDINGS + blocks + POOLER


def named_parameters(config: BertConfig | str) -> tuple[NamedParameter, ...]:
    """transformers' `BertModel.named_parameters()`, in closed form.

    Args:
        config: a `BertConfig`, a preset's name or a path to a JSON file.
    """
    config = get_config(config)
    parameters = []
    for entry in templates(config):
        shape = shape_of(entry, config)
        parameters.append(NamedParameter(entry.transformers, shape, math.prod(shape)))
    return tuple(parameters)


def group(parameter: str) -> str:
    """The group that document 001 sums a parameter into: embeddings, encoder or pooler."""
    return parameter.split(".")[0]
