"""The task of sentence embeddings: pairs, triplets, scored pairs, labelled sentences."""

import logging
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from kbert.checkpoints.sentence_settings import DEFAULT, SentenceSettings, settings_of
from kbert.data.labelled.columns import (
    LABELS,
    MORE_LABELS,
    NO_OPTIONS,
    NUMBERS,
    PAIRS,
    TEXTS,
    WAY_TO_NAME,
    ColumnOptions,
)
from kbert.data.labelled.data_warnings import warn_of_missing_labels
from kbert.data.labelled.in_memory import LabelledRecords, label_of, text_of
from kbert.data.labelled.text_columns import TextColumns
from kbert.data.labelled.text_lines import Row
from kbert.io.wording import data_of
from kbert.tasks.embedding.evaluation import (
    collect_metrics,
    pair_cosines,
    score_embeddings,
    score_lengths,
)
from kbert.tasks.embedding.texts import prepare_texts
from kbert.tasks.encoding import encode_in_portions
from kbert.tasks.finetuning.data_summary import summarize_numbers
from kbert.tasks.finetuning.user_metrics import add_metrics, evaluate_metrics
from kbert.tasks.intervals import Scores
from kbert.tasks.table_task import (
    Columns,
    TableTask,
    are_row_numbers,
    parse_number,
    split_number,
)
from kbert.training.setting_rules import EMBEDDING_LOSSES

_logger = logging.getLogger("kbert")
_FIRST = ("anchor", "query", *dict.fromkeys(pair[0] for pair in PAIRS), *TEXTS)
_SECOND = ("positive", "answer", "document", "passage", *dict.fromkeys(pair[1] for pair in PAIRS))
_SCORES = ("score", "similarity", "similarity_score")
_NEGATIVES = {f"negative{between}{n}" for between in ("", "_") for n in range(100)} | {"negative"}
_LABELS = tuple(name for name in (*LABELS, *MORE_LABELS) if name not in _SCORES)
_NAMES = {*_FIRST, *_SECOND, *_SCORES, *_LABELS, *NUMBERS, *_NEGATIVES}
_DECIMAL_COMMA = re.compile(r"-?\d+,\d+")
_FEW = 20  # second texts for each of which there are so many lines: labels, it seems

KINDS = ("labelled sentences", "scored pairs", "pairs", "triplets")


class TextRecord(NamedTuple):
    """Texts that belong together.

    Attributes:
        texts: a sentence; two similar texts; or these and texts that are not similar to the first.
        score: similarity of two texts; None: unknown.
        label: label of a sentence; None for other records.
        location: file and line, for errors.
    """

    texts: tuple[str, ...]
    score: float | None = None
    label: str | None = None
    location: str = "a record"

    @property
    def kind(self) -> str:
        """One of `KINDS`."""
        if self.label is not None:
            return KINDS[0]
        return KINDS[1] if self.score is not None else KINDS[min(len(self.texts), 3)]


