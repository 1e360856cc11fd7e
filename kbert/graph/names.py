"""The layer names of the graph: keras_bert's.

Encoder blocks count from 1 here; checkpoints count from 0: `encoder.layer.0` is block 1.
"""

TOKEN_IDS = "Input-Token"
SEGMENT_IDS = "Input-Segment"
MASKED = "Input-Masked"
MASKED_POSITIONS = "Input-Positions"
PACKED_POSITIONS = "Packed-Positions"  # of each token within its text
PACKED_TEXTS = "Packed-Texts"  # which text of its row, from 1; 0: padding
PACKED_FIRSTS = "Packed-Firsts"  # each text's first token, counted over all rows end to end
SEQUENCE_MASK = "Sequence-Mask"  # no input of the graph: which sequences an example has

TOKEN_EMBEDDING = "Embedding-Token"
SEGMENT_EMBEDDING = "Embedding-Segment"
TOKEN_PLUS_SEGMENT = "Embedding-Token-Segment"
POSITION_EMBEDDING = "Embedding-Position"
EMBEDDING_DROPOUT = "Embedding-Dropout"
EMBEDDING_NORM = "Embedding-Norm"

ATTENTION = "MultiHeadSelfAttention"
FEED_FORWARD = "FeedForward"
QUERIES = "Queries"  # the positions that the last block computes, where these are selected

MLM_GATHER = "MLM-Gather"
MLM_SLICE = "MLM-Slice"  # of the selected positions, those to predict
MLM_DENSE = "MLM-Dense"
MLM_NORM = "MLM-Norm"
MLM_SIMILARITY = "MLM-Sim"
MLM = "MLM"

FIRST_TOKENS = "First-Tokens"  # of packed texts, where the last block computes all positions
FIRST_TOKEN = "Extract"
FIRST_TOKEN_DROPOUT = "Extract-Dropout"
POOLER = "NSP-Dense"  # keras_bert's name for what the paper's code calls the pooler
NSP = "NSP"

CLASSIFIER_DROPOUT = "Classifier-Dropout"
CLASSIFIER = "Classifier"
TOKEN_CLASSIFIER_DROPOUT = "TokenClassifier-Dropout"
TOKEN_CLASSIFIER = "TokenClassifier"
SPAN_DROPOUT = "Span-Dropout"
SPAN = "Span"
SPAN_START = "Span-Start"
SPAN_END = "Span-End"

TEACHER = "Teacher-"  # and an output: what a student learns of its teacher's, beside its own


def encoder(block: int | str, part: str, step: str = "") -> str:
    """Return the name of a layer of encoder block `block`: 1 … L, or the letter for any block.

    `part` is `ATTENTION`, `FEED_FORWARD` or `QUERIES`; `step` is "" for the sublayer itself,
    else "Dropout", "Add" or "Norm".
    """
    return f"Encoder-{block}-{part}" + (f"-{step}" if step else "")


def block_of(layer: str) -> int:
    """Return the encoder block of a layer, from 1; 0: it is in none."""
    if not layer.startswith("Encoder-"):
        return 0
    number = layer.removeprefix("Encoder-").partition("-")[0]
    return int(number) if number.isdecimal() else 0


def encoder_output(block: int) -> str:
    """Return the layer of hidden state `block`: 0 is the embeddings', L the last block's."""
    return encoder(block, FEED_FORWARD, "Norm") if block else EMBEDDING_NORM


def hidden_target(block: int) -> str:
    """Return the name of the target for hidden state `block`, numbered as in `encoder_output`."""
    return f"{TEACHER}Hidden-{block}"
