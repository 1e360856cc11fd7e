"""An answer as a span of a context, SQuAD 1.1 and 2.0."""

import os
from collections.abc import Sequence

import numpy as np

from kbert.data.buckets import Examples
from kbert.data.squad import Question, best_answers, encode_squad, read_squad
from kbert.names import SPAN_END, SPAN_START


class Answering:
    """See `kbert.training.tasks.Task`."""

    name, head, score = "qa", "qa", "f1"

    def read(self, path: str | os.PathLike) -> list[Question]:
        return read_squad(path)

    def labels(self, records: Sequence[Question]) -> None:
        return None

    def encode(self, records, tokenizer, labels, *, max_length: int, training: bool) -> Examples:
        return encode_squad(records, tokenizer, max_length)

    def metrics(self, records, examples: Examples, outputs, labels) -> dict[str, float]:
        """exact_match and f1, SQuAD's; where a question has no answer, none is one: SQuAD 2.0."""
        from kbert.training.metrics import answer_scores

        found = best_answers(
            records,
            examples.notes,
            outputs[SPAN_START],
            outputs[SPAN_END],
            may_be_none=not all(record.answers for record in records),
        )
        scores = [
            answer_scores([text for text, _ in record.answers], span.text)
            for record, span in zip(records, found, strict=True)
        ]
        exact, f1 = np.mean(scores, axis=0)
        return {"exact_match": float(exact), "f1": float(f1)}


TASK = Answering()