class SentenceEmbeddings(TableTask):
    """Sentence embeddings: records of texts, all of one kind.

    The columns are anchor (query, sentence1, text, …), positive (answer, sentence2, …), negative,
    negative_1, …, score and label. Without a header, two texts are a pair, three and more have
    negatives; a last column of numbers, in every line, is a label of one text; in most lines, a
    score of two texts. Tuples in memory are (text, text), (text, text, text, …), (text, text,
    number), or (text, whole number): a label.
    """

    name, head, score = "embed", "encoder", "spearman"
    title = "sentence vectors"
    recipe, takes_teacher = "kbert.tasks.embedding.recipe", False
    losses = EMBEDDING_LOSSES

    record = TextRecord
    names = _NAMES
    expected = expected_row = (
        "expected two texts (a pair), three or more (the further ones are negatives), two texts "
        "and a score, or a text and its label"
    )

    def read(self, path, options: ColumnOptions = NO_OPTIONS) -> LabelledRecords:
        records = super().read(path, options)
        is_pair = records[0].kind == "pairs"
        different = len({record.texts[1] for record in records}) if is_pair else 0
        if 0 < different * _FEW < len(records):
            _logger.warning(
                "%s: taken as pairs of texts, with only %d different second texts: if they are "
                "labels, put a line above: text, label",
                path,
                different,
            )
        return records

    def split_labels(self, cell: str) -> tuple[str]:
        return split_number(cell)

    def last_column(self, lines: Sequence[Row]) -> str:
        return "label" if 2 * _count_numbers(lines) >= len(lines) else "text_pair"

    def find_columns(self, names: Sequence, location: str, options: ColumnOptions) -> Columns:
        roles = options.rename(names, location)
        if options.text is not None:  # others are hidden, but for negatives
            known = {"text", "pair", *_NEGATIVES, *_SCORES, *_LABELS}
            roles = [role if role in known else f"column {n}" for n, role in enumerate(roles, 1)]
        if options.label is not None:
            roles = [f"column {n}" if role in _SCORES else role for n, role in enumerate(roles, 1)]
        first = [n for n, role in enumerate(roles) if role in _FIRST]
        second = [n for n, role in enumerate(roles) if role in _SECOND and n not in first]
        if len(first) == 2 and not second and {roles[n] for n in first} in map(set, PAIRS):
            second = [first.pop()]  # question, sentence
        negatives = [n for n, role in enumerate(roles) if role in _NEGATIVES]
        scores = [n for n, role in enumerate(roles) if role in _SCORES]
        label_names = LABELS if any(role in LABELS for role in roles) else _LABELS
        labels = [n for n, role in enumerate(roles) if role in label_names]
        if second and not scores:
            scores, labels = labels, []
        counts = len(first), len(second), len(scores), len(labels)
        if counts == (1, 0, 0, 1) and not negatives:
            return Columns((first[0],), labels[0])
        if counts == (1, 1, 1, 0) and not negatives:
            return Columns((first[0], second[0]), score=scores[0])
        if counts == (1, 1, 0, 0):
            return Columns((first[0], second[0], *negatives))
        raise ValueError(
            f"{location}: expected columns anchor and positive (and negative, or score), or text "
            f"and label, got {', '.join(map(str, names))[:80]}: {WAY_TO_NAME}"
        )

    def find_unnamed(self, lines: Sequence[Row], location: str) -> Columns:
        count = len(lines[0][1])
        if count < 2:
            raise ValueError(f"{location}: {self.expected}, got {count} column")
        if are_row_numbers([cells[0] for _, cells in lines]):
            raise ValueError(
                f"{location}: {self.expected}, got only row numbers in column 1: remove the column"
            )
        texts, numbers = tuple(range(count)), _count_numbers(lines)
        has_commas = all(_DECIMAL_COMMA.fullmatch(cells[-1]) for _, cells in lines)
        ends = [cells[2:] for _, cells in lines if len(cells) == count == 4]
        are_numbers = all(parse_number(cell) is not None for end in ends for cell in end)
        if has_commas or (ends and are_numbers):  # a,b,3,5
            raise ValueError(
                f"{location}: {self.expected}, got only numbers in column {count} of {count}. If "
                "they have decimal commas, write points"
            )
        if count == 3 and 2 * numbers > len(lines):  # among scores, other text is an error
            return Columns(texts[:2], score=2)
        return Columns((0,), 1) if count == 2 and numbers == len(lines) else Columns(texts)

    def name_cells(self, row, location: str) -> tuple[Sequence, list]:
        if not isinstance(row, list) or len(row) < 2:
            return super().name_cells(row, location)
        names = ["anchor", "positive", *["negative"] * (len(row) - 2)]
        if isinstance(row[-1], (int, float)) and len(row) < 4:
            names = ["text", "label"] if len(row) == 2 else ["anchor", "positive", "score"]
        return names, row

    def make_record(
        self, cells, names, columns: Columns, location: str, class_names=None
    ) -> TextRecord:
        texts = tuple(text_of(cells[n], f"column {n + 1}", location) for n in columns.texts)
        if len(texts) > 2 and texts[1] in texts[2:]:
            raise ValueError(
                f"{location}: a negative must differ from the positive, got the same text"
            )
        score = label = None
        if columns.score is not None:
            score = parse_number(cells[columns.score])
            if score is None:
                raise ValueError(
                    f"{location}: the score must be a number, got {cells[columns.score]!r:.60}"
                )
        if columns.label is not None:
            label = label_of(cells[columns.label], f"column {columns.label + 1}", location)
        return TextRecord(texts, score, label, location)

    def check_record(self, record: TextRecord, first: TextRecord, location: str) -> None:
        if (record.kind, len(record.texts)) != (first.kind, len(first.texts)):
            raise ValueError(
                f"{location}: expected {_describe(first)} as before, got {_describe(record)}"
            )

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
        texts = [text for record in records for text in record.texts]
        columns = np.arange(len(texts), dtype=np.int32).reshape(len(records), -1)
        texts = prepare_texts(tokenizer, settings, texts, settings.default_prompt)
        ids, _ = encode_in_portions(texts, None, tokenizer, max_length)
        targets: dict[str, np.ndarray] = {}
        if records[0].score is not None:
            targets["scores"] = np.array([record.score for record in records], np.float32)
        elif records[0].label is not None:
            names = np.array([str(record.label) for record in records], object)
            targets["groups"] = np.unique(names, return_inverse=True)[1].astype(np.int32)
        return TextColumns.from_texts(ids, columns, **targets)

    def scores(self, records, examples: TextColumns, outputs, labels) -> Scores:
        """Return the scores of embeddings, (texts, H); see `score_embeddings`."""
        return score_embeddings(records[0].kind, examples, outputs)

    def evaluate(
        self, bert, records, settings, *, batch_size: int, precision: str | None
    ) -> dict[str, float]:
        """Return the metrics of a model's embeddings, as `kbert.embed` computes them.

        `settings` are a `FinetuningSettings`, of which max_length and dimensions count.
        """
        from kbert.tasks.checks import longest, require_tokenizer
        from kbert.tasks.embedding.inference import embed_ids

        tokenizer = require_tokenizer(bert, "evaluate")
        own = settings_of(bert, "evaluate")
        check_prompt(own)
        limit = longest(bert, settings.max_length or own.max_length)
        examples = self.encode(records, tokenizer, None, limit, own)
        embeddings = embed_ids(bert, examples.ids, batch_size=batch_size, precision=precision)
        kind = records[0].kind
        values = collect_metrics(score_lengths(kind, examples, embeddings, settings.dimensions))
        pairs = pair_cosines(kind, examples, embeddings)
        add_metrics(values, evaluate_metrics(settings.metrics or (), pairs, pairs)[0])
        return values


def check_prompt(settings: SentenceSettings) -> None:
    """Raise a ValueError for a default prompt that is not pooled: only `embed` supports it."""
    if settings.default_prompt and not settings.include_prompt:
        raise ValueError(
            "the task embed needs a checkpoint that pools its default prompt too, got "
            "include_prompt=False"
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


def _count_numbers(lines: Sequence[Row]) -> int:
    return sum(parse_number(cells[-1]) is not None for _, cells in lines)


def _describe(record: TextRecord) -> str:
    if record.kind == KINDS[-1]:
        return f"{len(record.texts)} texts"
    return {"pairs": "2 texts", "scored pairs": "2 texts and a score"}.get(
        record.kind, "a text and a label"
    )


TASK = SentenceEmbeddings()
