"""Losses of embeddings if replicas share a batch: they cover all of its records.

Each replica is sent the others' vectors and computes the loss of the whole batch from them. By its
own vectors that loss has the slope that it has on one device, so each replica ends with its own
records' part of the gradients, and these add up as those of every other task; no slopes are sent.
"""

from typing import cast

from keras import ops

from kbert.training.vector_loss import VectorLoss


class GatheredVectors:
    """An engine's support for losses that compare all records of a batch.

    Attributes:
        vectors: the loss, if it is one of text embeddings; set before `prepare`. None: labels of
            outputs.
        replicas: number of devices that share a batch.
    """

    vectors: VectorLoss | None = None
    replicas: int

    def _sharers(self) -> int:
        """How many parts of a batch there are, of which the engine's functions see one each."""
        return self.replicas

    def _place(self):
        """Return the function's part of the batch, an int or a tensor; only within a step."""
        raise NotImplementedError

    def _gathered(self, arrays: list) -> list:
        """Return each part's arrays (B, …) as (parts, B, …) of all, the same everywhere.

        No gradients.
        """
        raise NotImplementedError

    def _vector_sums(self, vectors, labels, weights):
        """`VectorLoss.measured`, of which the sum over all parts is that of the whole batch.

        Its gradient by this part's vectors is the whole loss's.
        """
        loss, parts = cast(VectorLoss, self.vectors), self._sharers()
        if parts == 1 or not loss.meet(labels):
            return loss.measured(vectors, labels, weights)
        sums = loss.measured(*self._of_all([vectors, labels, weights]))
        # The value is in every part, and counts once; the gradient is of its own vectors alone.
        value = ops.stop_gradient(sums)
        return value / parts + (sums - value)

    def _of_all(self, arrays: list) -> list:
        """Return all parts' rows one after the other; this part's own ones have gradients."""
        parts, found = self._sharers(), []
        own = ops.equal(ops.arange(parts, dtype="int32"), self._place())
        sent = self._gathered([ops.stop_gradient(array) for array in arrays])
        for array, everywhere in zip(arrays, sent, strict=True):
            here = ops.reshape(own, (parts, *[1] * len(array.shape)))
            whole = ops.where(here, ops.expand_dims(array, 0), everywhere)
            found.append(ops.reshape(whole, (-1, *ops.shape(array)[1:])))
        return found
