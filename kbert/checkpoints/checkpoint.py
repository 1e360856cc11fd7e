"""The result of every reader: an opened checkpoint, its tensors not yet read."""

import dataclasses
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

from kbert.checkpoints.sentence_settings import CrossEncoderSettings, SentenceSettings
from kbert.graph.spec import GraphSpec
from kbert.io import json_schema as js

# transformers' words for what a classifier is of
PROBLEM_TYPES = ("single_label_classification", "multi_label_classification", "regression")
# what kbert's own JSON files have of a head
HEAD_SETTINGS = {
    "labels": js.or_null(js.list_of(js.TEXT, "a list of texts")),
    "problem_type": js.or_null(js.one_of(*PROBLEM_TYPES)),
    "split_punctuation": js.or_null(js.TEXT),
}


def choose_activation(problem_type: str | None, num_labels: int) -> str:
    """Return the activation of a classifier's outputs, by Keras's name, as in transformers.

    These are the rules of its text-classification pipeline: "linear" for a regression, which
    predicts numbers; "sigmoid" for several labels or a single one; else "softmax".
    """
    if problem_type == "regression":
        return "linear"
    if problem_type == "multi_label_classification" or num_labels == 1:
        return "sigmoid"
    return "softmax"


@dataclass(frozen=True)
class Tensor:
    """A tensor of a checkpoint, not read yet; `name` and `dtype` are as the file says."""

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

    Attributes without a comment are those of `kbert.Bert`; None if the checkpoint has none.
    """

    column: str  # of the table of names, with the tensors' names
    spec: GraphSpec
    tensors: dict[str, Tensor]  # by their names in the table; others by their own names
    source: str = ""  # the path that was opened, for messages; `formats.open_checkpoint` sets it
    format: str = ""  # set there too
    architecture: str | None = None
    labels: tuple[str, ...] | None = None
    sentence: SentenceSettings | None = None
    sentence_problem: str | None = None
    cross_encoder: CrossEncoderSettings | None = None
    problem_type: str | None = None
    new_labels: tuple[str, ...] | None = None  # for a newly initialized head
    other_head: str | None = None  # the transformers class, if kbert does not have its head
    # digests of newly initialized weights, by layer; see `untrained_weights`
    untrained: Mapping[str, Collection[str]] = field(default_factory=dict)
    split_punctuation: str | None = None
    vocabulary: Path | None = None  # the folder or file of its tokenizer
    # of `Tokenizer.load`: what only the format's own files say of the vocabulary
    rules: Mapping = field(default_factory=dict)
    left_out: tuple[str, ...] = ()  # no weights of a model: Adam's, buffers, copies
    address: str | None = None  # on a hub with the commit, if it is in a hub's cache
    card: str | None = None
    files: tuple[str, ...] = ()  # with the weights, by name; empty: the path itself
    other_files: tuple[str, ...] = ()  # of weights in the same folder, which are not read
    notes: tuple[str, ...] = ()  # how the file was read, one sentence each, for `inspect`

    def replace_pad_id(self, pad_id: int) -> "Checkpoint":
        """Return the checkpoint with its tokenizer's padding token instead of config.json's.

        transformers masks the tokenizer's padding token, whatever config.json says. Raise a
        ValueError for another one of a RoBERTa, whose positions depend on config.json's.
        """
        config = self.spec.config
        if pad_id == config.pad_token_id or pad_id >= config.vocab_size:
            return self  # beyond the embedding: that is reported with the weights
        if config.family.first_position is not None:
            raise ValueError(
                f"{self.source}: pad_token_id must be the tokenizer's, {pad_id}, got "
                f"{config.pad_token_id}"
            )
        config = config.replace(pad_token_id=pad_id)
        spec = dataclasses.replace(self.spec, config=config)
        return dataclasses.replace(self, spec=spec)
