"""The result of every reader: an opened checkpoint, its tensors not yet read."""

import dataclasses
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

from kbert.checkpoints.sentence_settings import CrossEncoderSettings, SentenceSettings
from kbert.graph.spec import GraphSpec

# transformers' words for what a classifier is of
PROBLEM_TYPES = ("single_label_classification", "multi_label_classification", "regression")


@dataclass(frozen=True)
class Tensor:
    """A tensor of a checkpoint, not read yet.

    Attributes:
        name: its name in the file.
        shape: its shape.
        dtype: its dtype, as the file calls it.
        read: gives the numbers.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    read: Callable[[], np.ndarray]


class Backbone(Protocol):
    """A live BertBackbone of KerasHub, or one of the tasks around it."""

    name: str
    weights: list

    def get_config(self) -> dict: ...


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint with known names; its tensors are read one by one, on demand.

    Attributes:
        source: the path that it was opened at, for messages.
        format: which format it is of.
        column: the column of `checkpoints.tables` that its tensors' names are in.
        spec: the graph that it is of.
        tensors: its tensors by their names in the table; those beside the table by their own.
        architecture: the class of transformers, where it names one.
        labels: what the classifier's outputs are called, where it says.
        sentence: its way to a sentence vector, where it says.
        sentence_problem: why that way cannot be obeyed, where it cannot.
        cross_encoder: how a cross-encoder makes a score of its logit, where it says.
        problem_type: what its classifier is of, see `Bert`, where it says.
        split_punctuation: how a tagger's words are cut, see `Bert`, where it says.
        new_labels: names of the labels of a head that is newly initialized, where it says.
        other_head: the class of transformers whose head kbert does not have, where it is one.
        vocabulary: the folder or file that its tokenizer is read from; None: it has none.
        untrained: by layer, digests of newly initialized weights, where it marks some; see
            `kbert.checkpoints.first_values`.
        lowercase: whether that vocabulary is uncased, where only the format's own files say.
        left_out: tensors of the file that are no weights of a model: Adam's, buffers, copies.
        address: its address on a hub with the commit, where it lies in a hub's cache.
        card: its model card, where it lies in the folder of a run.
        notes: how the file was read, where that is not plain: a sentence each, for `inspect`.
    """

    source: str
    format: str
    column: str
    spec: GraphSpec
    tensors: dict[str, Tensor]
    architecture: str | None = None
    labels: tuple[str, ...] | None = None
    sentence: SentenceSettings | None = None
    sentence_problem: str | None = None
    cross_encoder: CrossEncoderSettings | None = None
    problem_type: str | None = None
    new_labels: tuple[str, ...] | None = None
    other_head: str | None = None
    untrained: Mapping[str, Collection[str]] = field(default_factory=dict)
    split_punctuation: str | None = None
    vocabulary: Path | None = None
    lowercase: bool | None = None
    left_out: tuple[str, ...] = ()
    address: str | None = None
    card: str | None = None
    notes: tuple[str, ...] = ()

    def padded_by(self, pad_id: int) -> "Checkpoint":
        """Give the checkpoint with its tokenizer's padding token, which goes before config.json's.

        transformers masks what the tokenizer pads with, whatever config.json says.

        Raises:
            ValueError: another padding token of RoBERTa, whose positions go by config.json's.
        """
        config = self.spec.config
        if pad_id == config.pad_token_id or pad_id >= config.vocab_size:
            return self  # beyond the embedding: that is reported with the weights
        if config.family.first_position is not None:
            raise ValueError(
                f"{self.source}: pad_token_id must be the tokenizer's, {pad_id}, got "
                f"{config.pad_token_id}"
            )
        spec = dataclasses.replace(self.spec, config=config.replace(pad_token_id=pad_id))
        return dataclasses.replace(self, spec=spec)
