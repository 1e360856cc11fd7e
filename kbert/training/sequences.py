"""Examples of several sequences each: the model reads one sequence, the loss compares them."""

from collections.abc import Mapping

from keras import ops

_MASKED = -1e9  # a float32 logit whose probability is 0


def flatten_sequences(inputs: Mapping) -> dict:
    """Return inputs (B, C, S), of C sequences per example, as (B · C, S); others unchanged."""
    return {
        name: array if len(array.shape) < 3 else ops.reshape(array, (-1, ops.shape(array)[-1]))
        for name, array in inputs.items()
    }


def join_logits(logits, mask):
    """Return the logits of sequences, (B · C, 1), as classes of their examples, float32 (B, C).

    `mask`, int32 (B, C), is 0 for a sequence that an example does not have: its probability is 0.
    """
    logits = ops.reshape(ops.cast(logits, "float32"), ops.shape(mask))
    return ops.where(mask > 0, logits, _MASKED)
