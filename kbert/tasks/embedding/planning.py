"""Training of sentence embeddings as a plan.

The loss compares all texts of a batch, even if it is computed in micro-batches. Only the encoder is
trained: parts that do not affect the embeddings, such as the pooler, stay.
"""

import dataclasses
from collections.abc import Sequence

from kbert.checkpoints.bert import Bert
from kbert.checkpoints.sentence_settings import DEFAULT, SentenceSettings, settings_of
from kbert.data.labelled.text_columns import ColumnBatches, TextColumns
from kbert.graph import names
from kbert.graph.closed_form import layers as graph_layers
from kbert.graph.spec import GraphSpec
from kbert.graph.trained_parts import TrainedParts
from kbert.tasks.common.checks import length_of_examples, longest, require_tokenizer
from kbert.tasks.embedding.embedding_model import EmbeddingModel
from kbert.tasks.embedding.evaluation import SCORES, EmbeddingEvaluation
from kbert.tasks.embedding.training import TASK, TextRecord, check_prompt, drop_single_labels
from kbert.tasks.finetuning.batches import choose_lengths
from kbert.tasks.finetuning.continued_adapter import choose_trained
from kbert.tasks.finetuning.planning import Source, log_summary, make_plan, open_model
from kbert.tasks.finetuning.run_request import LabelledData, read_labelled
from kbert.tasks.finetuning.settings import FinetuningSettings
from kbert.training.losses.embedding_objective import EMBEDDINGS, EmbeddingLoss
from kbert.training.run_plan import Device, Request, RunPlan
from kbert.training.settings.setting_rules import VECTOR_POOLINGS

# Losses for each kind of records; the first is the default.
_LOSSES_BY_KIND = {
    "pairs": ("infonce",),
    "triplets": ("infonce", "triplet"),
    "scored pairs": ("cosent", "cosine"),
    "labelled sentences": ("infonce", "triplet"),
}


def read_texts(request: Request) -> LabelledData:
    """Read records of texts; a ValueError says that the loss is not for their kind."""
    data = read_labelled(request)
    records = list(drop_single_labels(data.train))
    _check_records(records, choose_loss(request.settings, records[0].kind))
    return dataclasses.replace(data, train=records)


def plan_embeddings(request: Request, data: LabelledData, device: Device) -> RunPlan:
    """Plan the training of an encoder by a loss of its texts' embeddings."""
    source = open_model(request)
    bert, records = source.bert, data.train
    kind = records[0].kind
    dev_kind = data.dev[0].kind if data.dev else ""

    sentence = choose_pooling(bert, request.settings)
    loss = choose_loss(request.settings, kind)
    settings = dataclasses.replace(request.settings, loss=loss, pooling=sentence.pooling)
    limit = length_of_examples(bert, settings.max_length)
    text_limit = min(limit, sentence.max_length or limit)
    model = _plan_model(settings, source, sentence, limit)
    _require_encoder(model.spec, model.trained, settings)

    train, dev = _encode_data(bert, data, text_limit, sentence)

    def batch(lengths: Sequence[int]) -> ColumnBatches:
        return _make_batches(train, settings, bert, lengths)

    batches, lengths, dev_lengths = choose_lengths(settings, limit, text_limit, device, batch)
    settings = dataclasses.replace(settings, max_length=limit, lengths=lengths)
    evaluation = _make_evaluation(dev, data, settings, bert, dev_lengths)

    plan = make_plan(
        request,
        data,
        source,
        settings=settings,
        labels=None,
        model=model,
        batches=batches,
        losses={},
        embedding_loss=_make_loss(settings, batches, sentence, bert),
        evaluation=evaluation,
        score=SCORES[dev_kind] if dev_kind else TASK.score,
        units=(_name_records(kind, settings, batches), dev_kind),
        metrics_text=TASK.describe_metrics(None),
    )
    if settings.loss == "infonce":
        _refuse_duplicates(batches, settings, records)
    log_summary(plan, data, None)
    return plan


def choose_loss(settings: FinetuningSettings, kind: str) -> str:
    """Return the loss for a kind of records; a ValueError says which ones it has."""
    known = _LOSSES_BY_KIND[kind]
    loss = settings.loss or known[0]
    if loss in known:
        return loss

    kinds = [other for other, losses in _LOSSES_BY_KIND.items() if loss in losses]
    raise ValueError(
        f"loss must be {' or '.join(known)} for {kind}, got {loss}, which is for "
        f"{' and '.join(kinds)}"
    )


def _check_records(records: Sequence[TextRecord], loss: str) -> None:
    """Raise a ValueError for records that a loss cannot compare."""
    first = records[0]
    if loss == "triplet" and len(first.texts) > 3:
        raise ValueError(
            f"{first.location}: expected one negative with loss triplet, got "
            f"{len(first.texts) - 2}: take loss infonce, or leave the others out"
        )
    if loss != "cosine":
        return

    for record in records:
        score = record.score or 0.0
        if not -1 <= score <= 1:
            raise ValueError(
                f"{record.location}: scores must be -1 … 1 with loss cosine, got {score:g}: "
                "divide them, or take loss cosent, for which only their order matters"
            )


