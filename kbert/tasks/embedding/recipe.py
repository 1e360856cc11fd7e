"""Training of sentence embeddings as a recipe."""

import dataclasses
import functools
import logging

from kbert.checkpoints import untrained_weights
from kbert.checkpoints.bert import Bert
from kbert.checkpoints.sentence_settings import DEFAULT, SentenceSettings, settings_of
from kbert.data.labelled.text_columns import ColumnBatches
from kbert.graph import names
from kbert.graph.layer_table import layers as graph_layers
from kbert.model.deferred import build_with, layers_of
from kbert.tasks.checks import longest, require_tokenizer
from kbert.tasks.embedding.evaluation import SCORES, EmbeddingEvaluation
from kbert.tasks.embedding.training import (
    TASK,
    check_prompt,
    check_records,
    choose_loss,
    drop_single_labels,
)
from kbert.tasks.finetuning.recipe import Finetuning
from kbert.training.embedding_loss import EMBEDDINGS, EmbeddingLoss
from kbert.training.setting_rules import VECTOR_POOLINGS
from kbert.training.trained_weights import amount_trained, with_adapters

_logger = logging.getLogger("kbert")


class EmbeddingTraining(Finetuning):
    """The recipe of sentence embeddings; see `Recipe`.

    The loss compares all texts of a batch, even if it is computed in micro-batches. Only the
    encoder is trained: parts that do not affect the embeddings, such as the pooler, stay.
    """

    batches: ColumnBatches
    embedding_loss: EmbeddingLoss
    _own: SentenceSettings  # the checkpoint's, with the pooling that is trained

    def read(self) -> None:
        super().read()
        self._train = list(drop_single_labels(self._train))
        self._kind = self._train[0].kind
        self._dev_kind = self._dev[0].kind if self._dev else ""
        loss = choose_loss(self._kind, self.settings.loss)
        check_records(self._train, loss)
        self.settings = dataclasses.replace(self.settings, loss=loss)
        if self._dev:
            self.score = SCORES[self._dev_kind]

    def open(self, compiled: bool, shape_cost: float = 0.0) -> None:
        super().open(compiled, shape_cost)
        self._refuse_nothing_to_train()
        if self.settings.loss == "infonce":
            self._refuse_duplicates()
        config, settings = self.bert.config, self.settings
        self.embedding_loss = EmbeddingLoss(
            str(settings.loss),
            self.batches.count,
            config.hidden_size,
            pooling=str(settings.pooling),
            normalize=self._own.normalize,
            pad_id=config.pad_token_id,
            scale=settings.scale,
            margin=settings.margin,
            dimensions=settings.dimensions and tuple(settings.dimensions),
        )

    def _encode(self, limit: int, lengths: tuple[int, ...], shape_cost: float) -> tuple[int, ...]:
        self._check_settings()
        tokenizer = require_tokenizer(self.bert, "finetune")
        limit = min(limit, self._own.max_length or limit)
        encode = functools.partial(
            TASK.encode,
            tokenizer=tokenizer,
            labels=None,
            max_length=limit,
            settings=self._own,
        )
        train = encode(self._train)
        dev = None if self._dev is None else encode(self._dev)
        settings = self.settings
        self.batches = ColumnBatches(
            train,
            output=EMBEDDINGS,
            texts_per_record=3 if settings.loss == "triplet" else 2,
            batch_size=settings.batch_size,
            seed=settings.seed,
            pad_id=tokenizer.pad_id,
            lengths=lengths,
        )
        if shape_cost:
            lengths = self._worth_a_shape(limit, shape_cost)
            self.batches = self.batches.with_lengths(lengths)
        self.dev = None
        if dev is not None:
            self.dev = EmbeddingEvaluation(
                self._dev_kind,
                dev,
                settings.batch_size // settings.accumulation_steps or 1,
                tokenizer.pad_id,
                self._of_dev or lengths,
                settings.dimensions,
            )
        digest = None if dev is None else dev.digest()
        self.fingerprint = {"train": self.batches.fingerprint, "dev": digest}
        return lengths

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

    def _refuse_nothing_to_train(self) -> None:
        """Raise a ValueError where the pooler alone is left, which has no share in the vectors."""
        owners = {layer.name for layer in graph_layers(self.spec) if layer.params}
        if not self._trained.adapted and owners - self._trained.frozen <= {names.POOLER}:
            raise ValueError(
                f"freeze must leave a part of the encoder to train for embed, got "
                f"{self.settings.freeze!r}"
            )

    def _refuse_duplicates(self) -> None:
        if self.settings.batch_size == 1 and self.batches.count == 2:
            raise ValueError(
                "batch_size must be at least 2 with loss infonce, got 1: there are no negatives"
            )
        if self.batches.count != 2:
            return
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
        return {names.POOLER: None} | layers_of(self.bert.model)

    def export_bert(self, engine, history) -> Bert:
        self._restore_best(history)
        model = build_with(self.spec, layers_of(engine.model) | self._pooler())
        length = self._own.max_length or longest(self.bert, self.settings.max_length)
        sentence = dataclasses.replace(self._own, max_length=length)
        tokenizer = self.bert.tokenizer
        bert = Bert(self.bert.config, self.task.head, model, tokenizer, sentence=sentence)
        bert = untrained_weights.with_untrained(bert, self._untrained([names.POOLER]))
        if not self._trained.adapted:
            return bert
        return with_adapters(bert, engine, self._base_path())

    def _pooler(self) -> dict:
        """Return the source's pooler, which is not trained."""
        if not self.spec.has_pooler:
            return {}
        if self.bert.spec.has_pooler:
            return {names.POOLER: self.bert.model.get_layer(names.POOLER)}
        _logger.warning("newly initialized (not in the checkpoint): %s", names.POOLER)
        return {names.POOLER: None}

    def describe_training(self, done: int) -> dict[str, str]:
        epoch, negatives = self.batches.steps_per_epoch, ""
        if self.settings.loss == "infonce":
            most = self.settings.batch_size * (self.batches.count - 1) - 1
            negatives = f", up to {most:,} negatives each"
        facts, count = self._describe_models(), len(self.batches.examples)
        facts["Data"] = f"{self._file_name('train')}{count:,} {self._kind}{negatives}"
        if self.dev is not None:
            facts["Dev data"] = f"{self._file_name('dev')}{len(self.dev):,} {self._dev_kind}"
        if self._trained.frozen:
            facts["Trained"] = amount_trained(self._trained)
        return facts | {"Seen": f"{done / epoch:.2f} epochs of {epoch:,} steps"}


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
