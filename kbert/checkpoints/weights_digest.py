"""Hash of a model's weights, to recognize an unchanged checkpoint."""

import hashlib

import numpy as np

from kbert.checkpoints.bert import Bert


def weights_digest(bert: Bert) -> str:
    """Return a hash of all weights and labels, 16 hexadecimal digits, on every backend the same."""
    found = hashlib.blake2b(digest_size=8)
    found.update("\n".join(bert.labels or ()).encode())
    for layer in bert.model.layers:
        for array in layer.get_weights():
            found.update(f"{layer.name} {array.shape} {array.dtype}".encode())
            found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()
