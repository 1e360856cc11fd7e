"""Document 004's 14 steps, and what kbert tells of each."""

from dataclasses import dataclass

from kbert.graph import names

_BLOCKS = 12


@dataclass(frozen=True)
class Step:
    """A step: its title, the layer that it counts, how often that is there, what to see in it."""

    title: str
    layer: str
    text: str
    times: int = 1


STEPS = (
    Step(
        "Inputs",
        names.TOKEN_IDS,
        "Three of them, though the document says two: the ids of the tokens, the number of the "
        "text that each is of, and which tokens are to be predicted (Input-Masked). An input is "
        "told, not learned.",
    ),
    Step(
        "Token embeddings",
        names.TOKEN_EMBEDDING,
        "A table with one row of 768 numbers for each of 30,000 tokens. It is a fifth of the whole "
        "model, and it is used twice: here to look tokens up, in step 12 to guess them.",
    ),
    Step(
        "Segment embeddings",
        names.SEGMENT_EMBEDDING,
        "BERT reads two texts at once. One row is added to every token of the first, the other to "
        "every token of the second.",
    ),
    Step(
        "Position embeddings",
        names.POSITION_EMBEDDING,
        "Without them a sentence would be a bag of words: attention does not know what stands "
        "where. One row for each place from 1 to 512, learned like all the rest. That is why BERT "
        "cannot read more than 512 tokens.",
    ),
    Step(
        "Normalization of the embeddings",
        names.EMBEDDING_NORM,
        "What is learned are 768 scales and 768 offsets. The document calls them mean and standard "
        "deviation; those are computed from each vector, and nobody learns them.",
    ),
    Step(
        "Attention",
        names.encoder(1, names.ATTENTION),
        "Four matrices of 768 × 768 with their biases: queries, keys, values, and what mixes the "
        "heads' results. The twelve heads are no further parameters: they are twelve slices of "
        "768 × 64 of each of the first three.",
        _BLOCKS,
    ),
    Step(
        "Normalization after attention",
        names.encoder(1, names.ATTENTION, "Norm"),
        "What attention found is added to what was there (the residual connection), and the sum is "
        "brought to a common scale, as in step 5.",
        _BLOCKS,
    ),
    Step(
        "Feed-forward",
        names.encoder(1, names.FEED_FORWARD),
        "Each token by itself: from 768 numbers to 3,072 and back. Two thirds of a block's "
        "parameters are here. Between the two is GELU; the document says ReLU, which would not "
        "change the count, as neither has parameters.",
        _BLOCKS,
    ),
    Step(
        "Normalization after feed-forward",
        names.encoder(1, names.FEED_FORWARD, "Norm"),
        "As in step 7. Here a block ends, and the next one begins: steps 6 to 9 are there twelve "
        "times, 8 rows each. The document counts 9, and 108 lines; there are 96.",
        _BLOCKS,
    ),
    Step(
        "MLM: dense layer",
        names.MLM_DENSE,
        "The head of masked language modelling begins: a last look at each token before it is "
        "guessed.",
    ),
    Step("MLM: normalization", names.MLM_NORM, "As in step 5."),
    Step(
        "MLM: which token is it?",
        names.MLM_SIMILARITY,
        "Each vector is multiplied with all 30,000 rows of the table of step 2: the more alike, "
        "the likelier that token. The table is shared, so what is new is one bias a token: how "
        "frequent it is, whatever stands beside it.",
    ),
    Step(
        "NSP: the pooler",
        names.POOLER,
        "Next sentence prediction looks at the first token alone, [CLS]. This layer is what others "
        "call the pooler, whose 590,592 document 001 prints as 0.",
    ),
    Step(
        "NSP: two answers",
        names.NSP,
        "Does the second text follow the first? Two numbers, one for yes and one for no.",
    ),
)
