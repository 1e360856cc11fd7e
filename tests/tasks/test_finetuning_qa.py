"""Question answering: files, answers by characters, windows, best spans, a real sample."""

import json

import numpy as np
import pytest
from helpers.errors import check_named, raises
from helpers.sample_data import ANSWERED, tokenizer

from kbert.data.labelled.columns import ColumnOptions
from kbert.data.labelled.length_buckets import BucketedBatches
from kbert.graph.names import SPAN_END, SPAN_START
from kbert.tasks.answering.squad import Question, read_squad, take_questions
from kbert.tasks.answering.training import encode_squad, find_best_answers, find_best_span
from kbert.tasks.finetuning.task import task_of


def asked(context: str, *answers: str, question: str = "who?", nth: int = 0) -> Question:
    found = []
    for text in answers:
        start = -1
        for _ in range(nth + 1):
            start = context.index(text, start + 1)
        found.append((text, start))
    return Question("q1", question, context, tuple(found), "f, question q1")


def labelled(examples):
    """(record, text between the labels or None) of each window, by its offsets and record."""
    pairs = zip(*examples.labels.values(), examples.notes, strict=True)
    for start, end, note in pairs:
        if start == 0:
            assert end == 0
            yield note.record, None
        else:
            offsets = note.offsets
            yield note.record, slice(offsets[start - note.first][0], offsets[end - note.first][1])


@pytest.mark.parametrize(
    ("context", "answer", "nth"),
    [
        ("Café Ångström, naïve e\u0301a.", "Ångström", 0),
        ("in 東京都 and 東京 again", "東京", 1),
        ("Rollo met Rollo and Rollo.", "Rollo", 2),
        ("I\u0307stanbul  was\u200b here; 😂 it is.", "it is", 0),
        ("a\tlong\n\nanswer, with (marks)!", "long\n\nanswer, with (marks)", 0),
        ("the end", "end", 0),
        ("begin here", "begin", 0),
    ],
)
def test_an_answer_is_found_by_its_characters(context, answer, nth):
    record = asked(context, answer, nth=nth)
    examples = encode_squad([record], tokenizer(), 60)
    (where,) = [found for _, found in labelled(examples)]
    assert context[where] == answer
    assert where.start == record.answers[0][1]


def test_an_answer_within_a_word_becomes_the_pieces_that_hold_it():
    record = asked("the xyzzy end", "yzz")
    examples = encode_squad([record], tokenizer(), 60)
    ((_, where),) = labelled(examples)
    assert record.context[where] == "yzz"  # x ##y ##z ##z ##y


def test_windows_hold_the_whole_answer_or_point_to_cls():
    """Answers at each place: a window ends a token before the end of one of them."""
    words, vocabulary = [f"{'abcdefgh'[n % 8]}{n}" for n in range(70)], tokenizer()
    context, answers = " ".join(words), [" ".join(words[n : n + 3]) for n in range(20, 45)]
    records = [asked(context, answer) for answer in answers]
    none = Question("q2", "why?", context, (), "f, question q2")
    examples = encode_squad([*records, none], vocabulary, 40, stride=10)
    pieces = len(vocabulary.encode(context, add_special_tokens=False))
    seen, hits = set(), set()
    for (number, where), note, ids in zip(
        labelled(examples), examples.notes, examples.ids, strict=True
    ):
        assert len(ids) <= 40
        assert ids[note.first - 1] == ids[-1] == vocabulary.sep_id
        assert len(ids) == note.first + len(note.offsets) + 1
        if number == len(records):
            assert where is None
            continue
        seen |= set(note.offsets)
        answer, start = records[number].answers[0]
        end = start + len(answer)
        whole = note.offsets[0][0] <= start and note.offsets[-1][1] >= end
        assert where == (slice(start, end) if whole else None)
        hits |= {number} if whole else set()
    assert len(seen) == pieces
    assert len(hits) == len(records)
    assert len(examples) > 4 * len(records)


def test_long_questions_are_cut_with_a_warning(messages):
    record = asked("a b c", "b", question="x " * 80)
    examples = encode_squad([record, asked("a b", "b")], tokenizer(), 100)
    (warning,) = messages
    check_named(warning, "f", "1 of 2", "64")
    assert len(examples.ids[0]) == 1 + 64 + 1 + 3 + 1


def test_an_answer_without_a_token_counts_for_nothing(messages):
    records = [asked("a \u200b b", "\u200b"), asked("a b", "b")]
    examples = encode_squad(records, tokenizer(), 20)
    (warning,) = messages
    check_named(warning, "f", "1 of 2", "answers")
    batch = BucketedBatches(examples, batch_size=2).batch(0)
    labels, weights = batch.labels[SPAN_START], batch.weights[SPAN_START]
    assert sorted(weights) == [0, 0.5]  # half of the loss
    assert labels[weights.argmax()] == examples.labels[SPAN_START][1] > 0


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (asked(" ", question="a"), ("question q1", "context")),
        (asked("a", question="a " * 20), ("question q1",)),
    ],
)
def test_context_or_question_without_room_is_refused(record, message):
    with raises(ValueError, *message):
        encode_squad([record], tokenizer(), 20)


