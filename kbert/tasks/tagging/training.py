"""A label for each word: names, parts of speech."""

from collections.abc import Sequence

import numpy as np

from kbert.data.labelled.length_buckets import Examples
from kbert.graph.names import TOKEN_CLASSIFIER
from kbert.tasks.finetuning.task import Task
from kbert.tasks.intervals import Scores
from kbert.tasks.tagging.reading import (
    Sentence,
    check_tags,
    encode_tagged,
    list_tags,
    read_tagged,
    take_tagged,
)
from kbert.tasks.tagging.windows import find_punctuation


class Tagging(Task):
    """See `kbert.tasks.finetuning.task.Task`."""

    name, head, score = "tag", "tokens", "f1"
    title, has_classes = "a tagger", True

    read = staticmethod(read_tagged)
    take = staticmethod(take_tagged)
    labels = staticmethod(list_tags)
    check_labels = staticmethod(check_tags)
    encode = staticmethod(encode_tagged)

    def split_punctuation(self, records: Sequence[Sentence], tokenizer) -> str | None:
        """Return the records' rule for splitting texts into words; see `find_punctuation`."""
        return find_punctuation((word for one in records for word in one.words), tokenizer)

    def scores(self, records, examples: Examples, outputs, labels) -> Scores:
        """accuracy of words; precision, recall, f1: of entities as seqeval's, else macro F1.

        A word that the tokenizer drops counts as O, or as the first label where there is none.
        """
        from kbert.tasks import metrics

        outside = "O" if "O" in labels else labels[0]
        predicted = [[outside] * len(record.words) for record in records]
        for note, logits in zip(examples.notes, outputs[TOKEN_CLASSIFIER], strict=True):
            for word, token in zip(note.words, note.tokens, strict=True):
                predicted[note.record][word] = labels[int(logits[token].argmax())]
        gold = [list(record.labels) for record in records]
        numbers = {label: number for number, label in enumerate(labels)}
        columns = [
            np.fromiter(
                (np.array([numbers[label] for label in sentence]) for sentence in sentences),
                object,
                len(sentences),
            )
            for sentences in (gold, predicted)
        ]
        if metrics.are_entity_labels(labels):
            columns.append(metrics.count_entities(gold, predicted))
        return Scores(tuple(columns), _compute)


def _compute(gold: np.ndarray, predicted: np.ndarray, entities: np.ndarray | None = None) -> dict:
    """Return the metrics of sentences, whose words' labels are numbers."""
    from kbert.tasks import metrics

    gold, predicted = np.concatenate(gold), np.concatenate(predicted)
    accuracy = {"accuracy": metrics.accuracy(gold, predicted)}
    if entities is None:
        return accuracy | {"f1": metrics.macro_f1(gold, predicted)}
    return accuracy | metrics.entity_scores(entities)


TASK = Tagging()
