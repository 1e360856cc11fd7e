"""Metrics of sentence embeddings: Spearman with scores, recall of matching texts."""

import functools
import logging
from collections.abc import Callable, Sequence

import numpy as np

from kbert.data.labelled.text_columns import TextColumns
from kbert.data.padding import batches_by_length, fitting_lengths, padded_length
from kbert.graph.names import SEGMENT_IDS, TOKEN_IDS
from kbert.tasks import metrics
from kbert.tasks.intervals import Scores

_logger = logging.getLogger("kbert")
NEAREST = (1, 5, 10)  # k of recall@k
_AT_ONCE = 256  # queries that are compared with everything at a time
SCORES = {  # by kind of records, which figure says what is best
    "scored pairs": "spearman",
    "triplets": "accuracy",
    "pairs": "recall@1",
    "labelled sentences": "recall@1",
}


class VectorEvaluation:
    """Records, and how good vectors of their texts are.

    Args:
        kind: of `kbert.tasks.embedding.reading.KINDS`.
        examples: the records' texts, encoded.
        batch_size: texts that are computed at a time.
        pad_id: the padding token.
        lengths: that batches may have, ascending.
        dimensions: lengths of cut vectors that have metrics of their own; None: none.
    """

    def __init__(
        self,
        kind: str,
        examples: TextColumns,
        batch_size: int,
        pad_id: int,
        lengths: Sequence[int],
        dimensions: Sequence[int] | None = None,
    ):
        self._kind, self._examples = kind, examples
        self._batch_size, self._pad_id = batch_size, pad_id
        self._lengths = fitting_lengths(lengths, max(map(len, examples.texts)))
        self._dimensions = dimensions or ()
        self.scores: dict[str, Scores] = {}

    def __len__(self) -> int:
        return len(self._examples)

    def __call__(self, predict: Callable, outputs: Sequence[str] = ()) -> dict[str, float]:
        """Return the metrics of `scores_of`, of cut vectors with the dimension behind their names.

        Args:
            predict: gives [vectors], (B, H), for inputs by name.
            outputs: of no use here.
        """
        vectors = self._vectors(predict)
        cut = {f"_{dimension}": dimension for dimension in self._dimensions}
        self.scores = {
            suffix: scores_of(self._kind, self._examples, vectors[:, :dimension])
            for suffix, dimension in {"": vectors.shape[1], **cut}.items()
            if not suffix or dimension < vectors.shape[1]
        }
        return {
            name + suffix: value
            for suffix, scores in self.scores.items()
            for name, value in scores.metrics().items()
        }

    def _vectors(self, predict: Callable) -> np.ndarray:
        """Compute the embeddings of all distinct texts, float32 (texts, H)."""
        texts = self._examples.texts
        found: list = [None] * len(texts)
        batches = batches_by_length(
            [(text, ()) for text in texts],
            self._batch_size,
            pad_id=self._pad_id,
            length_for=functools.partial(padded_length, self._lengths),
            count_for=lambda count: self._batch_size,  # one shape
        )
        for places, token_ids, segment_ids in batches:
            (vectors,) = predict({TOKEN_IDS: token_ids, SEGMENT_IDS: segment_ids})
            for place, vector in zip(places, vectors, strict=False):
                found[place] = vector
        return np.stack(found)


