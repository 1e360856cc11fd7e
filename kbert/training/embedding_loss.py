"""Losses of text embeddings, over all records of a batch, and the pooling of the embeddings.

A record has several texts, its columns: a text, one that is like it, and others that are not. Each
formula is sentence-transformers': losses and gradients are equal to its classes'.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass

from keras import ops

from kbert.graph.names import TOKEN_IDS
from kbert.training.gradient_checkpointing import flatten_sequences
from kbert.training.loss import Loss, make_keras_flags, make_keras_numbers, weighted_sums

EMBEDDINGS = "Vectors"  # what an engine calls them among its outputs and labels
MASKED = -1e9  # a float32 logit whose probability is 0
_EPSILON = 1e-24  # of a squared length, whose root has a gradient


@dataclass(frozen=True)
class EmbeddingLoss:
    """A loss of text embeddings."""

    name: str  # one of `FORMULAS`
    columns: int  # C, the number of texts of a record
    width: int  # H, the size of an embedding
    # How token embeddings become one: "mean" or "max" over the tokens that are not padding, or
    # "cls", the first token's.
    pooling: str = "mean"
    normalize: bool = False  # whether embeddings are scaled to length 1
    pad_id: int = 0  # the padding token
    scale: float = 20.0  # of the cosines, the inverse temperature; for infonce and cosent
    margin: float = 5.0  # for triplet
    # Lengths to which embeddings are truncated, each with a loss of its own, all summed
    # (Matryoshka: Kusupati et al. 2022, arXiv 2205.13147, eq. 1, weights of 1); truncated
    # embeddings are scaled to length 1. None: whole embeddings, unchanged.
    dimensions: tuple[int, ...] | None = None

    def pool(self, states, inputs: Mapping):
        """Pool states, float (texts, S, H), to float32 (B, C, H) of records, or (B, H) of texts."""
        token_ids = flatten_sequences(inputs)[TOKEN_IDS]
        real = ops.expand_dims(ops.not_equal(token_ids, self.pad_id), -1)
        states = ops.cast(states, "float32")
        if self.pooling == "cls":
            embeddings = states[:, 0]
        elif self.pooling == "max":
            # By position: for the gradient of a maximum XLA may compute the numbers once more, in
            # another fusion, and then finds the maximum at none or at several of them.
            chosen = ops.argmax(ops.where(real, states, float("-inf")), axis=1, keepdims=True)
            positions = ops.reshape(ops.arange(ops.shape(states)[1], dtype="int32"), (1, -1, 1))
            is_largest = ops.equal(positions, ops.cast(chosen, "int32"))
            embeddings = ops.sum(ops.where(is_largest, states, 0.0), axis=1)
        else:
            real = ops.cast(real, "float32")
            embeddings = ops.sum(states * real, axis=1) / ops.sum(real, axis=1)
        embeddings = _unit(embeddings) if self.normalize else embeddings
        if len(inputs[TOKEN_IDS].shape) == 2:
            return embeddings
        return ops.reshape(embeddings, (-1, self.columns, self.width))

    @property
    def formula(self) -> "Formula":
        """The formula of that name."""
        return FORMULAS[self.name]

    def sum_losses(self, embeddings, labels, weights):
        """Return the sums of a `kbert.training.loss.Loss`, of embeddings, float32 (B, C, H).

        Labels of infonce and triplet are int32 (B, C), a number of each text: none is a negative of
        one with its number. Of cosine and cosent they are scores of pairs, float32 (B,). The second
        sum is of records that are right, of cosent of pairs of pairs, of cosine of absolute errors.
        """
        options = {name: getattr(self, name) for name in self.formula.options}
        compute = functools.partial(self.formula.sum_losses, **options)
        if self.dimensions is None:
            return compute(embeddings, labels, weights)
        each = [
            compute(_unit(embeddings[..., :dimension]), labels, weights)
            for dimension in sorted(self.dimensions, reverse=True)
        ]
        return ops.stack([sum(one[0] for one in each), each[0][1], each[0][2]])


def sum_products(embeddings, gradient, weights):
    """Return sums of which the first is Σ embeddings × gradient, see GradCache."""
    product = ops.sum(embeddings * gradient)
    return ops.stack([product, ops.zeros_like(product), ops.zeros_like(product)])


def infonce(embeddings, numbers, weights, scale: float):
    """Each record's first text chooses its second one from all others' second and further texts.

    Cross-entropy over scale × cosine (van den Oord et al. 2018, arXiv 1807.03748, eq. 4;
    MultipleNegativesRankingLoss). Left out as negatives: texts with the number of the record's
    first or second text; second texts of records with the same first; records that weigh nothing.
    """
    unit = _unit(embeddings)
    anchors, others = unit[:, 0], unit[:, 1:]
    further = embeddings.shape[1] - 2  # columns of negatives
    candidates = ops.reshape(ops.transpose(others, (1, 0, 2)), (-1, embeddings.shape[2]))
    scores = scale * ops.matmul(anchors, ops.transpose(candidates))  # (B, (C − 1) B)

    def row(of_positives, fill):
        rest = [ops.full_like(of_positives, fill)] * further
        return ops.expand_dims(ops.concatenate([of_positives, *rest]), 0)

    records = ops.cumsum(ops.ones_like(numbers[:, 0]))  # 1 … B
    own = ops.equal(ops.expand_dims(records, 1), row(records, 0))
    texts = ops.reshape(ops.transpose(numbers[:, 1:]), (1, -1))
    alike = ops.logical_or(ops.equal(texts, numbers[:, :1]), ops.equal(texts, numbers[:, 1:2]))
    alike = ops.logical_or(alike, ops.equal(row(numbers[:, 0], -1), numbers[:, :1]))
    empty = ops.equal(ops.expand_dims(ops.concatenate([weights] * (1 + further)), 0), 0.0)
    left_out = ops.logical_and(ops.logical_or(alike, empty), ops.logical_not(own))
    scores = ops.where(left_out, MASKED, scores)
    losses = ops.logsumexp(scores, axis=-1) - scale * ops.sum(anchors * others[:, 0], -1)
    hits = ops.equal(ops.cast(ops.argmax(scores, axis=-1), "int32"), records - 1)
    return weighted_sums(weights, losses, hits)


def triplet(embeddings, numbers, weights, margin: float):
    """Compute the triplet loss, max(0, |a − p| − |a − n| + margin), with Euclidean distances.

    Schroff et al. 2015, arXiv 1503.03832, eq. 2; not squared, as in TripletLoss.
    """
    near = _length(embeddings[:, 0] - embeddings[:, 1])
    far = _length(embeddings[:, 0] - embeddings[:, 2])
    return weighted_sums(weights, ops.relu(near - far + margin), near < far)


def cosine(embeddings, scores, weights):
    """Return the squared error of cosines.

    Reimers and Gurevych 2019, arXiv 1908.10084, section 3; CosineSimilarityLoss.
    """
    errors = _cosines(embeddings) - scores
    return weighted_sums(weights, ops.square(errors), ops.abs(errors))


def cosent(embeddings, scores, weights, scale: float):
    """log(1 + Σ exp(scale · (cos_j − cos_i))) over all i, j where pair i has the higher score.

    Huang et al. 2024, doi 10.1109/TASLP.2024.3402087; CoSENTLoss.
    """
    cosines, real, scores = _cosines(embeddings), weights > 0, ops.expand_dims(scores, 1)
    higher = scores > ops.transpose(scores)
    higher = ops.logical_and(higher, ops.expand_dims(real, 1))
    higher = ops.logical_and(higher, ops.expand_dims(real, 0))
    differences = ops.expand_dims(cosines, 0) - ops.expand_dims(cosines, 1)
    terms = ops.reshape(ops.where(higher, scale * differences, MASKED), (-1,))
    loss = ops.logsumexp(ops.concatenate([ops.zeros_like(terms[:1]), terms]))
    apart = ops.sum(ops.cast(higher, "float32"))
    right = ops.sum(ops.cast(ops.logical_and(higher, differences < 0), "float32"))
    total = ops.sum(weights)
    return ops.stack([total * loss, total * right / ops.maximum(apart, 1.0), total])


@dataclass(frozen=True)
class Formula(Loss):
    """A loss of embeddings, labels and weights of records."""

    options: tuple[str, ...] = ()  # attributes of `EmbeddingLoss` that it takes
    needs_whole_batch: bool = False  # whether a record's part depends on the batch's others


FORMULAS = {
    loss.name: loss
    for loss in (
        Formula("infonce", infonce, options=("scale",), needs_whole_batch=True),
        Formula("triplet", triplet, options=("margin",)),
        Formula("cosine", cosine, "absolute_error", make_keras=make_keras_numbers),
        Formula(
            "cosent",
            cosent,
            make_keras=make_keras_flags,
            options=("scale",),
            needs_whole_batch=True,
        ),
    )
}


def _cosines(embeddings):
    return ops.sum(_unit(embeddings[:, 0]) * _unit(embeddings[:, 1]), -1)


def _length(embeddings, keepdims: bool = False):
    squares = ops.sum(ops.square(embeddings), -1, keepdims=keepdims)
    return ops.sqrt(ops.maximum(squares, _EPSILON))


def _unit(embeddings):
    return embeddings / _length(embeddings, keepdims=True)
