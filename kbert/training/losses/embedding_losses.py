"""Losses of text embeddings, over all records of a batch.

A record has several texts, its columns: a text, one that is like it, and others that are not. Each
formula is sentence-transformers': losses and gradients are equal to its classes'.

Embeddings are float32 (B, C, H): B records, C texts of a record, H the size of an embedding.
Labels of infonce and triplet are int32 (B, C), a number of each text: none is a negative of one
with its number. Of cosine and cosent they are scores of pairs, float32 (B,). The second sum is of
records that are right, of cosent of pairs of pairs, of cosine of absolute errors.
"""

from keras import ops

from kbert.training.losses.loss import weighted_sums

MASKED = -1e9  # a float32 logit whose probability is 0
_EPSILON = 1e-24  # of a squared length, whose root has a gradient


def infonce(embeddings, numbers, weights, scale: float):
    """Each record's first text chooses its second one from all others' second and further texts.

    Cross-entropy over scale × cosine (van den Oord et al. 2018, arXiv 1807.03748, eq. 4;
    MultipleNegativesRankingLoss). With the first text aᵢ of a record, its second pᵢ, and the
    candidates c, which are all records' second and further texts:

        lossᵢ = log Σ exp(scale · cos(aᵢ, c)) − scale · cos(aᵢ, pᵢ)

    Left out as negatives: texts with the number of the record's first or second text; second texts
    of records with the same first; records that weigh nothing.
    """
    unit = scale_to_unit(embeddings)
    anchors = unit[:, 0]
    texts = unit[:, 1:]
    positives = texts[:, 0]
    # all records' second texts, then all their third ones, and so on
    width = embeddings.shape[2]
    by_column = ops.transpose(texts, (1, 0, 2))
    candidates = ops.reshape(by_column, (-1, width))
    scores = scale * ops.matmul(anchors, ops.transpose(candidates))  # (B, (C − 1) B)

    num_further = embeddings.shape[1] - 2  # texts after the second
    ones = ops.ones_like(numbers[:, 0])
    records = ops.cumsum(ones)  # 1 … B
    left_out = _find_left_out(records, numbers, weights, num_further)
    scores = ops.where(left_out, MASKED, scores)

    positive_scores = scale * ops.sum(anchors * positives, -1)
    losses = ops.logsumexp(scores, axis=-1) - positive_scores
    chosen = ops.argmax(scores, axis=-1)
    chosen = ops.cast(chosen, "int32")
    hits = ops.equal(chosen, records - 1)
    return weighted_sums(weights, losses, hits)


def _find_left_out(records, numbers, weights, num_further: int):
    """Return which candidates are no negatives of a record, nor its second text: (B, (C − 1) B)."""
    second_texts = _list_candidates(records, num_further, 0)
    anchors = ops.expand_dims(records, 1)
    is_positive = ops.equal(anchors, second_texts)

    first = numbers[:, :1]
    second = numbers[:, 1:2]
    by_column = ops.transpose(numbers[:, 1:])
    candidates = ops.reshape(by_column, (1, -1))
    is_first = ops.equal(candidates, first)
    is_second = ops.equal(candidates, second)
    is_alike = ops.logical_or(is_first, is_second)
    first_of_candidate = _list_candidates(numbers[:, 0], num_further, -1)
    has_same_first = ops.equal(first_of_candidate, first)

    candidate_weights = ops.concatenate([weights] * (1 + num_further))
    is_empty = ops.equal(ops.expand_dims(candidate_weights, 0), 0.0)
    is_no_negative = ops.logical_or(is_alike, has_same_first)
    is_no_negative = ops.logical_or(is_no_negative, is_empty)
    return ops.logical_and(is_no_negative, ops.logical_not(is_positive))


def _list_candidates(of_second_texts, num_further: int, fill: int):
    """Return a value of each candidate, (1, (C − 1) B): of records' second texts, else `fill`."""
    further = [ops.full_like(of_second_texts, fill)] * num_further
    joined = ops.concatenate([of_second_texts, *further])
    return ops.expand_dims(joined, 0)


def triplet(embeddings, numbers, weights, margin: float):
    """Compute the triplet loss, max(0, |a − p| − |a − n| + margin), with Euclidean distances.

    Schroff et al. 2015, arXiv 1503.03832, eq. 2; not squared, as in TripletLoss.
    """
    anchors = embeddings[:, 0]
    near = _length(anchors - embeddings[:, 1])
    far = _length(anchors - embeddings[:, 2])
    losses = ops.relu(near - far + margin)
    return weighted_sums(weights, losses, near < far)


def cosine(embeddings, scores, weights):
    """Return the squared error of cosines.

    Reimers and Gurevych 2019, arXiv 1908.10084, section 3; CosineSimilarityLoss.
    """
    errors = _cosines(embeddings) - scores
    squares = ops.square(errors)
    return weighted_sums(weights, squares, ops.abs(errors))


def cosent(embeddings, scores, weights, scale: float):
    """log(1 + Σ exp(scale · (cos_j − cos_i))) over all i, j where pair i has the higher score.

    Huang et al. 2024, doi 10.1109/TASLP.2024.3402087; CoSENTLoss.
    """
    scores = ops.expand_dims(scores, 1)
    higher = scores > ops.transpose(scores)
    real = weights > 0
    real_down = ops.expand_dims(real, 1)
    real_across = ops.expand_dims(real, 0)
    higher = ops.logical_and(higher, real_down)
    higher = ops.logical_and(higher, real_across)

    cosines = _cosines(embeddings)
    across = ops.expand_dims(cosines, 0)
    down = ops.expand_dims(cosines, 1)
    differences = across - down
    terms = ops.where(higher, scale * differences, MASKED)
    terms = ops.reshape(terms, (-1,))
    zero = ops.zeros_like(terms[:1])  # exp(0) = 1
    terms = ops.concatenate([zero, terms])
    loss = ops.logsumexp(terms)

    is_right = ops.logical_and(higher, differences < 0)
    num_pairs = ops.sum(ops.cast(higher, "float32"))
    num_right = ops.sum(ops.cast(is_right, "float32"))
    total = ops.sum(weights)
    hits = total * num_right / ops.maximum(num_pairs, 1.0)
    return ops.stack([total * loss, hits, total])


def sum_products(embeddings, gradient, weights):
    """Return sums of which the first is Σ embeddings × gradient, see GradCache."""
    product = ops.sum(embeddings * gradient)
    zero = ops.zeros_like(product)
    return ops.stack([product, zero, zero])


def _cosines(embeddings):
    first = scale_to_unit(embeddings[:, 0])
    second = scale_to_unit(embeddings[:, 1])
    return ops.sum(first * second, -1)


def _length(embeddings, keepdims: bool = False):
    squares = ops.sum(ops.square(embeddings), -1, keepdims=keepdims)
    return ops.sqrt(ops.maximum(squares, _EPSILON))


def scale_to_unit(embeddings):
    """Return embeddings of length 1."""
    return embeddings / _length(embeddings, keepdims=True)
