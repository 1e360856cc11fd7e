"""Names of the model's parts in a compiled program, for profiles and cost analysis."""

import contextlib

from kbert.graph import names

LOSS, OPTIMIZER = "loss", "optimizer"
# Part of the model by what the names of its operations have in them: on JAX Keras names each layer.
SCOPES = {
    "Embedding-": "embeddings",
    names.ATTENTION: "attention",
    f"-{names.QUERIES}": "attention",
    names.FEED_FORWARD: "feed_forward",
    names.MLM: "heads",
    names.FIRST_TOKEN: "heads",
    names.NSP: "heads",
    names.CLASSIFIER: "heads",  # of tokens too
    names.SPAN: "heads",
    LOSS: LOSS,
    OPTIMIZER: OPTIMIZER,
}


def scope(name: str):
    """Return a context in which operations are of that part; JAX alone has such names."""
    import keras

    if keras.backend.backend() != "jax":
        return contextlib.nullcontext()
    import jax

    return jax.named_scope(name)
