"""The task of sentence embeddings: pairs, triplets, scored pairs, labelled sentences."""

import functools
import itertools
import logging
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from kbert.checkpoints.sentence_settings import DEFAULT, SentenceSettings, settings_of
from kbert.data.labelled.data_warnings import warn_of_missing_labels
from kbert.data.labelled.table_reading import read_table
from kbert.data.labelled.text_columns import TextColumns
from kbert.io.wording import data_of
from kbert.tasks.common.encoding import encode_in_portions
from kbert.tasks.common.intervals import Scores
from kbert.tasks.embedding.evaluation import (
    collect_metrics,
    pair_cosines,
    score_embeddings,
    score_lengths,
)
from kbert.tasks.embedding.tables import KINDS, TEXT_RECORDS, TextRecord
from kbert.tasks.embedding.texts import prepare_texts
from kbert.tasks.finetuning.data_summary import summarize_numbers
from kbert.tasks.finetuning.task import Task
from kbert.tasks.finetuning.user_metrics import add_metrics, evaluate_metrics
from kbert.training.settings.setting_rules import EMBEDDING_LOSSES

_logger = logging.getLogger("kbert")


class SentenceEmbeddings(Task):
    """Sentence embeddings: records of texts, all of one kind.

    The columns are anchor (query, sentence1, text, …), positive (answer, sentence2, …), negative,
    negative_1, …, score and label.
    """

    name, head, score = "embed", "encoder", "spearman"
    title = "sentence vectors"
    read_step = "kbert.tasks.embedding.planning:read_texts"
    plan_step = "kbert.tasks.embedding.planning:plan_embeddings"
    takes_teacher = False
    losses = EMBEDDING_LOSSES
    read = staticmethod(functools.partial(read_table, TEXT_RECORDS))

    def labels(self, records: Sequence[TextRecord]) -> None:
        warn_of_missing_labels(record.label for record in records if record.label is not None)

    def count_labels(self, records: Sequence[TextRecord]) -> dict[str, Any]:
        first = records[0]
        facts: dict[str, Any] = {"kind": first.kind}
        if first.kind == KINDS[-1]:
            facts["texts"] = len(first.texts)
        if first.label is not None:
            facts["labels"] = Counter(record.label for record in records)
        if first.score is not None:
            facts["numbers"] = summarize_numbers([record.score or 0.0 for record in records])
        return facts

    def encode(
        self, records, tokenizer, labels, max_length: int, settings: SentenceSettings = DEFAULT
    ) -> TextColumns:
        """Encode the texts of records, after the model's default prompt.

        Warnings count truncated texts and sentences that are left out.
        """
        records = drop_single_labels(records)
        texts = list(itertools.chain.from_iterable(record.texts for record in records))
        numbers = np.arange(len(texts), dtype=np.int32)
        columns = numbers.reshape(len(records), -1)

        prepared = prepare_texts(tokenizer, settings, texts, settings.default_prompt)
        source = data_of(records[0].location)
        ids, _ = encode_in_portions(prepared, None, tokenizer, max_length, source)
        return TextColumns.from_texts(ids, columns, **_list_targets(records))

    def scores(self, records, examples: TextColumns, outputs, labels) -> Scores:
        """Return the scores of embeddings, (texts, H); see `score_embeddings`."""
        return score_embeddings(records[0].kind, examples, outputs)

    def evaluate(
        self, bert, records, settings, *, batch_size: int, precision: str | None
    ) -> dict[str, float]:
        """Return the metrics of a model's embeddings, as `kbert.embed` computes them.

        `settings` are a `FinetuningSettings`, of which max_length and dimensions count.
        """
        from kbert.tasks.common.checks import longest, require_tokenizer
        from kbert.tasks.embedding.inference import embed_ids

        tokenizer = require_tokenizer(bert, "evaluate")
        sentence = settings_of(bert, "evaluate")
        check_prompt(sentence)
        limit = longest(bert, settings.max_length or sentence.max_length)

        examples = self.encode(records, tokenizer, None, limit, sentence)
        embeddings = embed_ids(bert, examples.ids, batch_size=batch_size, precision=precision)

        kind = records[0].kind
        values = collect_metrics(score_lengths(kind, examples, embeddings, settings.dimensions))
        pairs = pair_cosines(kind, examples, embeddings)
        user_metrics, _ = evaluate_metrics(settings.metrics or (), pairs, pairs)
        add_metrics(values, user_metrics)
        return values


def check_prompt(settings: SentenceSettings) -> None:
    """Raise a ValueError for a default prompt that is not pooled: only `embed` supports it."""
    if settings.default_prompt and not settings.include_prompt:
        raise ValueError(
            "the task embed needs a checkpoint that pools its default prompt too, got "
            "include_prompt=False"
        )


def _list_targets(records: Sequence[TextRecord]) -> dict[str, np.ndarray]:
    """Return the scores of records, or their labels as numbers; pairs and triplets have none."""
    if records[0].score is not None:
        scores = [record.score for record in records]
        return {"scores": np.array(scores, np.float32)}
    if records[0].label is None:
        return {}
    names = np.array([str(record.label) for record in records], object)
    _, groups = np.unique(names, return_inverse=True)
    return {"groups": groups.astype(np.int32)}


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

    num_labels = len({record.label for record in repeated})
    if num_labels < 2:
        raise ValueError(
            f"{data_of(records[0].location)} must have two labels or more, each with two sentences "
            f"or more, got {num_labels}"
        )
    return repeated


TASK = SentenceEmbeddings()
