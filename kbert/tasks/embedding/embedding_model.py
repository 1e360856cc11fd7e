"""The model of a run that trains sentence embeddings: a source's encoder."""

import logging
from dataclasses import dataclass

from kbert.checkpoints import untrained_weights
from kbert.checkpoints.bert import Bert
from kbert.checkpoints.sentence_settings import SentenceSettings
from kbert.graph import names
from kbert.model.deferred import build_with, layers_of
from kbert.training.losses.embedding_objective import EMBEDDINGS
from kbert.training.run_plan import InitialLayers, PlannedModel, digest_base

_logger = logging.getLogger("kbert")


@dataclass(frozen=True, kw_only=True)
class EmbeddingModel(PlannedModel):
    """See `PlannedModel`.

    Attributes:
        source: the model that the run starts from.
        sentence: how the result turns texts into vectors.
    """

    source: Bert
    sentence: SentenceSettings

    def initialize(self) -> InitialLayers:
        layers = {names.POOLER: None} | layers_of(self.source.model)
        return InitialLayers(layers, digest_base(self.source, self.adapter))

    def select_trained_part(self, model):
        """Return the encoder: what has no gradient would still decay."""
        return encoder_of(model)

    def find_untrained(self) -> set[str]:
        new = set(untrained_weights.find_untrained(self.source))
        if self.spec.has_pooler and not self.source.spec.has_pooler:
            new.add(names.POOLER)
        return new & {*self.trained.frozen, names.POOLER}

    def make_bert(self, layers) -> Bert:
        if self.spec.has_pooler:
            layers = layers | {names.POOLER: self._find_pooler()}
        model = build_with(self.spec, layers)

        source = self.source
        head = self.spec.head
        return Bert(source.config, head, model, source.tokenizer, sentence=self.sentence)

    def _find_pooler(self):
        """Return the source's pooler, which is not trained; None, with a warning: it has none."""
        if self.source.spec.has_pooler:
            return self.source.model.get_layer(names.POOLER)
        _logger.warning("newly initialized (not in the checkpoint): %s", names.POOLER)
        return None


def encoder_of(model):
    """Return a model up to the last block's output, float (B, S, H); shares the weights."""
    import keras

    from kbert.model.bert_model import BertModel
    from kbert.model.probes import build_hidden_states

    states = build_hidden_states(model, layers=[-1])
    # a layer of its own, since engines cut a model between its last block and what follows
    output = keras.layers.Identity(name=EMBEDDINGS)(states.outputs[0])
    return BertModel(states.inputs, output, spec=None)
