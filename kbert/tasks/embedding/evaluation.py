"""Metrics of sentence embeddings: Spearman with scores, recall of matching texts."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kbert.data.labelled.text_columns import TextColumns
from kbert.tasks.common import metrics
from kbert.tasks.common.intervals import Scores
from kbert.tasks.embedding.predictions import describe_similarities
from kbert.tasks.finetuning.evaluate import Evaluation, EvaluationResult
from kbert.tasks.finetuning.user_metrics import Pairs
from kbert.training.run.predictions import Predictions

NEAREST = (1, 5, 10)  # k of recall@k
_AT_ONCE = 256  # queries that are compared with everything at a time
SCORES = {  # by kind of records, the metric that chooses the best weights
    "scored pairs": "spearman",
    "triplets": "accuracy",
    "pairs": "recall@1",
    "labelled sentences": "recall@1",
}


@dataclass(eq=False, kw_only=True)
class EmbeddingEvaluation(Evaluation):
    """Evaluation of the embeddings of records' texts, whose `examples` are `TextColumns`.

    Attributes:
        kind: one of `kbert.tasks.embedding.tables.KINDS`.
        records: the data as read.
        dimensions: lengths of truncated embeddings that have metrics of their own; None: none.
    """

    kind: str
    records: Sequence = ()
    dimensions: Sequence[int] | None = None

    def __call__(self, predict: Callable, outputs: Sequence[str] = ()) -> EvaluationResult:
        """Return the metrics of `score_embeddings`; those of truncated embeddings have a suffix."""
        sequences = self.predict_sequences(predict)
        embeddings = np.stack([embedding for (embedding,) in sequences])  # (texts, H)
        scores = score_lengths(self.kind, self.examples, embeddings, self.dimensions)
        pairs = pair_cosines(self.kind, self.examples, embeddings)

        def describe() -> Predictions | None:
            unit = _scale_to_one(embeddings)
            return describe_similarities(self.kind, self.records, self.examples, unit)

        metrics = collect_metrics(scores)
        return self.measure_user_metrics(metrics, scores, pairs, pairs, describe)


def pair_cosines(kind: str, examples: TextColumns, embeddings: np.ndarray) -> Pairs | None:
    """Return the scores of pairs of texts and the cosines of their embeddings, (N,) each.

    None: the records have no scores.
    """
    if kind != "scored pairs":
        return None
    unit = _scale_to_one(embeddings)
    first, second = examples.columns.T
    cosines = np.sum(unit[first] * unit[second], 1)
    return examples.scores, cosines


def _scale_to_one(embeddings: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(embeddings, axis=1, keepdims=True)
    return embeddings / np.maximum(lengths, 1e-12)


def score_lengths(
    kind: str, examples: TextColumns, embeddings: np.ndarray, dimensions: Sequence[int] | None
) -> dict[str, Scores]:
    """Return the scores of whole embeddings, "", and of those cut to dimensions, "_64"."""
    width = embeddings.shape[1]
    scores = {"": score_embeddings(kind, examples, embeddings)}
    for size in dimensions or ():
        if size < width:
            scores[f"_{size}"] = score_embeddings(kind, examples, embeddings[:, :size])
    return scores


def collect_metrics(scores: Mapping[str, Scores]) -> dict[str, float]:
    """Return the metrics of scores by suffix, by name and suffix."""
    metrics_by_name = {}
    for suffix, length_scores in scores.items():
        for name, value in length_scores.metrics().items():
            metrics_by_name[name + suffix] = value
    return metrics_by_name


def score_embeddings(kind: str, examples: TextColumns, embeddings: np.ndarray) -> Scores:
    """Return the scores of embeddings (texts, H), by cosine: per pair, query or sentence.

    The metrics of scored pairs are spearman and pearson. Pairs and triplets have those of
    `score_retrieval`: the first text searches all texts of the other columns; triplets also have
    accuracy, the fraction with the positive nearer than every negative. Labelled sentences have
    recall@k, the fraction with a sentence of the same label among the k nearest.
    """
    unit = _scale_to_one(embeddings)
    columns = examples.columns
    if kind == "scored pairs":
        first, second = columns.T
        cosines = np.sum(unit[first] * unit[second], 1)
        return _score_cosines(examples.scores, cosines)
    if kind == "labelled sentences":
        return _score_neighbours(unit[columns[:, 0]], examples.groups)
    if kind == "pairs":
        return score_retrieval(unit, columns)
    return _score_triplets(unit, columns)


def _score_cosines(scores: np.ndarray, cosines: np.ndarray) -> Scores:
    """Return spearman and pearson of the scores of pairs and of their cosines, (N,) each."""

    def compute(scores, cosines):
        return {
            "spearman": metrics.spearman(scores, cosines),
            "pearson": metrics.pearson(scores, cosines),
        }

    metrics.warn_of_constant(scores=scores, predictions=cosines)
    return Scores((scores, cosines), compute)


def _score_neighbours(sentences: np.ndarray, groups: np.ndarray) -> Scores:
    """Return recall@k of sentences, float (N, H), whose labels are numbers, int (N,)."""
    everything = np.arange(len(sentences))
    nearest = _find_nearest(sentences, everything, everything)
    neighbours = nearest[:, : len(everything) - 1]  # the last is the sentence itself

    hits = groups[neighbours] == groups[:, None]
    recall = [hits[:, :k].any(1) for k in NEAREST]
    return Scores((np.stack(recall, 1),), _average)


def _score_triplets(unit: np.ndarray, columns: np.ndarray) -> Scores:
    """Return the metrics of `score_retrieval`, and accuracy; its counts are per query."""
    retrieval = score_retrieval(unit, columns)
    query_texts = columns[:, 0]
    other_texts = columns[:, 1:]
    cosines = np.einsum("nh,nch->nc", unit[query_texts], unit[other_texts])
    correct = cosines[:, :1]
    wrong = cosines[:, 1:]
    is_correct = (correct > wrong).all(1)

    _, queries = np.unique(query_texts, return_inverse=True)
    correct_per_query = np.bincount(queries, is_correct)
    triplets_per_query = np.bincount(queries)

    def compute(correct, triplets, *per_query):
        accuracy = float(correct.sum() / triplets.sum())
        return {"accuracy": accuracy} | retrieval.compute(*per_query)

    return Scores((correct_per_query, triplets_per_query, *retrieval.columns), compute)


def score_retrieval(unit: np.ndarray, columns: np.ndarray) -> Scores:
    """Return recall@k, the mean fraction of a query's correct texts among its k nearest; mrr@10.

    The neighbours are exact: every query is compared with every text but itself. mrr@10 is the mean
    of 1 / the rank of the first correct text, 0 if none is among the first ten. As
    InformationRetrievalEvaluator of sentence-transformers, which keeps a query that is among the
    texts there. `unit` are embeddings, float (texts, H), of length 1; `columns`, int (N, C), the
    indices of queries, of the correct text of each, and of others.
    """
    correct: dict[int, set[int]] = {}
    for query, text in columns[:, :2].tolist():
        correct.setdefault(query, set()).add(text)
    queries = sorted(correct)
    self_matches = {query for query in queries if query in correct[query]}

    texts = np.unique(columns[:, 1:])
    nearest = _find_nearest(unit, queries, texts, self_matches)
    per_query = []  # recall@k for each k, and 1 / the rank of the first correct one
    for query, neighbours in zip(queries, nearest.tolist(), strict=True):
        correct_texts = correct[query]
        hits = [text in correct_texts for text in neighbours]
        recall = [sum(hits[:k]) / len(correct_texts) for k in NEAREST]

        reciprocal_rank = 0.0
        if any(hits):
            rank = hits.index(True) + 1
            reciprocal_rank = 1 / rank
        per_query.append([*recall, reciprocal_rank])
    return Scores((np.array(per_query),), _average)


def _average(per_query: np.ndarray) -> dict[str, float]:
    """Return recall@k, and mrr@10 if there is a column for it."""
    names = [*(f"recall@{k}" for k in NEAREST), "mrr@10"]
    means = per_query.mean(0).tolist()
    return dict(zip(names, means, strict=False))


def _find_nearest(
    unit: np.ndarray, queries, corpus: np.ndarray, self_matches: Collection[int] = ()
) -> np.ndarray:
    """Return the nearest texts of the corpus to each query, int (queries, k); ties in order.

    A query itself is last, unless it is one of `self_matches`.
    """
    texts = unit[corpus]
    nearest = []
    for start in range(0, len(queries), _AT_ONCE):
        chunk = queries[start : start + _AT_ONCE]
        scores = unit[chunk] @ texts.T
        for row, query in enumerate(chunk):
            if query not in self_matches:
                scores[row, corpus == query] = -np.inf

        order = np.argsort(-scores, axis=1, kind="stable")
        nearest.append(corpus[order[:, : NEAREST[-1]]])
    return np.concatenate(nearest)
