"""WordPiece as a part of a TensorFlow graph: strings to the ids that kbert's own tokenizer gives.

Of tensorflow-text's tokenizers FastWordpieceTokenizer is used, which cuts words into pieces: its
BertTokenizer cuts 4,820 of the assigned code points otherwise than transformers' tokenizer, which
kbert's is (version 2.21, uncased; 606 cased), and takes no special tokens in a text.
"""

from collections.abc import Iterator

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from kbert.data.tokenization import code_points
from kbert.data.tokenization.code_points import CLASS_BITS, GONE, ITSELF
from kbert.data.tokenization.vocabulary import Vocabulary

_BYTES = 4  # of a character in UTF-8, at most
_FLAGS = ("single_word", "lstrip", "rstrip", "normalized")  # of added tokens, that must be off


class TextGraph:
    """A WordPiece tokenizer in TensorFlow's operations, for a `tf.function` to call.

    Raise a ValueError for an added token that is matched in the cleaned text or by its neighbours,
    and for a vocabulary that truncates on the left.
    """

    def __init__(self, vocabulary: Vocabulary):
        _check_vocabulary(vocabulary)
        ids = {token: index for index, token in enumerate(vocabulary.all_tokens)}
        special = vocabulary.special_tokens
        self._cls_id = ids[special["cls"]]
        self._sep_id = ids[special["sep"]]
        self._pad_id = ids[special["pad"]]
        self._pad = special["pad"]
        self._unknown = special["unk"]
        self._most = vocabulary.max_word_chars
        self._second_segment = int(vocabulary.segments)

        self._added = _list_added(vocabulary)
        table = code_points.replacements(vocabulary)
        free = _list_free_characters(vocabulary, table.dropped)
        self._nobody = next(free)
        self._mark = next(free)
        self._stand_ins = [next(free) for _ in self._added]
        points = [ord(character) for character in self._stand_ins]
        self._table = table.add_words(points)

        self._ids = _number_pieces(vocabulary, self._added, ids)
        self._cutter = self._make_cutter(vocabulary, free)
        # Once in a graph, however often it is called: a SavedModel is written in half the time.
        any_texts = tf.TensorSpec((None,), tf.string)
        self._pieces = tf.function(self._cut_texts, [any_texts], autograph=False)

    def _make_cutter(self, vocabulary: Vocabulary, free: Iterator[str]):
        """Return tensorflow-text's tokenizer of words, in which stand-ins are words too."""
        findable = []
        for token in vocabulary.tokens:
            # C++ reads other tokens as none, or as shorter ones.
            is_findable = token and "\0" not in token
            findable.append(token if is_findable else next(free))
        return tf_text.FastWordpieceTokenizer(
            [*findable, *self._stand_ins],
            max_bytes_per_word=_BYTES * self._most,
            token_out_type=tf.int32,
            unknown_token=self._unknown,
            no_pretokenization=True,
        )

    def frame(self, texts, pairs, limit: int):
        """Return token ids and segment ids of texts or pairs, truncated as by `Tokenizer`.

        `texts` and `pairs` are strings (N,), UTF-8; `limit` counts [CLS] and [SEP]. The results are
        int32 (N, None), ragged.
        """
        first = self._pieces(texts)
        if pairs is None:
            pieces = [first[:, : limit - 2]]
        else:
            second = self._pieces(pairs)
            lengths = first.row_lengths()
            pair_lengths = second.row_lengths()
            count, pair_count = _longest_first(lengths, pair_lengths, limit - 3)
            pieces = [_beginning(first, count), _beginning(second, pair_count)]
        ids, segments = tf_text.combine_segments(pieces, self._cls_id, self._sep_id)
        return ids, segments * self._second_segment

    def _cut_texts(self, texts):
        """Return the ids of each text's pieces, neither framed nor truncated: (N, None), ragged."""
        texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace")
        texts = self._put_in_stand_ins(texts)
        points = tf.strings.unicode_decode(texts, "UTF-8")
        cleaned = tf.strings.unicode_encode(self._clean(points), "UTF-8")
        tokens = tf.strings.split(cleaned)

        is_long = tf.strings.length(tokens.flat_values, "UTF8_CHAR") > self._most
        known = tf.where(is_long, self._unknown, tokens.flat_values)
        known_tokens = tokens.with_flat_values(known)
        pieces = self._cutter.tokenize(known_tokens).merge_dims(1, 2)
        ids = tf.gather(self._ids, pieces.flat_values)

        # As `Tokenizer.encode_batch` refuses it: attention would leave the token out.
        message = f"a text must not hold {self._pad}, the padding token"
        tf.debugging.assert_none_equal(ids, self._pad_id, message=message)
        return pieces.with_flat_values(ids)

    def _put_in_stand_ins(self, texts):
        """Replace each added token by one character of private use, its stand-in.

        Before that, a stand-in that a text itself has becomes another character that is dropped.
        """
        reserved = "".join([self._mark, *self._stand_ins])
        texts = tf.strings.regex_replace(texts, f"[{reserved}]", self._nobody)

        added = [_quote(token) for token in self._added]
        any_added = "|".join(added)
        texts = tf.strings.regex_replace(texts, f"({any_added})", self._mark + r"\1")
        for token, stand_in in zip(self._added, self._stand_ins, strict=True):
            marked = self._mark + _quote(token)
            texts = tf.strings.regex_replace(texts, marked, stand_in)
        return texts

    def _clean(self, ragged):
        """Return code points (N, None) as the table says, with spaces between words."""
        points = ragged.flat_values
        table = self._table
        number = tf.gather(table.numbers, points)
        by_number = tf.RaggedTensor.from_row_splits(table.values, table.splits)
        replacements = tf.gather(by_number, tf.cast(number, tf.int32))
        sources = replacements.value_rowids()
        values = replacements.flat_values
        originals = tf.gather(points, sources)
        values = tf.where(values == ITSELF, originals, values)

        text_numbers = tf.gather(ragged.value_rowids(), sources)
        values = tf.cond(
            tf.reduce_any(values >= 1 << CLASS_BITS),
            lambda: _sort_combining(values, text_numbers),
            lambda: values,
        )
        values %= 1 << CLASS_BITS

        stays = values != GONE
        values = tf.boolean_mask(values, stays)
        text_numbers = tf.boolean_mask(text_numbers, stays)
        return tf.RaggedTensor.from_value_rowids(values, text_numbers, ragged.nrows())


