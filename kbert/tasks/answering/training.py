"""An answer as a span of a context, SQuAD 1.1 and 2.0."""

from kbert.data.labelled.length_buckets import Examples
from kbert.graph.names import SPAN_END, SPAN_START
from kbert.tasks.answering.squad import (
    encode_squad,
    find_best_answers,
    read_squad,
    take_questions,
)
from kbert.tasks.finetuning.task import Task
from kbert.tasks.intervals import Scores


class Answering(Task):
    """See `kbert.tasks.finetuning.task.Task`."""

    name, head, score = "qa", "qa", "f1"
    title = "question answering"

    read = staticmethod(read_squad)
    take = staticmethod(take_questions)

    def encode(self, records, tokenizer, labels, *, max_length: int) -> Examples:
        return encode_squad(records, tokenizer, max_length)

    def scores(self, records, examples: Examples, outputs, labels) -> Scores:
        """exact_match and f1, SQuAD's; where a question has no answer, SQuAD 2.0's metrics too."""
        from kbert.tasks import metrics

        logits = outputs[SPAN_START], outputs[SPAN_END]
        spans = find_best_answers(records, examples.notes, *logits)
        answers = [[text for text, _ in record.answers] for record in records]
        odds = None if all(answers) else [span.odds for span in spans]
        compared = metrics.compare_answers(answers, [span.text for span in spans], odds)
        return Scores(compared, metrics.compute_squad)


TASK = Answering()
