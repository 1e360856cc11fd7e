"""Training of sentence embeddings: reading, encoding, and the loss for each kind of data."""

import logging
from collections import Counter
from collections.abc import Sequence

import numpy as np

from kbert.checkpoints.sentence_settings import DEFAULT, SentenceSettings, settings_of
from kbert.data.labelled.data_warnings import warn_of_missing_labels
from kbert.data.labelled.text_columns import TextColumns
from kbert.io.wording import data_of
from kbert.tasks.embedding.evaluation import score_embeddings
from kbert.tasks.embedding.reading import TextRecord, TextTask
from kbert.tasks.embedding.texts import prepare_texts
from kbert.tasks.encoding import encode_in_portions
from kbert.tasks.intervals import Scores

_logger = logging.getLogger("kbert")

# Losses for each kind of records; the first is the default.
LOSSES_BY_KIND = {
    "pairs": ("infonce",),
    "triplets": ("infonce", "triplet"),
    "scored pairs": ("cosent", "cosine"),
    "labelled sentences": ("infonce", "triplet"),
}


class SentenceEmbeddings(TextTask):
    """See `kbert.tasks.finetuning.task.Task`."""

    name, head, score = "embed", "encoder", "spearman"
    title = "sentence vectors"
    recipe, takes_teacher = "kbert.tasks.embedding.recipe", False

    def labels(self, records: Sequence[TextRecord]) -> None:
        warn_of_missing_labels(record.label for record in records if record.label is not None)

    def encode(
        self, records, tokenizer, labels, max_length: int, settings: SentenceSettings = DEFAULT
    ) -> TextColumns:
        """Encode the texts of records, after the model's default prompt.

        Warnings count truncated texts and sentences that are left out.
        """
        records = drop_single_labels(records)
        texts = [text for record in records for text in record.texts]
        columns = np.arange(len(texts), dtype=np.int32).reshape(len(records), -1)
        texts = prepare_texts(tokenizer, settings, texts, settings.default_prompt)
        ids, _ = encode_in_portions(texts, None, tokenizer, max_length)
        targets: dict[str, np.ndarray] = {}
        if records[0].score is not None:
            targets["scores"] = np.array([record.score for record in records], np.float32)
        elif records[0].label is not None:
            labels = sorted({str(record.label) for record in records})
            numbers = {label: number for number, label in enumerate(labels)}
            groups = [numbers[str(record.label)] for record in records]
            targets["groups"] = np.array(groups, np.int32)
        return TextColumns.from_texts(ids, columns, **targets)

    def scores(self, records, examples: TextColumns, outputs, labels) -> Scores:
        """Return the scores of embeddings, (texts, H); see `score_embeddings`."""
        return score_embeddings(records[0].kind, examples, outputs)

    def evaluate(
        self, bert, records, *, max_length: int | None, batch_size: int, precision: str | None
    ) -> dict[str, float]:
        """Return the metrics of a model's embeddings, as `kbert.embed` computes them."""
        from kbert.tasks.checks import longest, require_tokenizer
        from kbert.tasks.embedding.inference import embed_ids

        tokenizer = require_tokenizer(bert, "evaluate")
        own = settings_of(bert, "evaluate")
        check_prompt(own)
        limit = longest(bert, own.max_length if max_length is None else max_length)
        examples = self.encode(records, tokenizer, None, limit, own)
        embeddings = embed_ids(bert, examples.ids, batch_size=batch_size, precision=precision)
        return self.scores(records, examples, embeddings, None).metrics()


def check_prompt(settings: SentenceSettings) -> None:
    """Raise a ValueError for a default prompt that is not pooled: only `embed` supports it."""
    if settings.default_prompt and not settings.include_prompt:
        raise ValueError(
            "the task embed needs a checkpoint that pools its default prompt too, got "
            "include_prompt=False"
        )


def choose_loss(kind: str, loss: str | None) -> str:
    """Return the loss of a kind of records; a ValueError if `loss` is for other kinds."""
    if loss is not None and loss not in LOSSES_BY_KIND[kind]:
        kinds = [other for other, losses in LOSSES_BY_KIND.items() if loss in losses]
        raise ValueError(
            f"loss must be {' or '.join(LOSSES_BY_KIND[kind])} for {kind}, got {loss}, which is "
            f"for {' and '.join(kinds)}"
        )
    return loss or LOSSES_BY_KIND[kind][0]


def check_records(records: Sequence[TextRecord], loss: str) -> None:
    """Raise a ValueError, with file and line, for a record that does not fit the loss."""
    if loss == "triplet" and len(records[0].texts) > 3:
        raise ValueError(
            f"{records[0].location}: expected one negative with loss triplet, got "
            f"{len(records[0].texts) - 2}: take loss infonce, or leave the others out"
        )
    if loss != "cosine":
        return
    for record in records:
        if not -1 <= (record.score or 0.0) <= 1:
            raise ValueError(
                f"{record.location}: scores must be -1 … 1 with loss cosine, got {record.score:g}: "
                "divide them, or take loss cosent, for which only their order matters"
            )


def drop_single_labels(records: Sequence[TextRecord]) -> Sequence[TextRecord]:
    """Drop labelled sentences without another sentence of their label; keep other records."""
    if records[0].label is None:
        return records
    counts = Counter(record.label for record in records)
    repeated = [record for record in records if counts[record.label] > 1]
    if len(repeated) < len(records):
        _logger.warning(
            "%d of %d sentences are left out: no other sentence has their label",
            len(records) - len(repeated),
            len(records),
        )
    if len({record.label for record in repeated}) < 2:
        raise ValueError(
            f"{data_of(records[0].location)} must have two labels or more, each with two sentences "
            f"or more, got {len({record.label for record in repeated})}"
        )
    return repeated


TASK = SentenceEmbeddings()
