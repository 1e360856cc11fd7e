"""What the tasks refuse: one line that says what was wrong and what to do."""

import dataclasses

import pytest
from helpers.errors import raises
from helpers.peer_tasks import VOCABULARY

import kbert
from kbert.checkpoints.transfer import TransferReport

CALLS = {
    "fill_mask": ("pretraining", lambda bert, texts: kbert.fill_mask(bert, texts)),
    "next_sentence": ("pretraining", lambda bert, texts: kbert.next_sentence(bert, texts, texts)),
    "classify": ("classifier", lambda bert, texts: kbert.classify(bert, texts)),
    "tag": ("tokens", lambda bert, texts: kbert.tag(bert, texts)),
    "answer": ("qa", lambda bert, texts: kbert.answer(bert, texts, texts)),
    "embed": ("encoder", lambda bert, texts: kbert.embed(bert, texts)),
    "attention": ("encoder", lambda bert, texts: kbert.attention(bert, texts)),
}


@pytest.mark.parametrize("task", CALLS)
@pytest.mark.parametrize(
    ("texts", "says"),
    [
        (b"cat", ("bytes",)),
        (None, ("NoneType",)),
        (["cat", 3], ("[1]", "int")),
        (["cat", "\ud800"], ("[1]", "a lone surrogate at character 0")),
    ],
)
def test_bad_texts_are_refused(berts, task, texts, says):
    head, call = CALLS[task]
    with raises(ValueError, *says):
        call(berts[head], texts)


def test_pairs_as_tuples_are_told_the_argument(berts):
    says = ("texts[0]", "tuple")
    with raises(ValueError, *says):
        kbert.classify(berts["classifier"], [("cat", "dog")])


@pytest.mark.parametrize("task", CALLS)
def test_model_with_another_head_is_refused(berts, task):
    head, call = CALLS[task]
    with raises(ValueError, "str"):
        call("folder", "cat")
    without = dataclasses.replace(berts[head], tokenizer=None)
    with raises(ValueError, task, "tokenizer"):
        call(without, "cat")
    if head != "encoder":
        with raises(ValueError, f"'{head}'", "'encoder'", f"head='{head}'"):
            call(berts["encoder"], "cat")


@pytest.mark.parametrize(
    ("task", "layer"),
    [
        ("fill_mask", "MLM-Norm"),
        ("next_sentence", "NSP-Dense"),
        ("next_sentence", "NSP"),
        ("classify", "Classifier"),
        ("tag", "TokenClassifier"),
        ("answer", "Span"),
    ],
)
def test_a_head_with_random_weights_is_refused(berts, task, layer):
    head, call = CALLS[task]
    report = TransferReport((), (), (), (), initialized_layers=(layer,))
    with raises(ValueError, layer):
        call(dataclasses.replace(berts[head], report=report), "[MASK]")


def test_random_or_missing_pooler_is_refused(berts):
    report = TransferReport((), (), (), (), initialized_layers=("NSP-Dense",))
    bert = dataclasses.replace(berts["encoder"], report=report)
    assert kbert.embed(bert, "cat").shape == (24,)
    with raises(ValueError, "NSP-Dense"):
        kbert.embed(bert, "cat", pooling="pooler")
    with raises(ValueError, "pooler", "'qa'"):
        kbert.embed(berts["qa"], "cat", pooling="pooler")


def test_bad_task_arguments_are_one_line(berts):
    mlm, qa = berts["pretraining"], berts["qa"]
    for call, says in (
        (lambda: kbert.fill_mask(mlm, "cat"), ("texts", "[MASK]", "'cat'")),
        (lambda: kbert.fill_mask(mlm, ["[MASK]", "cat"]), ("texts[1]", "[MASK]")),
        (
            lambda: kbert.fill_mask(mlm, "cat " * 16 + "[MASK]"),
            ("17", "0 of 1"),
        ),
        (
            lambda: kbert.fill_mask(mlm, ["[MASK]", "[MASK] " + "cat [MASK]" * 15]),
            ("texts[1]", "[MASK]", "17", "8 of 16 there"),
        ),
        (lambda: kbert.fill_mask(mlm, "[MASK]", top_k=0), ("top_k",)),
        (lambda: kbert.next_sentence(mlm, "a", ["b"]), ("a str and a list",)),
        (lambda: kbert.next_sentence(mlm, ["a"], ["b", "c"]), ("b", "1", "got 2")),
        (lambda: kbert.answer(qa, "cat " * 15, "dog"), ("question",)),
        (lambda: kbert.answer(qa, "cat", " "), ("context",)),
        (
            lambda: kbert.similarity(berts["encoder"], "cat"),
            ("texts", "one str"),
        ),
        (lambda: kbert.attention(mlm, "cat", layer=3), ("layer", "1 … 2", "got 3")),
        (lambda: kbert.attention(mlm, "cat", head=0), ("head", "1 … 4", "got 0")),
        (lambda: kbert.attention(mlm, "cat", layer=True), ("layer", "1 … 2", "True")),
    ):
        with raises(ValueError, *says) as raised:
            call()
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize("what", [None, "folder", 3])
def test_model_other_than_a_bert_is_one_line(what, tmp_path):
    for function, call in (
        ("save", lambda: kbert.save(what, tmp_path / "out")),
        ("resize_vocab", lambda: kbert.resize_vocab(what, 9)),
        ("keep_tokens", lambda: kbert.keep_tokens(what, [0])),
        ("resize_positions", lambda: kbert.resize_positions(what, 9)),
    ):
        kind = type(what).__name__
        with raises(ValueError, function, "kbert.Bert", kind):
            call()
    assert list(tmp_path.iterdir()) == []


def test_bad_save_path_is_refused_before_writing(berts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path, says in (
        ("", ("an empty path",)),
        ("a.zip", ("a.zip", ".keras")),
        ("a.h5", (".h5",)),
    ):
        with raises(ValueError, *says):
            kbert.save(berts["encoder"], path)
    assert list(tmp_path.iterdir()) == []


def test_a_tokenizer_of_another_model_is_refused(berts, small):
    tokens = [*VOCABULARY, *(f"[unused{n}]" for n in range(99)), "elephant"]
    tokenizer = kbert.Tokenizer.from_vocab(tokens, lowercase=True)
    other = dataclasses.replace(berts["encoder"], tokenizer=tokenizer)
    with raises(ValueError, "0 … 98"):
        kbert.embed(other, "elephant")


def test_two_texts_need_two_segments(berts, small):
    config = small.replace(type_vocab_size=1)
    model = kbert.build_encoder(config, seq_len=None)
    bert = dataclasses.replace(berts["encoder"], config=config, model=model)
    assert kbert.attention(bert, "cat").tokens
    with raises(ValueError, "type_vocab_size = 1"):
        kbert.attention(bert, "cat", "dog")
