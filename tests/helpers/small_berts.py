"""A small model for each head, with random weights and a tokenizer."""

import itertools

import numpy as np

import kbert
from helpers.peer_tasks import VOCABULARY

LENGTHS = [3, 11, 0, 7, 1, 13, 5, 2, 9, 4, 6, 12, 8]  # of 13 texts, in tokens
CHOSEN = itertools.cycle(["cat", "dog", "sun", "moon", "red", "big", "tree", ".", "mat"])
TEXTS = [" ".join(next(CHOSEN) for _ in range(length)) for length in LENGTHS]
BUILD = {
    "encoder": kbert.build_encoder,
    "pretraining": kbert.build_bert,
    "classifier": kbert.build_classifier,
    "tokens": kbert.build_token_classifier,
    "qa": kbert.build_question_answering,
}


def small_berts(config) -> dict:
    """A `Bert` for each head, see `small_bert`."""
    return {head: small_bert(config, head) for head in BUILD}


def small_bert(config, head: str) -> kbert.Bert:
    """A `Bert` with weights that are none of the first ones."""
    tokens = [*VOCABULARY, *(f"[unused{n}]" for n in range(config.vocab_size))]
    tokenizer = kbert.Tokenizer.from_vocab(tokens[: config.vocab_size], lowercase=True)
    labels = {"num_labels": 5} if head in ("classifier", "tokens") else {}
    model = change_weights(BUILD[head](config, seq_len=None, **labels))
    return kbert.Bert(config, head, model, tokenizer)


def change_weights(model, scale: float = 0.2):
    """Add random numbers to a model's weights, and return the model."""
    random = np.random.default_rng(5)
    for weight in model.weights:
        weight.assign(weight.numpy() + random.normal(0, scale, weight.shape))
    return model
