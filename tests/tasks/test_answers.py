"""`answer` by the rules of training and `evaluate`: long questions, no answer (run_squad.py's)."""

import math

import numpy as np
import pytest
from helpers.errors import check_named, raises
from helpers.marks import full
from helpers.sample_data import ANSWERED, sample_bert
from numpy.testing import assert_allclose

import kbert
from kbert.tasks.answering.squad import read_squad
from kbert.tasks.common.metrics import answer_scores

CONTEXT = "the cat sat on the red mat . a big dog and the moon"
QUESTIONS = ["who sat ?", "what is big", "dog ?", "moon sun sun", "mat"]


@pytest.fixture
def bert(berts):
    return berts["qa"]


@pytest.fixture(scope="module")
def reader():
    bert = sample_bert("qa")
    model = kbert.build_question_answering(bert.config, seq_len=None)
    random = np.random.default_rng(7)
    model.set_weights([w + random.normal(0, 0.3, w.shape) for w in model.get_weights()])
    return kbert.Bert(bert.config, "qa", model, bert.tokenizer)


def windows_by_hand(bert, question, context, stride):
    """(place of the first token of the context, spans of its tokens, two logits) per window."""
    tokenizer, limit = bert.tokenizer, bert.config.max_position_embeddings
    asked = tokenizer.encode(question, add_special_tokens=False).ids[:64]
    read = tokenizer.encode(context, add_special_tokens=False)
    width = limit - len(asked) - 3
    starts = [0]
    while starts[-1] + width < len(read):
        starts.append(min(starts[-1] + width - min(stride, width // 2), len(read) - width))
    first = [tokenizer.cls_id, *asked, tokenizer.sep_id]
    for at in starts:
        part = read.ids[at : at + width]
        ids = np.array([[*first, *part, tokenizer.sep_id]])
        segments = np.array([[0] * len(first) + [1] * (len(part) + 1)])
        logits = [np.array(one)[0] for one in bert.model([ids, segments])]
        yield len(first), read.offsets[at : at + width], *logits


def by_hand(windows, context, threshold):
    """(text, score, odds) by run_squad.py's rules, every span written out."""
    spans, nulls = [], []
    for first, offsets, begin, end in windows:
        places = [*([] if threshold is None else [0]), *range(first, first + len(offsets))]
        p, q = (
            {n: math.exp(x[n]) / sum(math.exp(x[m]) for m in places) for n in places}
            for x in (begin, end)
        )
        nulls.append((begin[0] + end[0], p.get(0, 1) * q.get(0, 1)))
        for a in range(len(offsets)):
            for b in range(a, min(a + 30, len(offsets))):
                i, j = first + a, first + b
                where = slice(offsets[a][0], offsets[b][1])
                spans.append((begin[i] + end[j], p[i] * q[j], context[where]))
    best, null = max(spans), min(nulls)
    odds = null[0] - best[0]
    if threshold is not None and odds > threshold:
        return "", null[1], odds
    return best[2], best[1], odds


@pytest.mark.full
@pytest.mark.parametrize("stride", [2, full(128)])
def test_no_answer_threshold_follows_run_squad(bert, stride):
    contexts = [CONTEXT] * 5
    odds = [one.odds for one in kbert.answer(bert, QUESTIONS, contexts, stride=stride)]
    assert len(set(odds)) == 5
    windows = [list(windows_by_hand(bert, one, CONTEXT, stride)) for one in QUESTIONS]
    between = sum(sorted(odds)[1:3]) / 2  # two below it, three above
    for threshold in (None, between, -1e9, 1e9, 0):
        found = kbert.answer(
            bert, QUESTIONS, contexts, stride=stride, no_answer_threshold=threshold
        )
        for each, one in zip(windows, found, strict=True):
            text, score, wanted = by_hand(each, CONTEXT, threshold)
            assert one.text == text == CONTEXT[one.start : one.end]
            assert_allclose([one.score, one.odds], [score, wanted], rtol=1e-4)
    none = kbert.answer(bert, QUESTIONS, contexts, stride=stride, no_answer_threshold=between)
    assert sum((one.text, one.start, one.end) == ("", 0, 0) for one in none) == 3


@pytest.mark.full
def test_answers_match_the_metrics_of_evaluate(reader):
    """Of 38 real questions those with the least odds have the answer that the model gives."""
    records = read_squad(ANSWERED)
    texts = [record.question for record in records], [record.context for record in records]
    given = kbert.answer(reader, *texts, progress=False)
    middle = np.median([one.odds for one in given])
    records = [
        record._replace(answers=((one.text, one.start),) if one.odds < middle else ())
        for record, one in zip(records, given, strict=True)
    ]
    figures = kbert.evaluate(reader, "qa", records)
    assert figures["best_f1"] == figures["best_exact"] == 1.0 > figures["exact_match"]
    answers = [[text for text, _ in record.answers] for record in records]
    assert sum(map(bool, answers)) == 19
    for name, threshold in (("exact_match", 0.0), ("best_exact", figures["best_exact_thresh"])):
        found = kbert.answer(reader, *texts, no_answer_threshold=threshold, progress=False)
        pairs = zip(answers, found, strict=True)
        exact = np.mean([answer_scores(known, one.text)[0] for known, one in pairs])
        assert_allclose(exact, figures[name])


def test_long_question_is_truncated_as_in_training(reader, messages):
    question, context = "who " * 130, "the cat sat on the mat"
    long, short = kbert.answer(reader, [question, "who " * 64], [context] * 2)
    assert (long.text, long.start) == (short.text, short.start)
    assert_allclose([long.score, long.odds], [short.score, short.odds], rtol=1e-5)
    (warning,) = messages
    check_named(warning, "answer", "1 of 2", "64")


@pytest.mark.parametrize("threshold", [math.nan, "0", True, [1.0]])
def test_no_answer_threshold_must_be_a_number(bert, threshold):
    with raises(ValueError, "no_answer_threshold"):
        kbert.answer(bert, "who ?", CONTEXT, no_answer_threshold=threshold)
