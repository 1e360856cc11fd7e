"""Encoders of weights that show what each layer does, and ids for them."""

import numpy as np

import kbert


def drawn(config, **options):
    model = kbert.build_encoder(config, seq_len=None, **options)
    random = np.random.default_rng(5)
    for weight in model.weights:
        weight.assign(weight.numpy() + random.normal(0, 0.2, weight.shape))
    return model


def ids(config, rows=13, length=7):
    """int32 (B, S) twice; the last tokens of every other row are padding."""
    random = np.random.default_rng(3)
    tokens = random.integers(1, config.vocab_size, (rows, length))
    tokens[::2, 5:] = config.pad_token_id
    return tokens.astype("int32"), random.integers(0, 2, (rows, length)).astype("int32")
