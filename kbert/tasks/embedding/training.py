"""Training of sentence embeddings: reading, encoding, and the loss for each kind of data."""

import logging
from collections.abc import Sequence

import numpy as np

from kbert.checkpoints.sentence_settings import DEFAULT, SentenceSettings, settings_of
from kbert.data.labelled.data_warnings import warn_of_cut_texts, warn_of_missing_labels
from kbert.data.labelled.text_columns import TextColumns
from kbert.io.wording import data_of
from kbert.tasks.embedding.evaluation import scores_of
from kbert.tasks.embedding.reading import TextRecord, given_records, read_records
from kbert.tasks.embedding.texts import prepare_texts
from kbert.tasks.intervals import Scores

_logger = logging.getLogger("kbert")
_PORTION = 1 << 13  # texts that are tokenized at a time
_LONGEST = 1 << 18  # characters of a text that are read: no model has so many tokens

# Which losses fit each kind of records; the first is taken where none is said.
LOSSES_OF = {
    "pairs": ("infonce",),
    "triplets": ("infonce", "triplet"),
    "scored pairs": ("cosent", "cosine"),
    "labelled sentences": ("infonce", "triplet"),
}


class SentenceVectors:
    """See `kbert.tasks.finetuning.task.Task`."""

    name, head, score = "embed", "encoder", "spearman"
    title, problem_type = "sentence vectors", None
    recipe = "kbert.tasks.embedding.recipe"

    read = staticmethod(read_records)
    take = staticmethod(given_records)

    def labels(self, records: Sequence[TextRecord]) -> None:
        warn_of_missing_labels(record.label for record in records if record.label is not None)

    def encode(
        self, records, tokenizer, labels, max_length: int, settings: SentenceSettings = DEFAULT
    ) -> TextColumns:
        """Return the texts of records, behind the model's default prompt.

        A warning counts those that were cut, another those left out.
        """
        records = with_partners(records)
        texts = [text[:_LONGEST] for record in records for text in record.texts]
        columns = np.arange(len(texts), dtype=np.int32).reshape(len(records), -1)
        ids, cut = [], 0
        for start in range(0, len(texts), _PORTION):
            part = texts[start : start + _PORTION]
            part = prepare_texts(tokenizer, settings, part, settings.default_prompt)
            for encoding in tokenizer.encode_batch(part, max_length=max_length):
                ids.append(encoding.ids)
                cut += encoding.truncated
        warn_of_cut_texts(cut, len(texts), max_length)
        return TextColumns.of(ids, columns, **_targets(records))

    def scores(self, records, examples: TextColumns, outputs, labels) -> Scores:
        """Return the scores of {"Vectors": embeddings of `examples.texts`}; see `scores_of`."""
        return scores_of(records[0].kind, examples, np.stack(outputs["Vectors"]))

    def evaluate(
        self, bert, records, *, max_length: int | None, batch_size: int, precision: str | None
    ) -> dict[str, float]:
        """Return the metrics of a model's own vectors, as `kbert.embed` gives them."""
        from kbert.tasks.checks import longest, require_tokenizer
        from kbert.tasks.embedding.inference import embed_ids

        tokenizer = require_tokenizer(bert, "evaluate")
        own = settings_of(bert, "evaluate")
        refuse_uncounted_prompt(own)
        limit = longest(bert, own.max_length if max_length is None else max_length)
        examples = self.encode(records, tokenizer, None, limit, own)
        vectors = embed_ids(bert, examples.texts, batch_size=batch_size, precision=precision)
        return self.scores(records, examples, {"Vectors": list(vectors)}, None).metrics()


def refuse_uncounted_prompt(settings: SentenceSettings) -> None:
    """Raise a ValueError for a default prompt that is not pooled, which only `embed` leaves out."""
    if settings.default_prompt and not settings.include_prompt:
        raise ValueError(
            "the task embed needs a checkpoint that pools its default prompt too, got "
            "include_prompt=False"
        )


def loss_for(kind: str, asked: str | None) -> str:
    """Return the loss of a kind of records.

    Raise a ValueError where the one that is asked for is not for it.
    """
    fitting = LOSSES_OF[kind]
    if asked is not None and asked not in fitting:
        kinds = [other for other, losses in LOSSES_OF.items() if asked in losses]
        raise ValueError(
            f"loss must be {' or '.join(fitting)} for {kind}, got {asked}, which is for "
            f"{' and '.join(kinds)}"
        )
    return asked or fitting[0]


def check_fits(records: Sequence[TextRecord], loss: str) -> None:
    """Raise a ValueError, with file and line, for a record that a loss cannot have."""
    if loss == "triplet" and len(records[0].texts) > 3:
        raise ValueError(
            f"{records[0].place}: expected one negative with loss triplet, got "
            f"{len(records[0].texts) - 2}: take loss infonce, or leave the others out"
        )
    if loss != "cosine":
        return
    for record in records:
        if not -1 <= (record.score or 0.0) <= 1:
            raise ValueError(
                f"{record.place}: scores must be -1 … 1 with loss cosine, got {record.score:g}: "
                "divide them, or take loss cosent, for which only their order matters"
            )


def with_partners(records: Sequence[TextRecord]) -> Sequence[TextRecord]:
    """Labelled sentences whose label another one has; other records as they are."""
    if records[0].label is None:
        return records
    counts: dict[str | None, int] = {}
    for record in records:
        counts[record.label] = counts.get(record.label, 0) + 1
    kept = [record for record in records if counts[record.label] > 1]
    if len(kept) < len(records):
        _logger.warning(
            "%d of %d sentences are left out: no other sentence has their label",
            len(records) - len(kept),
            len(records),
        )
    if len({record.label for record in kept}) < 2:
        raise ValueError(
            f"{data_of(records[0].place)} must have two labels or more, each with two sentences or "
            f"more, got {len({record.label for record in kept})}"
        )
    return kept


def _targets(records: Sequence[TextRecord]) -> dict[str, np.ndarray]:
    """Return scores or labels, as `TextColumns` has them."""
    if records[0].score is not None:
        return {"scores": np.array([record.score for record in records], np.float32)}
    if records[0].label is None:
        return {}
    numbers = {label: n for n, label in enumerate(sorted({str(r.label) for r in records}))}
    return {"groups": np.array([numbers[str(record.label)] for record in records], np.int32)}


TASK = SentenceVectors()
