"""The spans of contexts that answer questions, as `kbert.answer` gives them: TensorFlow functions.

Contexts are read in windows, as by `kbert.data.labelled.windows`.
"""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from kbert.checkpoints.exports import serving
from kbert.checkpoints.exports.text_graph import Pieces, TextGraph, whole
from kbert.checkpoints.exports.text_model import dense, outputs
from kbert.data.labelled.spans import LONGEST_ANSWER
from kbert.data.labelled.windows import LONGEST_QUESTION, STRIDE
from kbert.graph import names
from kbert.model.bert_model import BertModel
from kbert.model.summary import ids_of

WINDOWS = 32  # that are computed at a time: those of many long contexts would fill the memory
_LEAST = float("-inf")


class _Windows(NamedTuple):
    """Parts of contexts, M of them, each behind its question.

    Attributes:
        ids, segments: int32 (M, None), ragged.
        begins, ends: int64 (M,), the part's tokens within the row.
        places: int64 (M,), the first of them among all contexts' tokens.
        records: int64 (M,), which question's.
    """

    ids: tf.RaggedTensor
    segments: tf.RaggedTensor
    begins: tf.Tensor
    ends: tf.Tensor
    places: tf.Tensor
    records: tf.Tensor


class _Spans(NamedTuple):
    """The best span of each window.

    Attributes:
        logits: float32 (M,), the sum of the two at the span.
        nulls: the same at [CLS].
        scores: P(start) · P(end) of the span, over the window's tokens of the context.
        scores_or_none: the same over [CLS] and them.
        null_scores: the same, of [CLS].
        first, last: int64 (M,), the span's tokens within the row.
    """

    logits: tf.Tensor
    nulls: tf.Tensor
    scores: tf.Tensor
    scores_or_none: tf.Tensor
    null_scores: tf.Tensor
    first: tf.Tensor
    last: tf.Tensor


def functions(bert, model, graph: TextGraph) -> dict[str, Callable]:
    """Return the functions of strings `questions` and `contexts` (N,), by their signatures' names.

    Args:
        bert: a `kbert.Bert` with the head "qa".
        model: its model of any length.
        graph: its tokenizer.
    """
    spans = [model.get_layer(name).output for name in (names.SPAN_START, names.SPAN_END)]
    view = BertModel(ids_of(model), spans, spec=None)
    limit, pad_id = serving.longest(bert), bert.config.pad_token_id

    def answer(questions, contexts, threshold=None):
        contexts = whole(contexts)
        read = graph.pieces(contexts)
        windows = _windows(graph, graph.pieces(questions).ids, read.ids, limit)
        spans = _of_all(view, windows, pad_id)
        return _answers(contexts, read, windows, spans, threshold)

    texts = [tf.TensorSpec((None,), tf.string, name) for name in ("questions", "contexts")]
    threshold = tf.TensorSpec((None,), tf.float32, "no_answer_threshold")
    return {
        "serving_default": tf.function(answer, texts, autograph=False),
        "no_answer": tf.function(answer, [*texts, threshold], autograph=False),
    }