def scores_of(kind: str, examples: TextColumns, vectors: np.ndarray) -> Scores:
    """Return how good vectors are, by cosine: per pair, per query or per sentence.

    Args:
        kind: of the records.
        examples: with the places of their texts.
        vectors: float (texts, H).

    Returns:
        The metrics: of scored pairs spearman and pearson with the scores; of pairs and triplets
        those of `retrieval_scores`, first texts being looked for among all that stand in the other
        columns, of triplets accuracy too, the share whose positive is nearer than every negative;
        of labelled sentences recall@k, the share that has one of its label among the k nearest.
    """
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    columns = examples.columns
    if kind == "scored pairs":
        return _of_scores(examples.scores, np.sum(unit[columns[:, 0]] * unit[columns[:, 1]], 1))
    if kind == "labelled sentences":
        return _of_labels(unit[columns[:, 0]], examples.groups)
    found = retrieval_scores(unit, columns)
    if kind == "pairs":
        return found
    near = np.einsum("nh,nch->nc", unit[columns[:, 0]], unit[columns[:, 1:]])
    right = (near[:, :1] > near[:, 1:]).all(1)
    queries = np.unique(columns[:, 0], return_inverse=True)[1]

    def compute(right, triplets, *others):
        return {"accuracy": float(right.sum() / triplets.sum())} | found.compute(*others)

    return Scores((np.bincount(queries, right), np.bincount(queries), *found.columns), compute)


def _of_scores(scores: np.ndarray, cosines: np.ndarray) -> Scores:
    for name, row in (("scores", scores), ("predictions", cosines)):
        if np.ptp(row) == 0:
            _logger.warning(
                "all %d %s are %g: the correlation is undefined, 0 is returned",
                len(row),
                name,
                row[0],
            )

    def compute(scores, cosines):
        return {
            "spearman": metrics.spearman(scores, cosines),
            "pearson": metrics.pearson(scores, cosines),
        }

    return Scores((scores, cosines), compute)


def retrieval_scores(unit: np.ndarray, columns: np.ndarray) -> Scores:
    """recall@k, the mean share of a query's right texts among its k nearest; mrr@10.

    Neighbours are the true ones: every query is compared with every text but itself. mrr@10 is the
    mean of 1 over the place of the first right one, 0 where none is among the first ten. As
    InformationRetrievalEvaluator of sentence-transformers, which leaves a query that is among the
    texts there.

    Args:
        unit: float (texts, H), of length 1.
        columns: int (N, C): places of queries, of what is right for each, and of others.
    """
    corpus = np.unique(columns[:, 1:])
    right: dict[int, set[int]] = {}
    for query, found in columns[:, :2].tolist():
        right.setdefault(query, set()).add(found)
    queries, most = sorted(right), min(NEAREST[-1], len(corpus))
    per_query = []  # recall@k for each k, and 1 / the place of the first right one
    for start in range(0, len(queries), _AT_ONCE):
        part = queries[start : start + _AT_ONCE]
        scores = unit[part] @ unit[corpus].T
        for row, query in enumerate(part):
            if query not in right[query]:
                scores[row, corpus == query] = -np.inf
        nearest = corpus[_best(scores, most)]
        for query, row in zip(part, nearest.tolist(), strict=True):
            hits = [place in right[query] for place in row]
            recall = [sum(hits[:k]) / len(right[query]) for k in NEAREST]
            per_query.append([*recall, 1 / (hits.index(True) + 1) if any(hits) else 0.0])
    return Scores((np.array(per_query),), _mean)


def _mean(per_query: np.ndarray) -> dict[str, float]:
    """recall@k, and mrr@10 where there is a column for it."""
    names = [*(f"recall@{k}" for k in NEAREST), "mrr@10"]
    return dict(zip(names, per_query.mean(0).tolist(), strict=False))


def _of_labels(unit: np.ndarray, groups: np.ndarray) -> Scores:
    most, found = min(NEAREST[-1], len(unit) - 1), []
    for start in range(0, len(unit), _AT_ONCE):
        part = np.arange(start, min(start + _AT_ONCE, len(unit)))
        scores = unit[part] @ unit.T
        scores[np.arange(len(part)), part] = -np.inf  # itself
        found.append(groups[_best(scores, most)] == groups[part, None])
    hits = np.concatenate(found)
    return Scores((np.stack([hits[:, :k].any(1) for k in NEAREST], 1),), _mean)


def _best(scores: np.ndarray, count: int) -> np.ndarray:
    """Return the places of each row's highest scores, the highest first.

    Ties are in the order of their places.
    """
    return np.argsort(-scores, axis=1, kind="stable")[:, :count]
