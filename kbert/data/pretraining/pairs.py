"""Pairs of segments: which sentences are an example, by Google's recipe.

google-research/bert, create_pretraining_data.py, walks a document: sentences are gathered until
they reach the target length; a random number of them is segment A; in half of the examples, and
where there is one sentence only, B comes from another document, and the sentences that were not
used are walked again; else B is the rest.

An epoch's plan is the sentences with which its examples begin: everything else about an example
follows from (seed, epoch, first sentence). All documents are walked at once, an example each a
round, so that a plan takes a few NumPy calls a round, not Python for each example.

Differs from Google:
- B is never from the same document; Google tries ten times and then takes it all the same.
- The target length is drawn for each example; Google draws it once a document, and since a document
  cut short gives many more examples, far more than the 10 % of them are short.
- Documents of more than `PART` sentences are walked in parts of so many.
"""

from dataclasses import dataclass

import numpy as np

from kbert.data.corpus.shards import Shards
from kbert.data.counter_rng import below, fork, heads, key_of, uniform
from kbert.data.pretraining.masking import Examples, Filled

PART = 2048

_SHORT, _TARGET, _CUT, _RANDOM, _DOCUMENT, _SENTENCE, _FRONT_A, _FRONT_B, _ORDER = range(9)
_EPOCH = 1  # of the keys that a seed starts


