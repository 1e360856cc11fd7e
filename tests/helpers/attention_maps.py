"""Attention maps made of random numbers."""

import numpy as np

from kbert.tasks.attention.attention_map import AttentionMap

WORDS = ["cat", "sat", "on", "the", "mat", "while", "a", "dog", "ran", "far", "away"]


def random_map(
    first=9, second=0, layers=(2, 3), heads=(1, 2, 5), width=7, **fields
) -> AttentionMap:
    """`first` + `second` words between [CLS] and [SEP], and weights that are nowhere even."""
    names = [WORDS[n % len(WORDS)] for n in range(first + second)]
    tokens = ["[CLS]", *names[:first], "[SEP]", *names[first:], *["[SEP]"] * (second > 0)]
    size = len(tokens)
    random = np.random.default_rng(size)
    weights = random.dirichlet(np.full(size, 0.1), (len(layers), len(heads), size))
    queries, keys = random.normal(size=(2, len(layers), len(heads), size, width)) ** 3
    values = {
        "text": " ".join(names),
        "special": tuple(n for n, token in enumerate(tokens) if token[0] == "["),
        "segments": tuple(int(n > first + 1) for n in range(size)),
        "queries": queries.astype("float32"),
        "keys": keys.astype("float32"),
    }
    return AttentionMap(tokens, weights.astype("float32"), layers, heads, **values | fields)
