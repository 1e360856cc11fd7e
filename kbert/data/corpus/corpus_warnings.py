"""Warnings about a corpus that is valid but probably not what its owner intended."""

import logging

import numpy as np

from kbert.data.corpus.shards import Shards

_logger = logging.getLogger("kbert")
_MOST = 0.9  # share of documents of one sentence, from which on pairs are hardly ever true ones
_COMPARED = 100_000  # documents that are compared, the first ones
_TOKENS = 32  # of a document, by which it is told from others of its length
_SEVERAL = 10  # documents, of which a share says something


def warn_of_corpus(shards: Shards, *, pairs: bool = True) -> None:
    """Report documents of one sentence, and documents that repeat others.

    Args:
        shards: the corpus.
        pairs: whether pairs of sentences are made of it, for next-sentence prediction.
    """
    if shards.documents < _SEVERAL:
        return
    single = int((shards.ends - shards.starts == 1).sum())
    if pairs and single > _MOST * shards.documents:
        _logger.warning(
            "%s of %s documents have one sentence, which none follows: nearly every next-sentence "
            "label is 1 (random). Put the sentences of a document on successive lines, with a "
            "blank line between documents, or pretrain with mlm_only (--mlm-only)",
            *(f"{single:,}", f"{shards.documents:,}"),
        )
    keys = _keys_of_documents(shards)
    repeated = len(keys) - len(np.unique(keys))
    if 2 * repeated > len(keys):
        first = "" if len(keys) == shards.documents else "the first "
        _logger.warning(
            "%s of %s%s documents repeat another", f"{repeated:,}", first, f"{len(keys):,}"
        )


def _keys_of_documents(shards: Shards) -> np.ndarray:
    """Return a hash of each document's length and first tokens, uint64."""
    first = shards.offsets[shards.starts[:_COMPARED]]
    lengths = shards.document_tokens[:_COMPARED]
    columns = np.arange(_TOKENS)
    mask = columns < lengths[:, None]
    tokens = np.zeros(mask.shape, np.uint64)
    tokens[mask] = 1 + shards.take((first[:, None] + columns)[mask]).astype(np.uint64)
    odd = np.random.default_rng(0).integers(1, 2**63, _TOKENS + 1, np.uint64) * 2 + 1
    return tokens @ odd[:-1] + lengths.astype(np.uint64) * odd[-1]
