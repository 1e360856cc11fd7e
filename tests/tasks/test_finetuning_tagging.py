"""Token classification: files, the alignment of labels and pieces, windows, a real sample."""

import time

import numpy as np
import pytest
from helpers import texts
from helpers.errors import check_logged, raises
from helpers.peer_outputs import run_peer
from helpers.peer_tokenizers import VOCABULARY
from helpers.sample_data import TAGGED, tokenizer

import kbert
from kbert.data.labelled.columns import ColumnOptions
from kbert.data.labelled.length_buckets import IGNORED
from kbert.data.padding import windows
from kbert.graph.names import TOKEN_CLASSIFIER
from kbert.tasks.finetuning.task import task_of
from kbert.tasks.tagging.reading import Sentence
from kbert.tasks.tagging.training import TASK as TAGGING

LABELS = ("B-x", "I-x", "O")


def sentence(*words: str) -> Sentence:
    labels = tuple(LABELS[place % 3] for place in range(len(words)))
    return Sentence(words, labels, tuple(f"f, line {n}" for n in range(len(words))))


def written(tmp_path, text: str | bytes, name: str = "a.conll"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_conll_conllu_and_jsonl_are_read(tmp_path):
    conll = "-DOCSTART- -X- O\n\nThe DT O\nRhine NNP B-x\n\n\n# SYM O\r\n"
    found = TAGGING.read(written(tmp_path, conll))
    assert [(s.words, s.labels) for s in found] == [
        (("The", "Rhine"), ("O", "B-x")),
        (("#",), ("O",)),
    ]
    assert found[1].locations[0].endswith("a.conll, line 7")
    rest = "\t".join("______")
    lines = [f"1-2\tdon't\t_\t_\t{rest}", f"1\tdo\tdo\tAUX\t{rest}", f"2\tn't\tnot\tPART\t{rest}"]
    text = "# sent_id = 1\n" + "\n".join([*lines, f"2.1\tx\tx\tX\t{rest}"]) + "\n"
    (found,) = TAGGING.read(written(tmp_path, text, "a.conllu"))
    assert (found.words, found.labels) == (("do", "n't"), ("AUX", "PART"))
    text = '{"words": ["New York", "東京"], "labels": ["B-x", "O"]}\n\n'
    (found,) = TAGGING.read(written(tmp_path, text, "a.jsonl"))
    assert (found.words, found.labels) == (("New York", "東京"), ("B-x", "O"))


@pytest.mark.parametrize("end", ["\r", "\r\n"])
def test_any_line_ending_gives_the_same_sentences(tmp_path, end):
    text = TAGGED.read_bytes()
    found = TAGGING.read(written(tmp_path, text.replace(b"\n", end.encode())))
    assert [one[:2] for one in found] == [one[:2] for one in TAGGING.read(TAGGED)]


@pytest.mark.full
def test_long_sentences_are_windowed_in_linear_time(tmp_path):
    """Where blank lines are forgotten, the whole file is one sentence."""
    pieces = tokenizer()
    seconds = []
    for words in (2_000, 16_000):
        long = TAGGING.read(written(tmp_path, "the\tO\nbig\tB-x\n" * (words // 2)))
        times = []
        for _ in range(3):  # the collector or another process may hold one of them up
            start = time.process_time()
            examples = TAGGING.encode(long, pieces, LABELS, 32)
            times.append(time.process_time() - start)
        seconds.append(min(times))
        counted = [word for note in examples.notes for word in note.words]
        assert sorted(counted) == list(range(words))  # each once
    assert seconds[1] < 30 * seconds[0]  # of 8 times the words; it was 64 times


def test_word_is_labelled_in_its_most_central_window():
    """As a search through all windows finds it."""
    pieces, width = tokenizer(), 9
    long = sentence(*(["the", "unbelievable", "zoo"] * 31))
    (encoding,) = pieces.encode_batch([" ".join(long.words)], add_special_tokens=False)
    examples = TAGGING.encode([long], pieces, LABELS, width + 2)
    where = {word: n for n, note in enumerate(examples.notes) for word in note.words}
    spans = windows(len(encoding), width, width // 2)
    first = {}
    for token, word in enumerate(encoding.word_ids):
        first.setdefault(word, token)
    for word, token in first.items():
        room = [min(token - start, end - 1 - token) for start, end in spans]
        assert where[word] == room.index(max(room))
    assert len(first) == 93


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("a\tO\nb\n", "a.conll", "a.conll, line 2: expected a word and, last, its label, got 'b'"),
        ("a\tO\nb\t \n", "a.conll", "a.conll, line 2: expected a word and, last, its label"),
        ("a NN O\nb NN\n", "a.conll", "a.conll, line 2: expected 3 columns as before, got 2"),
        ("a\tO\n\n# O\n# c\tO\tO\n", "a.conll", "line 4: expected 2 columns as before, got 3"),
        ("# text = a O\n# newdoc\n", "a.conll", "a.conll: expected sentences of labelled words"),
        ("\n\n", "a.conll", "a.conll: expected sentences of labelled words, got none"),
        (b"a\tO\n\xff\tO\n", "a.conll", "a.conll, line 2: expected UTF-8 text, got byte 0xff"),
        ("1\ta\tO\n", "a.conllu", "a.conllu, line 1: expected 10 columns, got 3"),
        ("{", "a.jsonl", "a.jsonl, line 1 must be a JSON object (one object per line), got"),
        ('{"words": ["a"]}', "a.json", 'line 1: expected a list "labels", got words'),
        ('{"words": ["a"], "labels": ["O", "O"]}', "a.json", "line 1: 1 words but 2 labels"),
        ("[1]", "a.json", "line 1 must be a JSON object (one object per line), got list"),
    ],
)
def test_a_bad_file_is_refused_in_one_line(tmp_path, text, name, message):
    with pytest.raises(ValueError) as error:
        TAGGING.read(written(tmp_path, text, name))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_header_of_words_is_skipped(tmp_path, messages):
    text = "token pos ner\nAda NNP B-x\nmet VBD O\n\nit PRP O\n"
    found = TAGGING.read(written(tmp_path, text))
    assert [sentence.words for sentence in found] == [("Ada", "met"), ("it",)]
    check_logged(messages, "a.conll, line 1", "token, ner")
    for options in (ColumnOptions(label="pos"), ColumnOptions("1", None, "2")):
        found = TAGGING.read(written(tmp_path, text), options=options)
        assert [sentence.labels for sentence in found] == [("NNP", "VBD"), ("PRP",)]
    (row,) = TAGGING.read([{"w": ["a"], "t": ["x"]}], "train", ColumnOptions("w", None, "t"))
    assert row[:2] == (("a",), ("x",))
    words = "token D\n" + "the D\nsun N\n" * 60
    (found,) = TAGGING.read(written(tmp_path, words), options=ColumnOptions(no_header=True))
    assert found.words[0] == "token" and len(found.words) == 121


def test_a_label_per_text_is_refused(tmp_path):
    text = "a fine film\tgood\ndull\tbad\ntwo hours of my life\tbad\n"
    with raises(ValueError, "a.tsv, line 1", "tag", "classify"):
        TAGGING.read(written(tmp_path, text, "a.tsv"))


def test_comments_are_not_words(tmp_path):
    text = "# newdoc id = 1\n# text = # 1 it\n#\tSYM\n1\tNUM\n\n# text =\n# c = d\tSYM\n"
    found = TAGGING.read(written(tmp_path, text))
    assert [sentence.words for sentence in found] == [("#", "1"), ("# c = d",)]
    (found,) = TAGGING.read(written(tmp_path, "# NN O\n# = O\n# newparts O\n"))
    assert found.words == ("#", "#", "#")


def test_tags_come_from_the_training_data():
    assert TAGGING.labels([sentence("a"), sentence("a", "b", "c")]) == ("B-x", "I-x", "O")
    with raises(ValueError, "'B-x'"):
        TAGGING.labels([sentence("a"), sentence("b")])


def test_label_missing_from_training_is_refused():
    with raises(ValueError, "line 2", "label", "B-x, I-x", "'O'"):
        TAGGING.encode([sentence("a", "b", "c")], tokenizer(), LABELS[:2], 20)
    with raises(ValueError, "max_length", "3"):
        TAGGING.encode([sentence("a")], tokenizer(), LABELS, 2)


@pytest.mark.parametrize("number", range(len(texts.SPLIT_WORDS)))
def test_word_labels_align_to_first_pieces_as_transformers(number, tmp_path):
    run_peer("peer_tokenizers:encode_by_transformers", tmp_path)
    ids, words = np.load(tmp_path / "ids.npz")[f"words {number}"].tolist()
    pieces = kbert.Tokenizer.from_vocab(VOCABULARY, lowercase=True)
    examples = TAGGING.encode([sentence(*texts.SPLIT_WORDS[number])], pieces, LABELS, 400)
    expected, before = [], -1
    for word in words:
        expected.append(word % 3 if word not in (-1, before) else IGNORED)
        before = word
    assert examples.ids[0] == ids
    assert examples.labels[TOKEN_CLASSIFIER][0] == expected


def test_windows_label_each_word_once_with_most_context():
    words = [f"w{n}{'x' * (n % 4)}" for n in range(61)]
    sentences = [sentence(*words), sentence("a"), sentence(*words[:9])]
    whole = TAGGING.encode(sentences, tokenizer(), LABELS, 500)
    assert len(whole) == 3
    cut = TAGGING.encode(sentences, tokenizer(), LABELS, 21)
    seen = {}
    for ids, row, note in zip(cut.ids, cut.labels[TOKEN_CLASSIFIER], cut.notes, strict=True):
        assert 3 <= len(ids) == len(row) <= 21
        assert [n for n, label in enumerate(row) if label != IGNORED] == list(note.tokens)
        for word, token in zip(note.words, note.tokens, strict=True):
            assert (note.record, word) not in seen
            seen[note.record, word] = min(token - 1, len(ids) - 2 - token)
            source = whole.notes[note.record]
            assert ids[token] == whole.ids[note.record][source.tokens[source.words.index(word)]]
            assert row[token] == word % 3
    assert len(seen) == 61 + 1 + 9
    inner = [room for (record, word), room in seen.items() if record == 0 and 15 < word < 45]
    assert min(inner) >= 4  # a quarter of a window


def test_tagging_metrics_of_given_logits():
    task = task_of("tag")
    records = [sentence("a", "b", "c"), sentence("d", "e")]
    examples = task.encode(records, tokenizer(), LABELS, max_length=9)
    right = [
        np.eye(3)[[max(label, 0) for label in row]] for row in examples.labels[TOKEN_CLASSIFIER]
    ]
    figures = task.scores(records, examples, {TOKEN_CLASSIFIER: right}, LABELS).metrics()
    assert figures == {"accuracy": 1, "precision": 1, "recall": 1, "f1": 1}
    right[0][2] = [1, 0, 0]  # B-x B-x O: two entities, none of them right; B-x I-x is
    figures = task.scores(records, examples, {TOKEN_CLASSIFIER: right}, LABELS).metrics()
    expected = {"accuracy": 4 / 5, "precision": 1 / 3, "recall": 1 / 2, "f1": 2 / 5}
    assert figures == pytest.approx(expected)