def squad(**change) -> dict:
    answer = {"text": "b c", "answer_start": 2}
    entry = {"id": "x7", "question": "q", "answers": [answer]} | change
    return {"data": [{"title": "T", "paragraphs": [{"context": "a b c", "qas": [entry]}]}]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{\n]", ("s.json", "JSON", '"data"', '"paragraphs"')),
        ("{\n]", ("s.json",)),
        ("a film\t1\n", ("text that begins with 'a film\\t1'",)),
        ("", ("an empty file",)),
        (b'{"\xff": 1}', ("s.json", "UTF-8")),
        ("[]", ('"data"',)),
        ('{"data": []}', ("s.json", "got none")),
        (
            squad(answers=[{"text": "b c", "answer_start": 1}]),
            ("question x7", "'b c'"),
        ),
        (squad(answers=[{"text": "b c", "answer_start": -3}]), ("question x7", "-3")),
        (squad(answers=[{"text": "b c"}]), ("question x7", '"answer_start"')),
        (squad(answers=[]), ("question x7", "answer")),
        (squad(answers=[], is_impossible=False), ("question x7", "answer")),
        (
            squad(is_impossible=True),
            ("question x7", "is_impossible", "got 1"),
        ),
        (squad(question=5), ("question x7", '"question"', "got 5")),
        (squad(id=None), ("T, paragraph 1", '"id"')),
    ],
)
def test_a_bad_file_is_refused_in_one_line(tmp_path, content, message):
    path = tmp_path / "s.json"
    content = json.dumps(content) if isinstance(content, dict) else content
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with raises(ValueError, *message) as error:
        read_squad(path)
    assert "\n" not in str(error.value)


def test_best_span_equals_brute_force():
    random = np.random.default_rng(3)
    for count in (1, 2, 7, 23):
        start, end = random.normal(size=(2, count))
        pairs = [(a, b) for a in range(count) for b in range(a, min(a + 5, count))]
        best = max(pairs, key=lambda pair: start[pair[0]] + end[pair[1]])
        logit, *span = find_best_span(start, end, 5)
        assert tuple(span) == best
        assert logit == pytest.approx(start[best[0]] + end[best[1]])
    assert find_best_span(np.eye(9)[2], np.eye(9)[6], 5)[1:] == (2, 6)  # five tokens
    assert find_best_span(np.eye(9)[2], np.eye(9)[7], 5)[1:] != (2, 7)


def test_best_window_wins_or_there_is_no_answer():
    words = [f"{'abcdefgh'[n % 8]}{n}" for n in range(70)]
    records = [asked(" ".join(words), words[40]), asked("x y z", question="why?")]
    examples = encode_squad(records, tokenizer(), 40, stride=10)
    logits = {}
    for name in (SPAN_START, SPAN_END):
        logits[name] = [np.zeros(len(ids)) for ids in examples.ids]
        for row, place in zip(logits[name], examples.labels[name], strict=True):
            row[0] = 3
            row[place] = 4 if place else row[0]
    found = find_best_answers(records, examples.notes, logits[SPAN_START], logits[SPAN_END])
    assert found[0].text == words[40]
    assert records[0].context[found[0].start : found[0].end] == words[40]
    assert found[0].odds < 0 < found[1].odds
    figures = task_of("qa").scores(records, examples, logits, None).metrics()
    names = ("exact_match", "f1", "HasAns_f1", "NoAns_exact", "best_exact", "best_f1")
    assert [figures[name] for name in names] == [1.0] * 6
    assert figures["best_f1_thresh"] == found[0].odds  # only the first answer is given
    examples = encode_squad(records[:1], tokenizer(), 40, stride=10)
    logits = {name: rows[: len(examples)] for name, rows in logits.items()}
    figures = task_of("qa").scores(records[:1], examples, logits, None).metrics()
    assert figures == {"exact_match": 1.0, "f1": 1.0}  # SQuAD 1.1


def test_no_answer_score_is_the_minimum_over_windows():
    record = asked(" ".join("abcdefgh" * 6), "b")
    examples = encode_squad([record], tokenizer(), 40, stride=10)
    assert len(examples) == 2
    for first, least in ((5, 5), (9, 7)):  # at [CLS]: the second window has 7
        start = [np.zeros(len(ids)) for ids in examples.ids]
        start[0][0], start[1][0], start[0][examples.notes[0].first] = first, 7, 6
        end = [np.zeros(len(ids)) for ids in examples.ids]
        (found,) = find_best_answers([record], examples.notes, start, end)
        assert (found.text.split(" ")[0], found.logit, found.odds) == ("a", 6, least - 6)


def test_columns_of_questions_can_be_named():
    row = {"q": "who?", "c": "a cat sat", "a": {"text": ["cat"], "answer_start": [2]}}
    (found,) = take_questions([row], "train", ColumnOptions("q", "c", "a"))
    assert (found.question, found.context, found.answers) == ("who?", "a cat sat", (("cat", 2),))
    with raises(ValueError, "SQuAD"):
        read_squad(ANSWERED, ColumnOptions("q"))
