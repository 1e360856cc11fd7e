"""A small model for each head, with random weights and a tokenizer."""

import itertools

import numpy as np

import kbert
from helpers.peer_tasks import VOCABULARY
from kbert import build_bert
from kbert.heads import HEADS

LENGTHS = [3, 11, 0, 7, 1, 13, 5, 2, 9, 4, 6, 12, 8]  # of 13 texts, in tokens
CHOSEN = itertools.cycle(["cat", "dog", "sun", "moon", "red", "big", "tree", ".", "mat"])
TEXTS = [" ".join(next(CHOSEN) for _ in range(length)) for length in LENGTHS]
HEADS_OF_ONE_SEQUENCE = [name for name in HEADS if name != "choice"]


def small_berts(config) -> dict:
    """A `Bert` for each head, see `small_bert`."""
    return {head: small_bert(config, head) for head in HEADS_OF_ONE_SEQUENCE}


def small_bert(config, head: str) -> kbert.Bert:
    """A `Bert` with weights that are none of the first ones."""
    tokens = [*VOCABULARY, *(f"[unused{n}]" for n in range(config.vocab_size))]
    tokenizer = kbert.Tokenizer.from_vocab(tokens[: config.vocab_size], lowercase=True)
    model = change_weights(build_bert(config, head=head, seq_len=None, num_labels=5))
    return kbert.Bert(config, head, model, tokenizer)


def change_weights(model, scale: float = 0.2):
    """Add random numbers to a model's weights, and return the model."""
    random = np.random.default_rng(5)
    for weight in model.weights:
        weight.assign(weight.numpy() + random.normal(0, scale, weight.shape))
    return model
