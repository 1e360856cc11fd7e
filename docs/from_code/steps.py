"""The 14 steps of the article "Understanding BERT architecture", and a text for each."""

from dataclasses import dataclass

from kbert.graph import names

_BLOCKS = 12


@dataclass(frozen=True)
class Step:
    """A step: its title, the layer that it counts, an explanation, and how often it is there."""

    title: str
    layer: str
    text: str
    times: int = 1


STEPS = (
    Step(
        "Inputs",
        names.TOKEN_IDS,
        "BERT has three inputs: the token ids, the segment ids (which of two texts a token "
        "belongs to), and which tokens to predict (Input-Masked). The article says two. Inputs "
        "have no parameters.",
    ),
    Step(
        "Token embeddings",
        names.TOKEN_EMBEDDING,
        "A table with one row of 768 numbers for each of the 30,000 tokens. It holds a fifth of "
        "all parameters and is used twice: here to look up tokens, in step 12 to predict them.",
    ),
    Step(
        "Segment embeddings",
        names.SEGMENT_EMBEDDING,
        "BERT can read two texts at once. One row is added to every token of the first text, the "
        "other row to every token of the second.",
    ),
    Step(
        "Position embeddings",
        names.POSITION_EMBEDDING,
        "Attention alone does not know the order of the tokens: without positions a sentence would "
        "be a bag of words. The table has one learned row for each of 512 positions. That is why "
        "BERT cannot read more than 512 tokens.",
    ),
    Step(
        "Normalization of the embeddings",
        names.EMBEDDING_NORM,
        "The layer learns 768 scales and 768 offsets. The article calls them mean and standard "
        "deviation, but those are computed from each vector and not learned.",
    ),
    Step(
        "Attention",
        names.encoder(1, names.ATTENTION),
        "Four matrices of 768 × 768 with their biases: for queries, keys, values, and for mixing "
        "the outputs of the heads. The twelve heads need no further parameters: each is a slice "
        "of 768 × 64 of the first three matrices.",
        _BLOCKS,
    ),
    Step(
        "Normalization after attention",
        names.encoder(1, names.ATTENTION, "Norm"),
        "The output of attention is added to its input (the residual connection). The sum is "
        "normalized, as in step 5.",
        _BLOCKS,
    ),
    Step(
        "Feed-forward",
        names.encoder(1, names.FEED_FORWARD),
        "Each token is processed separately: from 768 numbers to 3,072 and back. Two thirds of a "
        "block's parameters are here. The activation between the two is GELU. The article says "
        "ReLU; the count is the same, because neither has parameters.",
        _BLOCKS,
    ),
    Step(
        "Normalization after feed-forward",
        names.encoder(1, names.FEED_FORWARD, "Norm"),
        "As in step 7. Here the block ends and the next one begins: steps 6 to 9 are repeated "
        "twelve times. Each block has 8 rows of the summary, so there are 96. The article counts "
        "9 rows per block, and 108.",
        _BLOCKS,
    ),
    Step(
        "MLM: dense layer",
        names.MLM_DENSE,
        "The head for masked language modelling (MLM) begins: one more layer for each token "
        "before it is predicted.",
    ),
    Step("MLM: normalization", names.MLM_NORM, "As in step 5."),
    Step(
        "MLM: predict the token",
        names.MLM_SIMILARITY,
        "Each vector is multiplied with all 30,000 rows of the table of step 2. The more similar a "
        "row, the more likely that token. The table is shared, so the only new parameters are "
        "one bias per token. It says how frequent the token is, whatever the context.",
    ),
    Step(
        "NSP: the pooler",
        names.POOLER,
        "Next sentence prediction (NSP) uses only the first token, [CLS]. Other libraries call "
        "this layer the pooler.",
    ),
    Step(
        "NSP: two answers",
        names.NSP,
        "Does the second text follow the first? Two logits, one for yes and one for no.",
    ),
)
