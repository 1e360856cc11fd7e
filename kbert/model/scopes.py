"""Names of the model's parts in a compiled program, for profiles and cost analysis."""

import contextlib

EMBEDDINGS, ATTENTION, FEED_FORWARD = "embeddings", "attention", "feed_forward"
HEADS, LOSS, OPTIMIZER = "heads", "loss", "optimizer"
SCOPES = (EMBEDDINGS, ATTENTION, FEED_FORWARD, HEADS, LOSS, OPTIMIZER)


def scope(name: str):
    """Return a context in which operations are of that part; JAX alone has such names."""
    import keras

    if keras.backend.backend() != "jax":
        return contextlib.nullcontext()
    import jax

    return jax.named_scope(name)
