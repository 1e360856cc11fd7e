"""The model of a fine-tuning run: a source's layers, and a task's head on them."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from kbert.checkpoints import untrained_weights
from kbert.checkpoints.bert import Bert
from kbert.checkpoints.sentence_settings import IDENTITY, CrossEncoderSettings
from kbert.graph.closed_form import layers as graph_layers
from kbert.heads import HEADS
from kbert.io.wording import first_few
from kbert.model.deferred import build_with, layers_of
from kbert.tasks.finetuning.evaluate import known_labels
from kbert.tasks.finetuning.task import Task
from kbert.training.run_plan import InitialLayers, PlannedModel, digest_base

_logger = logging.getLogger("kbert")


@dataclass(frozen=True, kw_only=True)
class HeadModel(PlannedModel):
    """See `PlannedModel`.

    Attributes:
        source: the model that the run starts from.
        task: what is learned.
        labels: the head's, or None.
        records: of the training data.
    """

    source: Bert
    task: Task
    labels: tuple[str, ...] | None
    records: Sequence

    def initialize(self) -> InitialLayers:
        """Return the source's layers; a head with other labels, or of another kind, is new."""
        source = self.source
        head = HEADS[self.task.head]
        new = self._find_new_layers()
        expected = (*self.spec.outputs, *head.layers)
        missing = [name for name in new if name not in expected]
        if missing:
            _logger.warning("newly initialized (not in the checkpoint): %s", ", ".join(missing))

        has_same_head = source.head == self.task.head
        replaced = set(new) & set(self.spec.outputs)
        is_replaced = has_same_head and bool(replaced)
        if is_replaced and not untrained_weights.find_untrained(source, replaced):
            _logger.warning(
                "the checkpoint's head has the labels %s, the data %s: a new head is initialized",
                first_few(known_labels(source) or ()),
                first_few(self.labels or ()),
            )
        layers = layers_of(source.model) | dict.fromkeys(new)
        return InitialLayers(layers, digest_base(source, self.adapter))

    def find_untrained(self) -> set[str]:
        new = set(self._find_new_layers())
        new |= set(untrained_weights.find_untrained(self.source))
        return new & self.trained.frozen

    def make_bert(self, layers) -> Bert:
        task, tokenizer = self.task, self.source.tokenizer
        # how the training data of a tagger cut texts into words, see `Bert`
        find_punctuation = getattr(task, "split_punctuation", None)
        punctuation = None
        if find_punctuation:
            punctuation = find_punctuation(self.records, tokenizer)
        cross_encoder = None
        if task.problem_type == "regression":  # trained on the output itself
            cross_encoder = CrossEncoderSettings(IDENTITY)

        return Bert(
            self.source.config,
            task.head,
            build_with(self.spec, layers),
            tokenizer,
            labels=self.labels,
            problem_type=task.problem_type,
            split_punctuation=punctuation,
            cross_encoder=cross_encoder,
        )

    def _find_new_layers(self) -> list[str]:
        """Return the names of the layers that the source does not give the model."""
        present = {layer.name for layer in self.source.model.layers}
        if not self._is_head_reused():
            present -= set(self.spec.outputs)
        needed = [layer.name for layer in graph_layers(self.spec) if layer.params]
        return [name for name in needed if name not in present]

    def _is_head_reused(self) -> bool:
        source, task = self.source, self.task
        if source.head != task.head:
            return False
        if self.labels is None or known_labels(source) == self.labels:
            return True
        return task.problem_type == "regression" and source.spec.num_labels == 1