def choose_pooling(bert: Bert, settings: FinetuningSettings) -> SentenceSettings:
    """Return the checkpoint's settings of sentences, with the pooling that is trained.

    Raises:
        ValueError: a pooling, a prompt or dimensions that cannot be trained.
    """
    if settings.pooling is None:
        sentence = settings_of(bert, "finetune")
    else:
        sentence = bert.sentence or DEFAULT
    pooling = settings.pooling or sentence.pooling
    if pooling != sentence.pooling:
        sentence = dataclasses.replace(sentence, pooling=pooling, dense=(), dimensions=None)

    if sentence.dense:
        raise ValueError(
            "a checkpoint with dense layers after the pooling cannot be trained for embed: "
            "train it with sentence-transformers, or choose another pooling, which leaves "
            "them out"
        )
    check_prompt(sentence)
    if pooling not in VECTOR_POOLINGS:
        raise ValueError(
            f"pooling must be one of {', '.join(VECTOR_POOLINGS)} to be trained, got the "
            f"checkpoint's own {pooling!r}: say one"
        )

    hidden = bert.config.hidden_size
    largest = max(settings.dimensions or (), default=0)
    if largest > hidden:
        raise ValueError(
            f"dimensions must be at most the model's hidden size {hidden}, got {largest}"
        )
    return sentence


def _plan_model(
    settings: FinetuningSettings, source: Source, sentence: SentenceSettings, limit: int
) -> EmbeddingModel:
    """Return the model of an encoder whose embeddings are trained."""
    bert = source.bert
    spec = GraphSpec(bert.config, TASK.head)
    length = sentence.max_length or longest(bert, limit)
    return EmbeddingModel(
        spec=spec,
        training_spec=spec.for_training(),
        trained=choose_trained(settings, spec, bert, source.adapter),
        adapter=source.adapter,
        source=bert,
        sentence=dataclasses.replace(sentence, max_length=length),
    )


def _require_encoder(spec: GraphSpec, trained: TrainedParts, settings: FinetuningSettings) -> None:
    """Raise a ValueError if nothing but the pooler, which has no share in vectors, is trained."""
    with_weights = {layer.name for layer in graph_layers(spec) if layer.params}
    trained_layers = with_weights - trained.frozen
    if not trained.adapted and trained_layers <= {names.POOLER}:
        raise ValueError(
            f"freeze must leave a part of the encoder to train for embed, got {settings.freeze!r}"
        )


def _encode_data(
    bert: Bert, data: LabelledData, max_length: int, sentence: SentenceSettings
) -> tuple[TextColumns, TextColumns | None]:
    """Encode the training data and the dev data, if there are any."""
    tokenizer = require_tokenizer(bert, "finetune")
    train = TASK.encode(data.train, tokenizer, None, max_length, sentence)
    if data.dev is None:
        return train, None
    return train, TASK.encode(data.dev, tokenizer, None, max_length, sentence)


def _make_batches(
    train: TextColumns, settings: FinetuningSettings, bert: Bert, lengths: Sequence[int]
) -> ColumnBatches:
    return ColumnBatches(
        train,
        output=EMBEDDINGS,
        texts_per_record=3 if settings.loss == "triplet" else 2,
        batch_size=settings.batch_size,
        seed=settings.seed,
        pad_id=bert.config.pad_token_id,
        lengths=lengths,
    )


def _make_evaluation(
    dev: TextColumns | None,
    data: LabelledData,
    settings: FinetuningSettings,
    bert: Bert,
    lengths: Sequence[int],
) -> EmbeddingEvaluation | None:
    if dev is None or data.dev is None:
        return None
    return EmbeddingEvaluation(
        dev,
        settings.batch_size // settings.accumulation_steps or 1,
        bert.config.pad_token_id,
        lengths,
        kind=data.dev[0].kind,
        records=data.dev,
        dimensions=settings.dimensions,
        metrics=settings.metrics or (),
    )


def _make_loss(
    settings: FinetuningSettings, batches: ColumnBatches, sentence: SentenceSettings, bert: Bert
) -> EmbeddingLoss:
    return EmbeddingLoss(
        str(settings.loss),
        batches.count,
        bert.config.hidden_size,
        pooling=str(settings.pooling),
        normalize=sentence.normalize,
        pad_id=bert.config.pad_token_id,
        scale=settings.scale,
        margin=settings.margin,
        dimensions=settings.dimensions and tuple(settings.dimensions),
    )


def _name_records(kind: str, settings: FinetuningSettings, batches: ColumnBatches) -> str:
    """Return what the training data consist of, in words."""
    if settings.loss != "infonce":
        return kind
    most = settings.batch_size * (batches.count - 1) - 1
    return f"{kind}, up to {most:,} negatives each"


def _refuse_duplicates(
    batches: ColumnBatches, settings: FinetuningSettings, records: Sequence[TextRecord]
) -> None:
    """Raise a ValueError for a batch of pairs in which no text is a negative of another's."""
    if batches.count != 2:
        return
    if settings.batch_size == 1:
        raise ValueError(
            "batch_size must be at least 2 with loss infonce, got 1: there are no negatives"
        )

    duplicates = batches.find_batch_without_negatives(settings.epochs)
    if duplicates is None:
        return
    record = records[int(duplicates.min())]
    raise ValueError(
        f"{record.location}: a batch of {len(duplicates)} records must have two different "
        "texts or more on each side, got only duplicates, such as "
        f"{record.texts[0]!r:.40}. None is a negative: take a larger batch_size, or other "
        "data"
    )