def _windows(graph: TextGraph, asked, read, limit: int) -> _Windows:
    """Make the windows of questions' and contexts' ids, both int32 (N, None)."""
    asked = asked[:, :LONGEST_QUESTION]
    before, tokens = asked.row_lengths() + 2, read.row_lengths()
    width, tokens = _checked(limit - before - 1, tokens)
    step, last = width - tf.minimum(width // 2, STRIDE), tf.maximum(tokens - width, 0)
    counts = (last + step - 1) // step + 1
    records = tf.repeat(tf.range(read.nrows()), counts)
    step, last, before, base, size = (
        tf.gather(each, records)
        for each in (step, last, before, read.row_starts(), tf.minimum(width, tokens))
    )
    places = base + tf.minimum(tf.ragged.range(counts).flat_values * step, last)
    parts = tf.gather(read.flat_values, tf.ragged.range(places, places + size))
    ids, segments = graph.joined(tf.gather(asked, records), parts)
    return _Windows(ids, segments, before, before + size, places, records)


def _checked(width, tokens) -> list:
    """Both, once each is known to be positive: else TensorFlow's error says what was wrong."""
    room = "questions must leave room for a token of the context, got one that is too long"
    checks = [
        tf.debugging.assert_positive(width, room),
        tf.debugging.assert_positive(tokens, "contexts must have a token each, got one without"),
    ]
    with tf.control_dependencies(checks):
        return [tf.identity(each) for each in (width, tokens)]


def _of_all(view, windows: _Windows, pad_id: int) -> _Spans:
    """Return the spans, of some windows at a time."""

    def more(at, found):
        part = slice(at, at + WINDOWS)
        ids, segments = dense(windows.ids[part], pad_id), dense(windows.segments[part], 0)
        start, end = outputs(view, (ids, segments))
        new = _spans(start, end, windows.begins[part], windows.ends[part])
        joined = (tf.concat(both, 0) for both in zip(found, new, strict=True))
        return at + WINDOWS, _Spans(*joined)

    count = tf.shape(windows.begins)[0]
    none = _Spans(*[tf.zeros(0)] * 5, *[tf.zeros(0, tf.int64)] * 2)
    shapes = tf.TensorShape(()), _Spans(*[tf.TensorShape((None,))] * 7)
    start = tf.constant(0), none
    return tf.while_loop(lambda at, _: at < count, more, start, shapes, parallel_iterations=1)[1]


def _spans(start, end, begins, ends) -> _Spans:
    """By the logits (M, S) of windows whose context's tokens stand at begins … ends − 1."""
    place = tf.range(tf.shape(start, tf.int64)[1])
    inside = (place >= begins[:, None]) & (place < ends[:, None])
    first, last, logits = _best(_only(start, inside), _only(end, inside))
    with_none = inside | (place == 0)

    def score(among, first, last):
        both = (_only(start, among), first), (_only(end, among), last)
        shares = [tf.gather(tf.nn.softmax(each), at, batch_dims=1) for each, at in both]
        return shares[0] * shares[1]

    nothing = tf.zeros_like(first)
    return _Spans(
        logits,
        start[:, 0] + end[:, 0],
        score(inside, first, last),
        score(with_none, first, last),
        score(with_none, nothing, nothing),
        first,
        last,
    )


def _best(start, end):
    """First and last token, and sum of logits, of the span with the largest; (M, S) to (M,)."""
    length = tf.shape(end)[1]
    longer = tf.pad(end, [[0, 0], [0, LONGEST_ANSWER - 1]], constant_values=_LEAST)
    ends = tf.stack([longer[:, more : more + length] for more in range(LONGEST_ANSWER)], 2)
    sums = tf.reshape(start[:, :, None] + ends, [-1, length * LONGEST_ANSWER])
    best = tf.argmax(sums, 1)
    first = best // LONGEST_ANSWER
    return first, first + best % LONGEST_ANSWER, tf.gather(sums, best, batch_dims=1)


def _only(logits, places):
    return tf.where(places, logits, _LEAST)


def _answers(contexts, read: Pieces, windows: _Windows, spans: _Spans, threshold) -> dict:
    best, null = _chosen(windows, spans)
    found = _Spans(*(tf.gather(each, best) for each in spans))
    odds = tf.gather(spans.nulls, null) - found.logits
    before = tf.gather(windows.places - windows.begins, best)
    start = tf.gather(read.starts.flat_values, before + found.first)
    end = tf.gather(read.ends.flat_values, before + found.last)
    score = found.scores
    if threshold is not None:
        none = odds > threshold
        score = tf.where(none, tf.gather(spans.null_scores, null), found.scores_or_none)
        start, end = (tf.where(none, 0, each) for each in (start, end))
    text = tf.strings.substr(contexts, start, end - start, "UTF8_CHAR")
    return {"answer": text, "score": score, "start": start, "end": end, "odds": odds}


def _chosen(windows: _Windows, spans: _Spans):
    """Choose, per question, the window with the best span and that with the least at [CLS]."""
    rows = tf.RaggedTensor.from_value_rowids(spans.logits, windows.records)
    best = tf.argmax(dense(rows, _LEAST), 1)
    null = tf.argmax(dense(rows.with_values(-spans.nulls), _LEAST), 1)
    return best + rows.row_starts(), null + rows.row_starts()
