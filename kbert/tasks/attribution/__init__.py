"""How much each token counts for an answer: `attribute`, and its picture."""

BASELINES = ("pad", "mask")  # what stands in the place of the text's tokens
VALUES = ("probability", "logit")  # of a label or a token: what is attributed
