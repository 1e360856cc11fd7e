"""How good sentence vectors are: Spearman with scores, recall of what belongs together."""

import functools
import logging
from collections.abc import Callable, Sequence

import numpy as np

from kbert.data.labelled.text_columns import TextColumns
from kbert.data.padding import batches_by_length, fitting_lengths, padded_length
from kbert.graph.names import SEGMENT_IDS, TOKEN_IDS
from kbert.tasks import metrics

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
        dimensions: lengths of cut vectors that have figures of their own; None: none.
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

    def __len__(self) -> int:
        return len(self._examples)

    def __call__(self, predict: Callable, outputs: Sequence[str] = ()) -> dict[str, float]:
        """The figures of `figures_of`, of cut vectors with the dimension behind their names.

        Args:
            predict: gives [vectors], (B, H), for inputs by name.
            outputs: of no use here.
        """
        vectors = self._vectors(predict)
        found = figures_of(self._kind, self._examples, vectors)
        for dimension in self._dimensions:
            if dimension < vectors.shape[1]:
                cut = figures_of(self._kind, self._examples, vectors[:, :dimension])
                found |= {f"{name}_{dimension}": value for name, value in cut.items()}
        return found

    def _vectors(self, predict: Callable) -> np.ndarray:
        """Of all different texts, float32 (texts, H)."""
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


def figures_of(kind: str, examples: TextColumns, vectors: np.ndarray) -> dict[str, float]:
    """How good vectors are, by cosine.

    Args:
        kind: of the records.
        examples: with the places of their texts.
        vectors: float (texts, H).

    Returns:
        Of scored pairs spearman and pearson with the scores; of pairs and triplets `of_retrieval`,
        first texts being looked for among all that stand in the other columns, of triplets accuracy
        too, the share whose positive is nearer than every negative; of labelled sentences
        recall@k, the share that has one of its label among the k nearest others.
    """
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    columns = examples.columns
    if kind == "scored pairs":
        return _of_scores(examples.scores, np.sum(unit[columns[:, 0]] * unit[columns[:, 1]], 1))
    if kind == "labelled sentences":
        return _of_labels(unit[columns[:, 0]], examples.groups)
    found = {}
    if kind == "triplets":
        near = np.einsum("nh,nch->nc", unit[columns[:, 0]], unit[columns[:, 1:]])
        found["accuracy"] = float(np.mean((near[:, :1] > near[:, 1:]).all(1)))
    return found | of_retrieval(unit, columns)


def _of_scores(scores: np.ndarray, cosines: np.ndarray) -> dict[str, float]:
    for name, row in (("scores", scores), ("predictions", cosines)):
        if np.ptp(row) == 0:
            _logger.warning(
                "all %d %s are %g: no correlation is defined, 0 is said", len(row), name, row[0]
            )
    return {
        "spearman": metrics.spearman(scores, cosines),
        "pearson": metrics.pearson(scores, cosines),
    }


def of_retrieval(unit: np.ndarray, columns: np.ndarray) -> dict[str, float]:
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
    queries, most = list(right), min(NEAREST[-1], len(corpus))
    shares = {k: 0.0 for k in NEAREST}
    ranks = 0.0
    for start in range(0, len(queries), _AT_ONCE):
        part = queries[start : start + _AT_ONCE]
        scores = unit[part] @ unit[corpus].T
        for row, query in enumerate(part):
            if query not in right[query]:
                scores[row, corpus == query] = -np.inf
        nearest = corpus[_best(scores, most)]
        for query, row in zip(part, nearest.tolist(), strict=True):
            hits = [place in right[query] for place in row]
            for k in NEAREST:
                shares[k] += sum(hits[:k]) / len(right[query])
            ranks += 1 / (hits.index(True) + 1) if any(hits) else 0.0
    found = {f"recall@{k}": share / len(queries) for k, share in shares.items()}
    return found | {"mrr@10": ranks / len(queries)}


def _of_labels(unit: np.ndarray, groups: np.ndarray) -> dict[str, float]:
    most, found = min(NEAREST[-1], len(unit) - 1), []
    for start in range(0, len(unit), _AT_ONCE):
        part = np.arange(start, min(start + _AT_ONCE, len(unit)))
        scores = unit[part] @ unit.T
        scores[np.arange(len(part)), part] = -np.inf  # itself
        found.append(groups[_best(scores, most)] == groups[part, None])
    hits = np.concatenate(found)
    return {f"recall@{k}": float(hits[:, :k].any(1).mean()) for k in NEAREST}


def _best(scores: np.ndarray, count: int) -> np.ndarray:
    """The places of each row's highest scores, the highest first; of equal ones the first."""
    return np.argsort(-scores, axis=1, kind="stable")[:, :count]
