"""A label for each word: names, parts of speech."""

import functools
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from kbert.data.labelled.cells import number_label
from kbert.data.labelled.data_warnings import list_labels
from kbert.data.labelled.length_buckets import IGNORED, Examples
from kbert.data.labelled.table_reading import read_table
from kbert.graph.names import TOKEN_CLASSIFIER
from kbert.io.wording import first_few
from kbert.tasks.common import metrics
from kbert.tasks.common.intervals import Scores
from kbert.tasks.finetuning.data_summary import describe_one_class
from kbert.tasks.finetuning.dev_predictions import find_majority
from kbert.tasks.finetuning.task import Task
from kbert.tasks.tagging.predictions import describe_tags
from kbert.tasks.tagging.reading import SENTENCES, Sentence
from kbert.tasks.tagging.schemes import OUTSIDE, find_scheme
from kbert.tasks.tagging.windows import find_punctuation, join_spans, split_windows
from kbert.training.run.predictions import Baseline, Predictions


class Tagging(Task):
    """Sentences: CoNLL, or rows of two lists, words (tokens) and labels (tags, ner_tags, …)."""

    name, head, score = "tag", "tokens", "f1"
    title, has_classes = "a tagger", True
    read = staticmethod(functools.partial(read_table, SENTENCES))

    def labels(self, records: Sequence[Sentence]) -> tuple[str, ...]:
        """Return the labels, sorted, or as a `datasets.ClassLabel` has them; two or more."""
        every = list(_iterate_labels(records))
        labels = list_labels(every, records[0].locations[0], "words")
        class_names = getattr(records, "labels", None) or ()
        if labels <= set(class_names):
            return tuple(class_names)
        return tuple(sorted(labels))

    def check_labels(self, records: Sequence[Sentence], labels: Sequence[str]) -> None:
        numbers = _number_labels(labels)
        for sentence in records:
            for label, location in zip(sentence.labels, sentence.locations, strict=True):
                number_label(label, numbers, location)

    def encode(
        self, records: Sequence[Sentence], tokenizer, labels: Sequence[str], max_length: int
    ) -> Examples:
        """Encode sentences: the label is at each word's first token, else IGNORED.

        A sentence that is too long becomes several windows that overlap by half; see
        `split_windows`. The notes are the windows.
        """
        if max_length < 3:
            raise ValueError(
                f"max_length must be at least 3 ([CLS], a token, [SEP]), got {max_length}"
            )
        self.check_labels(records, labels)
        numbers = _number_labels(labels)
        texts = [" ".join(sentence.words) for sentence in records]
        encodings = tokenizer.encode_batch(texts, add_special_tokens=False)

        ids, targets, notes = [], [], []
        for record, (sentence, encoding) in enumerate(zip(records, encodings, strict=True)):
            spans = join_spans(sentence.words)
            for window in split_windows(tokenizer, encoding, spans, max_length):
                target = [IGNORED] * len(window.ids)
                for word, token in zip(window.words, window.tokens, strict=True):
                    target[token] = numbers[sentence.labels[word]]
                ids.append(window.ids)
                targets.append(target)
                notes.append(window._replace(record=record))

        segments = [[0] * len(tokens) for tokens in ids]
        return Examples(ids, segments, {TOKEN_CLASSIFIER: targets}, notes)

    def split_punctuation(self, records: Sequence[Sentence], tokenizer) -> str | None:
        """Return the records' rule for splitting texts into words; see `find_punctuation`."""
        words = itertools.chain.from_iterable(sentence.words for sentence in records)
        return find_punctuation(words, tokenizer)

    def scores(self, records, examples: Examples, outputs, labels) -> Scores:
        """accuracy of words; precision, recall and f1 of entities as seqeval's, else macro_f1.

        A word that the tokenizer drops counts as O, or as the first label where there is none.
        """
        gold, predicted = self.pair_predictions(records, examples, outputs, labels)
        columns = [_number_sentences(gold, labels), _number_sentences(predicted, labels)]
        scheme = find_scheme(labels)
        if scheme is not None:
            entities = metrics.count_entities(scheme.read(gold), scheme.read(predicted))
            columns.append(entities)

        warning = describe_one_class(
            list(itertools.chain.from_iterable(gold)),
            list(itertools.chain.from_iterable(predicted)),
            "words",
        )
        return Scores(tuple(columns), _compute, warning=warning)

    def pair_predictions(self, records, examples, outputs, labels) -> tuple[list, list]:
        """Return the labels of each sentence's words, and the predicted ones."""
        outside = OUTSIDE if OUTSIDE in labels else labels[0]
        gold = [list(record.labels) for record in records]
        predicted = [[outside] * len(record.words) for record in records]
        for window, logits in zip(examples.notes, outputs[TOKEN_CLASSIFIER], strict=True):
            sentence = predicted[window.record]
            for word, token in zip(window.words, window.tokens, strict=True):
                number = int(logits[token].argmax())
                sentence[word] = labels[number]
        return gold, predicted

    def find_baseline(self, train: Sequence[Sentence], dev: Sequence[Sentence]) -> Baseline:
        return find_majority(list(_iterate_labels(train)), list(_iterate_labels(dev)), "label")

    def describe_predictions(self, records, examples, outputs, labels) -> Predictions:
        _, predicted = self.pair_predictions(records, examples, outputs, labels)
        return describe_tags(records, examples, outputs[TOKEN_CLASSIFIER], predicted, labels)

    def choose_score(self, labels: Sequence[str] | None) -> str:
        """Return "f1" where the labels are tags of entities, else "macro_f1"."""
        return "f1" if find_scheme(labels or ()) else "macro_f1"

    def describe_metrics(self, labels: Sequence[str] | None) -> str:
        scheme = find_scheme(labels or ())
        if scheme is None:
            return "the labels are no tags of entities: macro_f1 is the mean F1 of the labels"

        types = f" ({first_few(scheme.types, 12)})" if any(scheme.types) else ""
        text = f"f1 is that of entities{types}, as seqeval's"
        if scheme.odd:
            text += f"; labels that are no tags of entities count as O: {first_few(scheme.odd)}"
        return text

    def count_labels(self, records: Sequence[Sentence]) -> dict[str, Any]:
        counts = Counter(_iterate_labels(records))
        facts = {"words": counts.total(), "labels": counts}
        scheme = find_scheme(counts)
        if scheme is not None and any(scheme.types):
            facts["entity_types"] = list(scheme.types)
        return facts


def _iterate_labels(records: Iterable[Sentence]) -> Iterator[str]:
    """Yield the label of each word."""
    for sentence in records:
        yield from sentence.labels


def _number_labels(labels: Sequence[str]) -> dict[str, int]:
    return {label: number for number, label in enumerate(labels)}


def _number_sentences(sentences: Sequence[Sequence[str]], labels: Sequence[str]) -> np.ndarray:
    """Return the numbers of the labels of each sentence: (sentences,) of int (words,)."""
    numbers = _number_labels(labels)
    column = np.empty(len(sentences), object)
    for row, sentence in enumerate(sentences):
        column[row] = np.array([numbers[label] for label in sentence])
    return column


def _compute(gold: np.ndarray, predicted: np.ndarray, entities: np.ndarray | None = None) -> dict:
    """Return the metrics of sentences, whose words' labels are numbers."""
    gold, predicted = np.concatenate(gold), np.concatenate(predicted)
    accuracy = {"accuracy": metrics.accuracy(gold, predicted)}
    if entities is None:
        return accuracy | {"macro_f1": metrics.macro_f1(gold, predicted)}
    return accuracy | metrics.entity_scores(entities)


TASK = Tagging()
