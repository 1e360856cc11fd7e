"""How far packed weights are from the checkpoint's own, measured on the 26 texts of this folder.

A page states the numbers beside the type of its weights. They are of the arithmetic in float32 on
the weights as they are unpacked, which is what the page computes.
"""

from importlib.resources import files

import numpy as np

from kbert.checkpoints.sentence_settings import DEFAULT
from kbert.graph import names
from kbert.show.explorer.live.contents import (
    LiveModel,
    choose_settings,
    max_length,
    require_tokenizer,
)
from kbert.show.explorer.live.forward import Arrays, compute_tensors
from kbert.show.explorer.live.outputs import pool

NO_DIFFERENCE = {"hidden": 0.0, "attention": 0.0, "cosine": 1.0, "texts": 0}  # of float32


def read_texts() -> list[str]:
    """Return the texts, in several languages and scripts."""
    return (files(__package__) / "difference.txt").read_text(encoding="utf-8").splitlines()


def measure_difference(model: LiveModel, before: Arrays, after: Arrays) -> dict:
    """Return how far a model with the weights `after` is from itself with those `before`.

    Returns:
        `hidden` and `attention`, the largest difference of a number in a hidden state and of an
        attention probability; `cosine`, the smallest cosine of a text's two embeddings; and
        `texts`, the number of texts.
    """
    texts = read_texts()
    differences = []
    for encoding in require_tokenizer(model).encode_batch(texts, max_length=max_length(model)):
        pair = [
            compute_tensors(model.spec, arrays, encoding.ids, encoding.segment_ids)
            for arrays in (before, after)
        ]
        differences.append(compare_tensors(model, *pair))
    hidden, attention, cosine = zip(*differences, strict=True)
    return {
        "hidden": max(hidden),
        "attention": max(attention),
        "cosine": min(1.0, *cosine),
        "texts": len(texts),
    }


def compare_tensors(model: LiveModel, before: dict, after: dict) -> tuple[float, float, float]:
    """Return the largest differences of hidden states and attention, and the embeddings' cosine."""
    blocks = range(1, model.spec.config.num_hidden_layers + 1)
    states = [names.encoder_output(block) for block in (0, *blocks)]
    probs = [f"{names.encoder(block, names.ATTENTION)}/probs" for block in blocks]

    def find_largest(group: list[str]) -> float:
        largest = []
        for name in group:
            difference = np.abs(after[name] - before[name])
            largest.append(float(difference.max()))
        return max(largest)

    settings = choose_settings(model) or DEFAULT

    def embed(tensors: dict) -> np.ndarray:
        pooler_output = tensors.get(names.POOLER)
        embedding = pool(settings, tensors[states[-1]], pooler_output)
        return embedding.astype("float64")

    a = embed(before)
    b = embed(after)
    lengths = np.linalg.norm(a) * np.linalg.norm(b)
    cosine = float(a @ b / max(lengths, 1e-30))
    return find_largest(states), find_largest(probs), cosine
