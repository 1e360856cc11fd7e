"""Write the weights with which the small model's pretraining starts.

`python docs/small_model/start_weights.py MODEL SHARDS START` copies the folder of a random model to
START, and gives it word vectors and a bias that are computed from how often tokens stand near each
other in the shards. Pretraining then learns from its first steps; from random word vectors, the
loss stood still at 5.6 for 3,000 steps.

The word vectors are the singular vectors of positive pointwise mutual information with smoothed
contexts (Levy, Goldberg and Dagan 2015, sections 2 and 3), the positions are sines and cosines
(Vaswani et al. 2017, section 3.5).
"""

import shutil
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file
from scipy import sparse
from scipy.sparse.linalg import svds

WINDOW = 5  # tokens on each side; one at distance d counts 1/d
SMOOTHING = 0.75  # exponent of a context's frequency
WORD_NORM = 0.5  # length of a word vector
POSITION_SCALE = 0.03  # standard deviation of a position's numbers, times √2
MATRIX_SCALE = 0.03  # standard deviation of the random matrices


def count_neighbours(tokens: np.ndarray, vocab_size: int) -> sparse.coo_matrix:
    """Return how often two tokens stand near each other: (vocab_size, vocab_size), symmetric."""
    counts = sparse.csr_matrix((vocab_size, vocab_size))
    for distance in range(1, WINDOW + 1):
        left, right = tokens[:-distance], tokens[distance:]
        weights = np.full(len(left), 1 / distance)
        pairs = sparse.coo_matrix((weights, (left, right)), counts.shape).tocsr()
        counts = counts + pairs + pairs.T
    return counts.tocoo()


def make_word_vectors(tokens: np.ndarray, vocab_size: int, size: int) -> np.ndarray:
    """Return a vector of length 0.5 for each token: (vocab_size, size) float64."""
    counts = count_neighbours(tokens, vocab_size)
    frequencies = np.asarray(counts.sum(axis=1)).ravel()
    contexts = frequencies**SMOOTHING
    contexts /= contexts.sum()

    information = np.log(counts.data / frequencies[counts.row] / contexts[counts.col])
    positive = information > 0
    cells = (information[positive], (counts.row[positive], counts.col[positive]))
    matrix = sparse.csr_matrix(cells, counts.shape).astype("float32")

    vectors, values, _ = svds(matrix, k=size, tol=1e-2, random_state=0)
    vectors = vectors * np.sqrt(values)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors *= WORD_NORM / np.maximum(lengths, 1e-6)

    generator = np.random.default_rng(0)
    unseen = lengths[:, 0] < 1e-6
    vectors[unseen] = generator.normal(0, 0.04, (unseen.sum(), size))
    return vectors @ _make_rotation(generator, size)


def make_position_vectors(count: int, size: int) -> np.ndarray:
    """Return sines and cosines of the positions: (count, size) float64."""
    frequencies = 10_000 ** (-0.75 * np.arange(size // 2) / (size // 2))
    angles = np.arange(count)[:, None] * frequencies
    waves = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    return POSITION_SCALE * waves @ _make_rotation(np.random.default_rng(1), size)


def _make_rotation(generator: np.random.Generator, size: int) -> np.ndarray:
    """Return a random rotation, which leaves no dimension with more than its share."""
    rotation, _ = np.linalg.qr(generator.normal(size=(size, size)))
    return rotation


def make_bias(tokens: np.ndarray, vocab_size: int) -> np.ndarray:
    """Return the logarithm of each token's frequency, with mean 0: (vocab_size,) float64."""
    counts = np.bincount(tokens, minlength=vocab_size) + 1
    logarithms = np.log(counts)
    return logarithms - logarithms.mean()


def write_start(model: Path, shards: Path, start: Path) -> None:
    """Write a copy of the model in which training starts from the shards' statistics."""
    files = sorted(shards.glob("tokens-*.npy"))
    tokens = np.concatenate([np.load(file) for file in files]).astype(np.int64)
    tensors = load_file(model / "model.safetensors")
    generator = np.random.default_rng(1)

    for name, tensor in tensors.items():
        if name.endswith("word_embeddings.weight"):
            numbers = make_word_vectors(tokens, *tensor.shape)
        elif name.endswith("position_embeddings.weight"):
            numbers = make_position_vectors(*tensor.shape)
        elif name == "cls.predictions.bias":
            numbers = make_bias(tokens, len(tensor))
        elif "LayerNorm.weight" in name:
            numbers = np.ones(tensor.shape)
        elif tensor.ndim == 1 or name.endswith("token_type_embeddings.weight"):
            numbers = np.zeros(tensor.shape)
        else:
            numbers = generator.normal(0, MATRIX_SCALE, tensor.shape)
        tensors[name] = numbers.astype("float32")

    shutil.copytree(model, start)
    save_file(tensors, start / "model.safetensors", metadata={"format": "pt"})


if __name__ == "__main__":
    write_start(*map(Path, sys.argv[1:4]))
