"""Warnings about a corpus that is valid but probably not what its owner intended."""

import logging

import numpy as np

from kbert.data.corpus.shards import Shards

_logger = logging.getLogger("kbert")
_MOST = 0.9  # share of documents of one sentence; above it nearly all pairs are random
_COMPARED = 100_000  # number of documents that are compared, the first ones
_TOKENS = 32  # first tokens of a document that are compared
_FEWEST = 10  # documents; in fewer a share means nothing


def warn_of_corpus(shards: Shards, *, pairs: bool = True) -> None:
    """Warn of documents of one sentence (if `pairs` are made of them) and of repeated documents."""
    if shards.documents < _FEWEST:
        return
    sentence_counts = shards.ends - shards.starts
    single = int((sentence_counts == 1).sum())
    if pairs and single > _MOST * shards.documents:
        _logger.warning(
            "%s of %s documents have one sentence, which none follows: nearly every next-sentence "
            "label is 1 (random). Put the sentences of a document on successive lines, with a "
            "blank line between documents, or pretrain with mlm_only (--mlm-only)",
            f"{single:,}",
            f"{shards.documents:,}",
        )

    hashes = _hash_documents(shards)
    repeated = len(hashes) - len(np.unique(hashes))
    if 2 * repeated > len(hashes):
        which = "" if len(hashes) == shards.documents else "the first "
        _logger.warning(
            "%s of %s%s documents repeat another", f"{repeated:,}", which, f"{len(hashes):,}"
        )


def _hash_documents(shards: Shards) -> np.ndarray:
    """Return a hash of the length and the first tokens of each document compared, uint64."""
    first_sentences = shards.starts[:_COMPARED]
    first_tokens = shards.offsets[first_sentences]
    lengths = shards.document_tokens[:_COMPARED]

    columns = np.arange(_TOKENS)
    mask = columns < lengths[:, None]
    indices = first_tokens[:, None] + columns
    ids = shards.take(indices[mask])
    tokens = np.zeros(mask.shape, np.uint64)
    tokens[mask] = 1 + ids.astype(np.uint64)

    rng = np.random.default_rng(0)
    numbers = rng.integers(1, 2**63, _TOKENS + 1, np.uint64)
    factors = numbers * 2 + 1  # odd
    hashed_lengths = lengths.astype(np.uint64) * factors[-1]
    return tokens @ factors[:-1] + hashed_lengths
