"""The words of texts and their labels, as `kbert.tag` gives them: TensorFlow functions."""

from collections.abc import Callable

import tensorflow as tf

from kbert.checkpoints.exports import serving
from kbert.checkpoints.exports.text_graph import Pieces, TextGraph, whole
from kbert.checkpoints.exports.text_model import dense, label_names, outputs
from kbert.graph import names
from kbert.model.bert_model import BertModel
from kbert.model.summary import ids_of

_SPACE = r"[ \t\n\r\p{Z}]"  # what separates words, as in `kbert.tasks.tagging.words`


def functions(bert, model, graph: TextGraph) -> dict[str, Callable]:
    """Return the function of strings `texts` (N,), by its signature's name.

    Args:
        bert: a `kbert.Bert` with the head "tokens".
        model: its model of any length.
        graph: its tokenizer.
    """
    view = BertModel(ids_of(model), model.get_layer(names.TOKEN_CLASSIFIER).output, spec=None)
    punctuation = bert.split_punctuation
    labels = tf.constant(label_names(bert, view.outputs[0].shape[-1]))
    most, pad_id = serving.longest(bert) - 2, bert.config.pad_token_id

    def tag(texts):
        texts = whole(texts)
        pieces = Pieces(*(each[:, :most] for each in graph.pieces(texts)))
        ids, segments = graph.joined(pieces.ids)
        (logits,) = outputs(view, (dense(ids, pad_id), dense(segments, 0)))
        if punctuation is not None:
            pieces = _between_spaces(texts, pieces, punctuation)
        return _words(texts, pieces, logits, labels)

    spec = [tf.TensorSpec((None,), tf.string, "texts")]
    return {"serving_default": tf.function(tag, spec, autograph=False)}


def _between_spaces(texts, pieces: Pieces, punctuation: str) -> Pieces:
    """Join words with no space between, but for punctuation at their ends: `cut_into_words`.

    Characters that the tokenizer drops are left out at a word's ends.
    """
    rows, starts = pieces.words.value_rowids(), pieces.starts.flat_values
    ends = pieces.ends.flat_values
    text = tf.gather(texts, rows)
    lengths = tf.maximum(starts[1:] - ends[:-1], 0)
    gaps = tf.strings.substr(text[:-1], ends[:-1], lengths, "UTF8_CHAR")
    apart = (rows[1:] != rows[:-1]) | tf.strings.regex_full_match(gaps, f"(?s).*{_SPACE}.*")
    begins = tf.concat([tf.ones_like(rows[:1], tf.bool), apart], 0)
    chunk = tf.cumsum(tf.cast(begins, tf.int64)) - 1
    piece = tf.strings.substr(text, starts, ends - starts, "UTF8_CHAR")
    is_mark = tf.reduce_any(piece[:, None] == tf.constant(list(punctuation), tf.string), 1)
    count = tf.size(piece, tf.int64)
    number = tf.range(count)
    first = tf.math.segment_min(tf.where(is_mark, count, number), chunk)
    last = tf.math.segment_max(tf.where(is_mark, tf.constant(-1, tf.int64), number), chunk)
    cut_off = (number < tf.gather(first, chunk)) | (number > tf.gather(last, chunk))
    new = begins | cut_off | tf.concat([tf.zeros_like(begins[:1]), cut_off[:-1]], 0)
    return pieces._replace(words=pieces.words.with_flat_values(tf.cumsum(tf.cast(new, tf.int64))))


def _words(texts, pieces: Pieces, logits, labels) -> dict:
    """Give each word the label of its first piece (the paper, section 5.3)."""
    word, rows = pieces.words.flat_values, pieces.words.value_rowids()
    other, edge = word[1:] != word[:-1], tf.ones_like(word[:1], tf.bool)
    first, last = (tf.where(tf.concat(each, 0))[:, 0] for each in ([edge, other], [other, edge]))
    rows = tf.gather(rows, first)
    column = 1 + first - tf.gather(pieces.words.row_starts(), rows)  # [CLS] is before them
    best, label = tf.math.top_k(tf.nn.softmax(tf.gather_nd(logits, tf.stack([rows, column], 1))))
    start = tf.gather(pieces.starts.flat_values, first)
    end = tf.gather(pieces.ends.flat_values, last)

    def by_text(values, filler):
        found = tf.RaggedTensor.from_value_rowids(values, rows, tf.shape(texts, tf.int64)[0])
        return found.to_tensor(filler)

    text = tf.strings.substr(tf.gather(texts, rows), start, end - start, "UTF8_CHAR")
    return {
        "words": by_text(text, ""),
        "labels": by_text(tf.gather(labels, label[:, 0]), ""),
        "probabilities": by_text(best[:, 0], 0.0),
        "starts": by_text(start, -1),
        "ends": by_text(end, -1),
    }