class Pairs:
    """The plan of every epoch, of examples of `seq_len` tokens, [CLS] and both [SEP] included.

    `short_seq_probability` of the examples have a random target length, uniform in 2 … seq_len − 3.
    """

    def __init__(self, shards: Shards, seq_len: int, short_seq_probability: float, seed: int):
        self.shards = shards
        self.seq_len = seq_len
        self.seed = seed
        self.short_seq_probability = short_seq_probability

        starts = np.asarray(shards.starts)
        ends = np.asarray(shards.ends)
        counts = -(-(ends - starts) // PART)  # of each document's parts
        firsts = np.cumsum(counts) - counts
        self._document = np.repeat(np.arange(len(starts)), counts)
        first_of_document = np.repeat(firsts, counts)
        number = np.arange(len(self._document)) - first_of_document
        self._begins = starts[self._document] + number * PART
        document_ends = ends[self._document]
        self._ends = np.minimum(self._begins + PART, document_ends)

    def plan(self, epoch: int) -> np.ndarray:
        """Return the first sentences of the examples of an epoch, in its order, int64."""
        key = key_of(self.seed, _EPOCH, epoch)
        here, end = self._begins, self._ends
        firsts = []
        while len(here):
            firsts.append(here)
            keys = fork(key, here)
            *_, following = self._walk(keys, here, end)
            left = following < end
            here, end = following[left], end[left]

        first = np.concatenate(firsts)
        scores = fork(fork(key, first), _ORDER)
        return first[np.argsort(scores, kind="stable")]

    def select(self, epoch: int, first: np.ndarray) -> "PairExamples":
        """Return the examples of an epoch that begin with those sentences."""
        keys = fork(key_of(self.seed, _EPOCH, epoch), first)
        part = np.searchsorted(self._begins, first, "right") - 1
        part_end = self._ends[part]
        target, cut, end, is_random, _ = self._walk(keys, first, part_end)
        offsets = self.shards.offsets
        a_start = offsets[first]
        a_length = offsets[cut] - a_start

        random_first, random_end = self._random_segment(
            keys, self._document[part], target - a_length
        )
        b_first = np.where(is_random, random_first, cut)
        b_end = np.where(is_random, random_end, end)
        b_start = offsets[b_first]
        b_length = offsets[b_end] - b_start

        a_left, b_left = truncate_pair(a_length, b_length, self.seq_len - 3)
        return PairExamples(
            keys=keys,
            a_start=a_start + heads(keys, _FRONT_A, a_length - a_left),
            a_length=a_left,
            b_start=b_start + heads(keys, _FRONT_B, b_length - b_left),
            b_length=b_left,
            is_random=is_random,
        )

    def _walk(self, keys: np.ndarray, here: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, ...]:
        """One example each: target length, where A ends, where it ends, whether B is random, next.

        All but the first and fourth are numbers of sentences.
        """
        longest = self.seq_len - 3
        is_short = uniform(keys, _SHORT) < self.short_seq_probability
        short_target = 2 + below(keys, _TARGET, longest - 1)
        target = np.where(is_short, short_target, longest)
        offsets = self.shards.offsets
        target_offsets = offsets[here] + target
        reached = np.searchsorted(offsets, target_offsets, "left")
        reached = np.minimum(reached, end)

        count = reached - here
        # Google's randint(1, len − 1) of at least two sentences; one is A, whole.
        random_count = 1 + below(keys, _CUT, count - 1)
        a_count = np.where(count > 1, random_count, 1)
        cut = here + a_count
        is_heads = uniform(keys, _RANDOM) < 0.5
        is_random = (count == 1) | is_heads
        following = np.where(is_random, cut, reached)
        return target, cut, reached, is_random, following

    def _random_segment(self, keys, document, wanted) -> tuple[np.ndarray, np.ndarray]:
        """Return the sentences of a random B: the first, and the one after the last."""
        starts = self.shards.starts
        ends = self.shards.ends
        offsets = self.shards.offsets
        num_others = max(len(starts) - 1, 1)
        other = below(keys, _DOCUMENT, num_others)
        other += other >= document

        other_start = starts[other]
        other_end = ends[other]
        sentences = other_end - other_start
        first = other_start + below(keys, _SENTENCE, sentences)

        target_offsets = offsets[first] + wanted
        reached = np.searchsorted(offsets, target_offsets, "left")
        end = np.maximum(reached, first + 1)
        return first, np.minimum(end, other_end)


@dataclass(frozen=True)
class PairExamples(Examples):
    """Pairs: starts and lengths of their segments, int64, and whether B is random."""

    a_start: np.ndarray
    a_length: np.ndarray
    b_start: np.ndarray
    b_length: np.ndarray
    is_random: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """Tokens, [CLS] and [SEP] included."""
        return self.a_length + self.b_length + 3

    @property
    def maskable(self) -> np.ndarray:
        """Tokens that may be predicted."""
        return self.a_length + self.b_length

    def fill(self, shards: Shards, seq_len: int) -> Filled:
        """Return [CLS] A [SEP] B [SEP], padded."""
        tokenizer = shards.tokenizer
        index = np.arange(seq_len)
        a_end = 1 + self.a_length[:, None]  # where the first [SEP] stands
        b_begin = a_end + 1
        b_end = b_begin + self.b_length[:, None]  # where the last [SEP] stands
        in_a = (index >= 1) & (index < a_end)
        in_b = (index >= b_begin) & (index < b_end)
        is_text = in_a | in_b
        is_separator = (index == a_end) | (index == b_end)

        a_source = self.a_start[:, None] + index - 1
        b_source = self.b_start[:, None] + index - b_begin
        source = np.where(in_a, a_source, b_source)
        ids = np.full(is_text.shape, tokenizer.pad_id, np.int32)
        ids[is_text] = shards.take(source[is_text])
        ids[:, 0] = tokenizer.cls_id
        ids[is_separator] = tokenizer.sep_id

        in_second_segment = (index >= b_begin) & (index <= b_end)
        segments = in_second_segment.astype(np.int32)
        is_first = (index == 1) | (index == b_begin)
        return Filled(ids, segments, is_text, is_first)


def truncate_pair(a: np.ndarray, b: np.ndarray, capacity: int) -> tuple[np.ndarray, np.ndarray]:
    """Truncate two lengths: the longer one, B if equal, loses a token until both fit.

    This is Google's truncate_seq_pair in closed form.
    """
    fits = a + b <= capacity
    shorter = np.minimum(a, b)
    most_of_a = np.maximum(capacity - shorter, (capacity + 1) // 2)
    a_left = np.minimum(a, most_of_a)
    b_left = np.minimum(b, capacity - a_left)
    a_length = np.where(fits, a, a_left)
    b_length = np.where(fits, b, b_left)
    return a_length, b_length
