"""Specification of a graph: the arguments of a build, checked before anything is built."""

import os
from dataclasses import KW_ONLY, dataclass, replace
from typing import Self

from kbert.graph import aliases, names
from kbert.graph.config import BertConfig, require_positive
from kbert.graph.sources import resolve_graph
from kbert.heads import HEADS
from kbert.heads.head import Variant
from kbert.io.wording import check_choice

MOST_SELECTED = 0.75  # of a sequence: beyond it, selecting positions costs what it saves
POSITIONS = "positions"  # seq_len's default: as many tokens as the configuration has positions


@dataclass(frozen=True)
class GraphSpec:
    """The specification of a graph: equal specs are built into equal graphs.

    Args:
        config: the configuration.
        head: the name or an alias of one of `kbert.heads`.
        seq_len: tokens in a sequence; None: any length.
        max_predictions: predicted positions per sequence, if the MLM head sees only these; None:
            every position.
        num_labels: number of outputs of a head with labels; the others have their own number.
        selected_positions: whether the last encoder block computes only the positions that the
            heads read: the first token's, and those to predict.
        packed: whether a row holds several texts (`kbert.data.packed_batch`), by further inputs.
        dtype: the dtype policy of the layers, such as "mixed_bfloat16"; None: Keras's policy when
            the graph is built.

    Raises:
        ValueError: a head or size that no graph can have.
    """

    config: BertConfig
    head: str = "pretraining"
    _: KW_ONLY
    seq_len: int | None = None
    max_predictions: int | None = None
    num_labels: int = 2
    selected_positions: bool = False
    packed: bool = False
    dtype: str | None = None

    def __post_init__(self):
        self._set("head", aliases.resolve("head", self.head))
        if self.head not in tuple(HEADS):
            check_choice(self.head, HEADS, "head")
        if self.seq_len is not None:
            self._set("seq_len", self._check_length(self.seq_len))
        if self.max_predictions is not None:
            self._set("max_predictions", self._check_predictions(self.max_predictions))
        labels = require_positive("num_labels", self.num_labels)
        head = HEADS[self.head]
        self._set("num_labels", labels if head.has_labels else head.num_outputs)
        self._check_variant()

    @classmethod
    def of(
        cls,
        config: BertConfig | str | os.PathLike,
        head: str | None = None,
        *,
        seq_len: int | str | None = POSITIONS,
        num_labels: int | None = None,
        **others,
    ) -> Self:
        """Return the spec that a user's arguments mean: a preset's name, a path, `POSITIONS`.

        The head and the number of labels may be a folder's: see `resolve_graph`.
        """
        sizes, head, num_labels = resolve_graph(config, head, num_labels)
        others["seq_len"] = sizes.positions if seq_len == POSITIONS else seq_len
        return cls(sizes, head, num_labels=num_labels, **others)

    def for_training(self) -> Self:
        """Return the variant that trains fastest: selected positions, if they are few.

        Weights, outputs and losses are those of this graph.
        """
        predicted = self.max_predictions or 0
        reads = HEADS[self.head].reads
        reads_few = reads == "first" or (reads == "predicted" and predicted)
        read = predicted + self.reads_first
        if not reads_few or (self.seq_len and read > MOST_SELECTED * self.seq_len):
            return self
        return replace(self, selected_positions=True)

    @property
    def selected(self) -> int | None:
        """Number of positions that the last block computes, of a sequence or of a packed text.

        None: all.
        """
        if not self.selected_positions:
            return None
        return self.reads_first + (self.max_predictions or 0)

    @property
    def has_labels(self) -> bool:
        """True if the head is a classifier with `num_labels` outputs."""
        return HEADS[self.head].has_labels

    @property
    def variant(self) -> Variant:
        """The parts of the head in the graph of the configuration's family."""
        return HEADS[self.head].variant(self.config.family)

    @property
    def has_pooler(self) -> bool:
        """True if the graph has a dense layer of the first token's hidden state."""
        return not {"pooler", "first_token"}.isdisjoint(self.variant.parts)

    @property
    def classifier_rate(self) -> float:
        """Dropout rate of a classifier; the encoder's for DistilBERT's token classifier."""
        rate = self.config.classifier_dropout
        of_tokens = HEADS[self.head].reads == "all"
        if rate is None or (of_tokens and not self.config.family.pooler):
            return self.config.hidden_dropout_prob
        return rate

    @property
    def answer_rate(self) -> float:
        """Dropout rate before the question answering head, if the graph has that dropout."""
        rate = self.config.qa_dropout
        return self.config.hidden_dropout_prob if rate is None else rate

    @property
    def reads_first(self) -> bool:
        """True if the head reads the first token's hidden state, by a pooler or without one."""
        return self.has_pooler or HEADS[self.head].reads == "first"

    @property
    def packs_firsts(self) -> bool:
        """True if a row holds several texts and the head reads the first token of each."""
        return self.packed and self.reads_first and not HEADS[self.head].predicts_tokens

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the output layers."""
        last = names.encoder_output(self.config.num_hidden_layers)
        of_encoder = (last, names.POOLER) if self.has_pooler else (last,)
        return self.variant.outputs or of_encoder

    def _check_length(self, seq_len: int) -> int:
        seq_len = require_positive("seq_len", seq_len)
        positions, first = self.config.positions, self.config.first_position
        if seq_len > positions:
            limit = "max_position_embeddings" + (f" - {first}" if first else "")
            raise ValueError(f"seq_len must be at most {limit} = {positions}, got {seq_len}")
        return seq_len

    def _check_predictions(self, predictions: int) -> int:
        if not HEADS[self.head].predicts_tokens:
            raise ValueError(f"max_predictions goes with head pretraining, got head {self.head!r}")
        predictions = require_positive("max_predictions", predictions)
        most = self.seq_len or self.config.positions
        if predictions > most:
            raise ValueError(f"max_predictions must be at most seq_len = {most}, got {predictions}")
        return predictions

    def _check_variant(self) -> None:
        """Raise a ValueError for a variant that the head does not have."""
        for name in ("selected_positions", "packed"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be True or False, got {getattr(self, name)!r}")

        head = HEADS[self.head]
        if head.families and self.config.model_type not in head.families:
            raise ValueError(
                f"head {head.name!r} must be for a model_type {' or '.join(head.families)}, got "
                f"{self.config.model_type!r}"
            )

        if self.selected_positions and head.reads == "all":
            names_of_few = [head.name for head in HEADS.values() if head.reads != "all"]
            few = " or ".join(names_of_few)
            raise ValueError(
                f"selected_positions must be for a head that reads few positions, {few}, got head "
                f"{self.head!r}"
            )
        if self.selected_positions and head.predicts_tokens and not self.max_predictions:
            raise ValueError(
                "selected_positions needs max_predictions for pretraining, got None: without it "
                "the MLM head reads every position"
            )

        if self.packed and not head.packs:
            names_that_pack = [head.name for head in HEADS.values() if head.packs]
            packs = " or ".join(names_that_pack)
            raise ValueError(f"packed must be for the head {packs}, got head {self.head!r}")

    def _set(self, name: str, value) -> None:
        object.__setattr__(self, name, value)