def _list_added(vocabulary: Vocabulary) -> list[str]:
    """Return the added tokens, longest first.

    So of two that begin at the same place the longer one is found, as the Rust package does.
    """
    added = [entry["content"] for entry in vocabulary.added]
    return sorted(added, key=len, reverse=True)


def _number_pieces(vocabulary: Vocabulary, added: list[str], ids: dict[str, int]) -> np.ndarray:
    """Return the ids of the pieces that the cutter knows: WordPiece's, then stand-ins."""
    added_ids = [ids[token] for token in added]
    count = len(vocabulary.tokens)
    return np.array([*range(count), *added_ids], "int32")


def _list_free_characters(vocabulary: Vocabulary, dropped: np.ndarray) -> Iterator[str]:
    """Yield the dropped characters that no token has: a stand-in is one of private use."""
    used = set("".join(vocabulary.all_tokens))
    for point in reversed(dropped):
        if chr(point) not in used:
            yield chr(point)


def _sort_combining(values, text_numbers):
    """Sort runs of combining characters by class (The Unicode Standard, D109)."""
    classes = values // (1 << CLASS_BITS)
    starts_run = tf.cast(classes == 0, tf.int64)
    run = tf.cumsum(starts_run) + text_numbers
    keys = 256 * run + tf.cast(classes, tf.int64)
    return tf.gather(values, tf.argsort(keys, stable=True))


def _longest_first(first, second, most: int):
    """Return the tokens of two texts that stay, int64 (N,) each: the longer one is cut first."""
    # Of an odd number the longer text has one more; of equally long texts, the second. (Not so
    # tensorflow-text's ShrinkLongestTrimmer: the second has it, whatever their lengths were.)
    less = tf.minimum(first, second)
    more = tf.maximum(first, second)
    half = tf.constant(most // 2, tf.int64)
    fits = less + more <= most
    at_most_half = tf.minimum(less, half)
    less_left = tf.where(fits, less, at_most_half)
    more_left = tf.where(fits, more, most - less_left)
    swapped = first > second
    first_left = tf.where(swapped, more_left, less_left)
    second_left = tf.where(swapped, less_left, more_left)
    return first_left, second_left


def _beginning(ids, counts):
    """Return the first so many ids of each row."""
    columns = tf.ragged.range(counts)
    return tf.gather(ids, columns, batch_dims=1)


def _check_vocabulary(vocabulary: Vocabulary) -> None:
    """Raise a ValueError for rules that the graph does not have."""
    if vocabulary.truncation_side != "right":
        raise ValueError(
            "a model that takes texts must cut them off on the right, got the truncation_side "
            f"{vocabulary.truncation_side!r}"
        )
    for entry in vocabulary.added:
        flags = [flag for flag in _FLAGS if entry.get(flag, flag == "normalized")]
        is_plain = not flags or (flags == ["normalized"] and entry.get("special"))
        if not is_plain:
            raise ValueError(
                "text=True needs added tokens that stand in the text as they are, got "
                f"{entry['content']!r} with {', '.join(flags)}"
            )


def _quote(token: str) -> str:
    r"""Return a token for RE2, between \Q and \E, in which \E itself ends nothing."""
    return r"\Q" + token.replace(r"\E", r"\E\\E\Q") + r"\E"
