"""Names of the model's parts in a compiled program, for profiles and cost analysis."""

from kbert.graph import names

LOSS, OPTIMIZER = "loss", "optimizer"
# Part of the model by what the names of its operations have in them; `keras.name_scope` sets them.
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
