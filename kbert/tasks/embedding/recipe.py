"""Training of sentence embeddings as a recipe."""

import dataclasses
import logging

from kbert.checkpoints.bert import Bert
from kbert.checkpoints.sentence_settings import DEFAULT, SentenceSettings, settings_of
from kbert.data.labelled.text_columns import ColumnBatches
from kbert.graph import names
from kbert.graph.closed_form import layers as graph_layers
from kbert.model.deferred import build_with, layers_of
from kbert.tasks.checks import longest, require_tokenizer
from kbert.tasks.embedding.evaluation import SCORES, EmbeddingEvaluation
from kbert.tasks.embedding.training import TASK, check_prompt, drop_single_labels
from kbert.tasks.finetuning.recipe import Finetuning
from kbert.training.embedding_loss import EMBEDDINGS, EmbeddingLoss
from kbert.training.recipe import digest_base
from kbert.training.setting_rules import VECTOR_POOLINGS

_logger = logging.getLogger("kbert")

# Losses for each kind of records; the first is the default.
_LOSSES_BY_KIND = {
    "pairs": ("infonce",),
    "triplets": ("infonce", "triplet"),
    "scored pairs": ("cosent", "cosine"),
    "labelled sentences": ("infonce", "triplet"),
}


class EmbeddingTraining(Finetuning):
    """The recipe of sentence embeddings; see `Recipe`.

    The loss compares all texts of a batch, even if it is computed in micro-batches. Only the
    encoder is trained: parts that do not affect the embeddings, such as the pooler, stay.
    """

    never_trained = (names.POOLER,)
    _own: SentenceSettings  # the checkpoint's, with the pooling that is trained

    def read(self) -> None:
        super().read()
        self._train = list(drop_single_labels(self._train))
        kind = self._train[0].kind
        self.units = kind, self._dev[0].kind if self._dev else ""
        known = _LOSSES_BY_KIND[kind]
        loss = self.settings.loss or known[0]
        if loss not in known:
            kinds = [other for other, losses in _LOSSES_BY_KIND.items() if loss in losses]
            raise ValueError(
                f"loss must be {' or '.join(known)} for {kind}, got {loss}, which is for "
                f"{' and '.join(kinds)}"
            )
        first = self._train[0]
        if loss == "triplet" and len(first.texts) > 3:
            raise ValueError(
                f"{first.location}: expected one negative with loss triplet, got "
                f"{len(first.texts) - 2}: take loss infonce, or leave the others out"
            )
        for record in self._train if loss == "cosine" else ():
            if not -1 <= (record.score or 0.0) <= 1:
                raise ValueError(
                    f"{record.location}: scores must be -1 … 1 with loss cosine, got "
                    f"{record.score:g}: divide them, or take loss cosent, for which only their "
                    "order matters"
                )
        self.settings = dataclasses.replace(self.settings, loss=loss)
        if self._dev:
            self.score = SCORES[self.units[1]]

    def open(self, compiled: bool, shape_cost: float = 0.0) -> None:
        super().open(compiled, shape_cost)
        # the pooler alone would have no share in the vectors
        owners = {layer.name for layer in graph_layers(self.spec) if layer.params}
        if not self.trained.adapted and owners - self.trained.frozen <= {names.POOLER}:
            raise ValueError(
                f"freeze must leave a part of the encoder to train for embed, got "
                f"{self.settings.freeze!r}"
            )
        config, settings, texts = self.bert.config, self.settings, self.batches.count
        if settings.loss == "infonce":
            self._refuse_duplicates()
            most = settings.batch_size * (texts - 1) - 1
            self.units = f"{self.units[0]}, up to {most:,} negatives each", self.units[1]
        self.embedding_loss = EmbeddingLoss(
            str(settings.loss),
            texts,
            config.hidden_size,
            pooling=str(settings.pooling),
            normalize=self._own.normalize,
            pad_id=config.pad_token_id,
            scale=settings.scale,
            margin=settings.margin,
            dimensions=settings.dimensions and tuple(settings.dimensions),
        )

    def _encode(self, limit, compiled, shape_cost, longest_text=None) -> tuple[int, ...]:
        self._check_settings()
        return super()._encode(limit, compiled, shape_cost, self._own.max_length)

    def encode_records(self, records, limit: int):
        tokenizer = require_tokenizer(self.bert, "finetune")
        return TASK.encode(records, tokenizer, None, limit, self._own)

    def make_batches(self, train, lengths, compiled) -> ColumnBatches:
        return ColumnBatches(
            train,
            output=EMBEDDINGS,
            texts_per_record=3 if self.settings.loss == "triplet" else 2,
            batch_size=self.settings.batch_size,
            seed=self.settings.seed,
            pad_id=self.bert.config.pad_token_id,
            lengths=lengths,
        )

    def make_evaluation(self, dev, lengths) -> EmbeddingEvaluation:
        settings, pad_id = self.settings, self.bert.config.pad_token_id
        size = settings.batch_size // settings.accumulation_steps or 1
        options = {"kind": self.units[1], "dimensions": settings.dimensions}
        options["metrics"] = settings.metrics or ()
        return EmbeddingEvaluation(dev, size, pad_id, lengths, **options)

    def _check_settings(self) -> None:
        """Check the pooling, by default the checkpoint's, and the dimensions."""
        own = self.bert.sentence or DEFAULT
        if self.settings.pooling is None:
            own = settings_of(self.bert, "finetune")
        pooling = self.settings.pooling or own.pooling
        if pooling != own.pooling:
            own = dataclasses.replace(own, pooling=pooling, dense=(), dimensions=None)
        if own.dense:
            raise ValueError(
                "a checkpoint with dense layers after the pooling cannot be trained for embed: "
                "train it with sentence-transformers, or choose another pooling, which leaves "
                "them out"
            )
        check_prompt(own)
        self._own = own
        if pooling not in VECTOR_POOLINGS:
            raise ValueError(
                f"pooling must be one of {', '.join(VECTOR_POOLINGS)} to be trained, got the "
                f"checkpoint's own {pooling!r}: say one"
            )
        self.settings = dataclasses.replace(self.settings, pooling=pooling)
        hidden = self.bert.config.hidden_size
        if self.settings.dimensions and max(self.settings.dimensions) > hidden:
            raise ValueError(
                f"dimensions must be at most the model's hidden size {hidden}, got "
                f"{max(self.settings.dimensions)}"
            )

    def _refuse_duplicates(self) -> None:
        if self.batches.count != 2:
            return
        if self.settings.batch_size == 1:
            raise ValueError(
                "batch_size must be at least 2 with loss infonce, got 1: there are no negatives"
            )
        duplicates = self.batches.find_batch_without_negatives(self.settings.epochs)
        if duplicates is not None:
            record = self._train[int(duplicates.min())]
            raise ValueError(
                f"{record.location}: a batch of {len(duplicates)} records must have two different "
                "texts or more on each side, got only duplicates, such as "
                f"{record.texts[0]!r:.40}. None is a negative: take a larger batch_size, or other "
                "data"
            )

    def select_trained_part(self, model):
        """Return the encoder: what has no gradient would still decay."""
        return encoder_of(model)

    def first_layers(self):
        self.base_digest = digest_base(self.bert, self.adapter)
        return {names.POOLER: None} | layers_of(self.bert.model)

    def make_bert(self, layers) -> Bert:
        if self.spec.has_pooler:  # the source's, which is not trained
            own = self.bert.spec.has_pooler
            pooler = self.bert.model.get_layer(names.POOLER) if own else None
            layers = layers | {names.POOLER: pooler}
            if not own:
                _logger.warning("newly initialized (not in the checkpoint): %s", names.POOLER)
        model = build_with(self.spec, layers)
        length = self._own.max_length or longest(self.bert, self.settings.max_length)
        sentence = dataclasses.replace(self._own, max_length=length)
        tokenizer = self.bert.tokenizer
        return Bert(self.bert.config, self.task.head, model, tokenizer, sentence=sentence)


def encoder_of(model):
    """Return a model up to the last block's output, float (B, S, H); shares the weights."""
    import keras

    from kbert.model.bert_model import BertModel
    from kbert.model.probes import build_hidden_states

    states = build_hidden_states(model, blocks=[-1])
    # a layer of its own, since engines cut a model between its last block and what follows
    output = keras.layers.Identity(name=EMBEDDINGS)(states.outputs[0])
    return BertModel(states.inputs, output, spec=None)


RECIPE = EmbeddingTraining
