"""The model of a pretraining run: newly initialized, or a checkpoint's layers."""

import os
from dataclasses import dataclass

from kbert.checkpoints import untrained_weights
from kbert.checkpoints.bert import Bert, load
from kbert.data.tokenization.tokenizer import Tokenizer
from kbert.graph import names
from kbert.model.deferred import build_with, layers_of
from kbert.tasks.common.checks import load_of_casing
from kbert.training.run_plan import InitialLayers, PlannedModel, digest_base


@dataclass(frozen=True, kw_only=True)
class PretrainedModel(PlannedModel):
    """See `PlannedModel`.

    Attributes:
        init: the checkpoint that the run starts from; None: none.
        tokenizer: that of the shards.
        mlm_only: whether next sentences are not predicted.
    """

    init: str | os.PathLike | None
    tokenizer: Tokenizer
    mlm_only: bool

    def initialize(self) -> InitialLayers:
        """Return the layers of `init`, whose vocabulary must be the shards'."""
        if self.init is None:
            return InitialLayers({})
        bert = load_of_casing(self.init, self.tokenizer, "pretraining")
        if bert.tokenizer is not None and bert.tokenizer.tokens != self.tokenizer.tokens:
            raise ValueError(
                f"{self.init} must have the vocabulary of the shards, got another: prepare with "
                "this one"
            )
        return InitialLayers(layers_of(bert.model), digest_base(bert))

    def find_untrained(self) -> set[str]:
        never_trained = {names.POOLER, names.NSP} if self.mlm_only else set()
        if self.init is None:
            return never_trained
        never_trained |= self.trained.frozen
        if not never_trained:
            return set()
        try:
            bert = load(self.init, head="pretraining", tokenizer=False)
        except OSError:  # a run that goes on may have lost it
            return set()
        return never_trained & set(untrained_weights.find_untrained(bert))

    def make_bert(self, layers) -> Bert:
        model = build_with(self.spec, layers)
        return Bert(self.spec.config, "pretraining", model, self.tokenizer)
