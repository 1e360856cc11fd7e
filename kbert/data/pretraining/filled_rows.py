"""Examples of a batch, filled with tokens, before any of them is masked."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Filled:
    """Some examples.

    Attributes:
        ids: int32 (B, S), padded.
        segments: int32 (B, S).
        maskable: bool (B, S): the tokens of the text; not [CLS], [SEP], padding.
        first: bool (B, S): where a segment begins, so that no word goes on from the one before.
    """

    ids: np.ndarray
    segments: np.ndarray
    maskable: np.ndarray
    first: np.ndarray
