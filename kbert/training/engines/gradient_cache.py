"""Gradients of a loss over the whole batch, in the memory of one micro-batch (GradCache).

Gao et al. 2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup" (arXiv
2101.06983, section 3.2): all vectors without gradients, micro-batch by micro-batch; the loss of all
of them together, and its gradient by the vectors; then each micro-batch again, whose gradients are
those of Σ vectors × that gradient. Dropout draws the same masks both times: they are functions of
the micro-batch's seeds.
"""

from collections.abc import Callable
from typing import cast

from keras import ops

from kbert.training.engines.gathered_vectors import GatheredVectors
from kbert.training.vector_loss import VECTORS, VectorLoss


class GradientCache(GatheredVectors):
    """An engine's support for losses of embeddings.

    Attributes:
        accumulation_steps: micro-batches per training step.
    """

    accumulation_steps: int

    def _outputs(self, weights, seeds, inputs, training: bool, frozen=None) -> dict:
        raise NotImplementedError

    def _for_each(self, function: Callable, inputs: dict, seeds):
        """Apply a function to the inputs and seeds of each micro-batch, and stack the results.

        They run one after the other, and nothing is kept for gradients.
        """
        raise NotImplementedError

    def _slopes(self, function: Callable, x) -> tuple:
        """Return the gradient of the first of a function's sums, by its argument; and the sums."""
        raise NotImplementedError

    def _caches(self, labels: dict) -> bool:
        """Return whether `_cached_gradients` must compute the gradients."""
        several = self.vectors is not None and self.accumulation_steps > 1
        return several and len(labels[VECTORS].shape) < 4  # else they are slopes already

    def _cached_gradients(self, gradients: Callable, weights, batch, seeds, frozen=None) -> tuple:
        """Gradients of the weights, and the sums, as `gradients` gives them for one micro-batch.

        Args:
            gradients: of a batch, summed over its micro-batches.
            weights: values of the weights.
            batch: inputs, labels, weights of labels, wishes: by name (micro-batches, B, …).
            seeds: (micro-batches, …).
            frozen: values of those that are not trained, where the engine has them as arguments.
        """
        inputs, labels, counted, wishes = batch
        loss = cast(VectorLoss, self.vectors)

        def vectors_of(part, seed):
            return self._outputs(weights, seed, part, training=True, frozen=frozen)[VECTORS]

        def sums_of(vectors):
            whole = [_joined(group[VECTORS]) for group in (labels, counted)]
            return self._vector_sums(vectors, *whole)

        vectors = self._for_each(vectors_of, inputs, seeds)
        shape = (-1, loss.columns, loss.width)
        slopes, sums = self._slopes(sums_of, ops.reshape(vectors, shape))
        slopes = ops.reshape(slopes, (self.accumulation_steps, *shape))
        found, others = gradients((inputs, {VECTORS: slopes}, counted, wishes))
        return found, ops.concatenate([ops.expand_dims(sums, 0), others[1:]])


def _joined(array):
    """Return (micro-batches, B, …) as (micro-batches · B, …)."""
    return ops.reshape(array, (-1, *ops.shape(array)[2:]))
