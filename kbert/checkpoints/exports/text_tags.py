"""The words of texts and their labels, as `kbert.tag` gives them: TensorFlow functions."""

from collections.abc import Callable

import tensorflow as tf

from kbert.checkpoints.exports import serving
from kbert.checkpoints.exports.text_graph import Pieces, TextGraph, whole
from kbert.checkpoints.exports.text_model import dense, label_names, outputs
from kbert.graph import names
from kbert.model.bert_model import BertModel
from kbert.model.told_by_layers import ids_of


def functions(bert, model, graph: TextGraph) -> dict[str, Callable]:
    """The function of strings `texts` (N,), by its signature's name.

    Args:
        bert: a `kbert.Bert` with the head "tokens".
        model: its model of any length.
        graph: its tokenizer.
    """
    view = BertModel(ids_of(model), model.get_layer(names.TOKEN_CLASSIFIER).output, spec=None)
    labels = tf.constant(label_names(bert, view.outputs[0].shape[-1]))
    most, pad_id = serving.longest(bert) - 2, bert.config.pad_token_id

    def tag(texts):
        texts = whole(texts)
        pieces = Pieces(*(each[:, :most] for each in graph.pieces(texts)))
        ids, segments = graph.joined(pieces.ids)
        (logits,) = outputs(view, (dense(ids, pad_id), dense(segments, 0)))
        return _words(texts, pieces, logits, labels)

    spec = [tf.TensorSpec((None,), tf.string, "texts")]
    return {"serving_default": tf.function(tag, spec, autograph=False)}


def _words(texts, pieces: Pieces, logits, labels) -> dict:
    """Each word has the label of its first piece (the paper, section 5.3)."""
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
