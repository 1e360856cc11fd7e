"""Near-duplicate documents: MinHash signatures, and which documents repeat an earlier one.

A document is the set of its 5-grams of words, and two documents are as similar as their sets by
Jaccard, as in Lee et al. 2022 (arXiv 2107.06499). `rensa` hashes the sets. A document is dropped if
all hashes of one band equal those of a document that was kept before: locality-sensitive hashing,
as for FineWeb (arXiv 2406.17557). So the result depends on the order of the documents alone.
"""

import re
from collections.abc import Iterable, Sequence

import numpy as np

HASHES = 128  # of a signature
_GRAM = 5  # words
_SEED = 42
_WORD = re.compile(r"\w+")
_FACTOR = 0x9E3779B97F4A7C15  # odd: its powers have all 64 bits


def choose_bands(similarity: float) -> tuple[int, int]:
    """Return the numbers of bands and of hashes in a band whose threshold is this similarity.

    Documents of similarity s are found with probability 1 - (1 - s**size)**bands. The area between
    this curve and a step at `similarity` is the smallest, as in Zhu et al. 2016 (LSH Ensemble),
    among the sizes with as many bands as the hashes suffice for.
    """
    similarities = np.linspace(0, 1, 1001)
    wanted = similarities >= similarity

    def measure_area(size: int) -> float:
        probs = 1 - (1 - similarities**size) ** (HASHES // size)
        return np.abs(probs - wanted).sum()

    size = min(range(1, HASHES + 1), key=measure_area)
    return HASHES // size, size


def sign_documents(sentences: Sequence[str]) -> np.ndarray:
    """Return signatures, uint32 (ends + 1, `HASHES`), of what an empty text ends, and of the rest.

    The signature of two pieces of a document is their minimum. That of no text has only maxima.
    """
    import rensa

    documents: list[list[str]] = [[]]
    for sentence in sentences:
        if sentence:
            documents[-1].append(sentence)
        else:
            documents.append([])
    grams = [_list_grams(document) for document in documents]
    matrix = rensa.RMinHash.digest_matrix_from_token_sets(grams, HASHES, _SEED)
    return np.array(matrix.to_rows(), np.uint32)


def _list_grams(sentences: list[str]) -> list[str]:
    """Return the 5-grams of words, in lower case; of fewer words, all in one; without, the text."""
    text = " ".join(sentences)
    words = _WORD.findall(text.lower())
    if not words:
        return sentences
    shifted = (words[begin:] for begin in range(min(_GRAM, len(words))))
    return [" ".join(gram) for gram in zip(*shifted, strict=False)]


class UniqueDocuments:
    """The documents that were kept, by 64-bit hashes of their bands.

    A million documents of 9 bands need about 0.4 GB: a sorted array, and a set of the latest ones,
    a sixteenth of it, which is merged when it is full.
    """

    def __init__(self, bands: int, size: int, earlier: Iterable[np.ndarray] = ()):
        self._shape = (bands, size)
        powers = np.cumprod(np.full(size + bands, _FACTOR, np.uint64))
        self._factors, self._terms = powers[:size], powers[size:]
        # 0 as a first value: it is never empty, and a hash is 0 once in 2**64
        self._sorted = np.sort(np.concatenate([np.zeros(1, np.uint64), *earlier]))
        self._latest: set[int] = set()
        self._fresh: list[np.ndarray] = []

    def add(self, signature) -> bool:
        """Keep the document of a signature and return True; False: it repeats an earlier one."""
        hashes = np.resize(signature, self._shape).astype(np.uint64)  # the rest is in no band
        keys = hashes @ self._factors + self._terms
        numbers = keys.tolist()
        indices = np.searchsorted(self._sorted, keys)
        is_old = self._sorted.take(indices, mode="clip") == keys
        if is_old.any() or not self._latest.isdisjoint(numbers):
            return False

        self._latest.update(numbers)
        self._fresh.append(keys)
        if len(self._latest) > max(1 << 16, len(self._sorted) // 16):
            latest = np.fromiter(self._latest, np.uint64, len(self._latest))
            self._sorted = np.sort(np.concatenate([self._sorted, latest]))
            self._latest.clear()
        return True

    def take_fresh(self) -> np.ndarray:
        """Return the hashes of the documents that were kept since the last call, uint64."""
        fresh = np.array(self._fresh, np.uint64).ravel()
        self._fresh = []
        return fresh
