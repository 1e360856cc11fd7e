"""Where things are, and sizes that are odd and all different, so that a swapped axis shows."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared"
TESTS = ROOT / "tests"
HELPERS = TESTS / "helpers"
FILES = TESTS / "files"  # small real data, and what peers computed

BATCH, LENGTH = 13, 7
SIZES = {
    "vocab_size": 99,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": 17,
    "type_vocab_size": 3,
}
ODD = {
    "vocab_size": 31,
    "hidden_size": 30,
    "num_hidden_layers": 5,
    "num_attention_heads": 6,
    "intermediate_size": 44,
    "max_position_embeddings": 19,
    "type_vocab_size": 3,
}
ODD_CONFIG = ODD | {
    "hidden_act": "gelu_new",
    "hidden_dropout_prob": 0.25,
    "attention_probs_dropout_prob": 0.0,
    "initializer_range": 0.03,
    "layer_norm_eps": 1e-7,
    "pad_token_id": 4,
}
