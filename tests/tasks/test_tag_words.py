"""`kbert.tag` on lists of words, and on texts that are cut as the training data are."""

import dataclasses

import pytest
from helpers.command_line import kbert as kbert_command
from helpers.errors import raises
from helpers.small_berts import small_bert

import kbert
from kbert.tasks.tagging.windows import find_punctuation, find_spans

LABELS = ("O", "B-x", "I-x", "B-y", "I-y")
SENTENCES = [
    ["the", "cat-dog", "sat"],
    ["New York", "by", "a/b", "!", "\u200b", "moon"],
    ["zzz"],
    ["he", "(runs)", "it's", "."],
]


@pytest.fixture
def bert(berts):
    return dataclasses.replace(berts["tokens"], labels=LABELS)


def plain(words) -> list[tuple[str, str]]:
    return [(one.word, one.label) for one in words]


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
def test_words_have_the_labels_of_transformers_first_subwords(bert, tmp_path):
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    kbert.save(bert, tmp_path)
    model = transformers.BertForTokenClassification.from_pretrained(tmp_path).eval()
    peer = transformers.BertTokenizer(str(tmp_path / "vocab.txt"), do_lower_case=True)
    for words, found in zip(SENTENCES, kbert.tag(bert, SENTENCES, batch_size=3), strict=True):
        encoding = peer(words, is_split_into_words=True, return_tensors="pt")
        with torch.no_grad():
            probabilities = model(**encoding).logits[0].softmax(-1).numpy()
        numbers = encoding.word_ids()
        for number, (word, one) in enumerate(zip(words, found, strict=True)):
            assert one.word == word and " ".join(words)[one.start : one.end] == word
            if number not in numbers:  # the tokenizer drops it
                assert (one.label, one.probability) == ("O", 0.0)
                continue
            row = probabilities[numbers.index(number)]
            assert one.label == LABELS[row.argmax()]
            assert one.probability == pytest.approx(row.max(), abs=1e-5)


def test_long_lists_of_words_are_read_in_windows(bert):
    """The small model has 17 positions."""
    words = ["cat-dog", "sun", "moon"] * 14
    (found, short, none) = kbert.tag(bert, [words, ["sun"], []])
    assert [one.word for one in found] == words and all(one.probability > 0.2 for one in found)
    assert plain(short) == plain(kbert.tag(bert, "sun")) and none == []


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (["the", "cat", ".", "中"], None),  # the tokenizer's own words
        (["the", "cat-dog", "sat"], ""),
        (["the", "cat-dog", ".", "a", "(", "U.S."], "(."),
    ],
)
def test_word_splitting_rule_comes_from_training_data(bert, words, rule):
    assert find_punctuation(words, bert.tokenizer) == rule


def test_texts_are_cut_between_spaces_with_punctuation_apart():
    text = " (the cat-dog,\u00a0sat)... a.b"
    cut = [text[start:end] for start, end in find_spans(text, "().")]
    assert cut == ["(", "the", "cat-dog,", "sat", ")", ".", ".", ".", "a.b"]
    assert [text[slice(*span)] for span in find_spans(text, "")] == text.split()


@pytest.mark.full
def test_word_splitting_rule_is_saved_and_loaded(bert, tmp_path):
    tuned = dataclasses.replace(bert, split_punctuation=".")
    kbert.save(tuned, tmp_path / "a")
    again = kbert.load(tmp_path / "a")
    wanted = kbert.tag(tuned, "a cat-dog sees it.")
    assert [one.word for one in wanted] == ["a", "cat-dog", "sees", "it", "."]
    assert again.split_punctuation == "."
    assert plain(kbert.tag(again, "a cat-dog sees it.")) == plain(wanted)
    assert kbert.load(tmp_path / "a", head="encoder").split_punctuation is None


@pytest.mark.full
def test_word_splitting_rule_is_learned_and_saved_in_every_format(small, tmp_path, capsys):
    train = [(["the", "cat-dog", "sees", "it", "."], ["O", "B-x", "O", "O", "O"])] * 2
    settings = {"epochs": 1, "progress": False, "peak_flops": 1e9, "lora_rank": 2}
    source = small_bert(dataclasses.replace(small, num_hidden_layers=1), "encoder")
    kbert.save(source, tmp_path / "base")
    tuned = kbert.finetune(tmp_path / "base", "tag", train=train, **settings).bert
    assert tuned.split_punctuation == "."
    wanted = kbert.tag(tuned, "a cat-dog sees it.")
    assert [one.word for one in wanted] == ["a", "cat-dog", "sees", "it", "."]
    for name, options in (("a.keras", {}), ("a", {}), ("b", {"format": "peft"})):
        kbert.save(tuned, tmp_path / name, **options)
    again = [kbert.load(tmp_path / name) for name in ("a.keras", "a")]
    again.append(kbert.load(tmp_path / "base", adapter=tmp_path / "b"))
    assert [one.split_punctuation for one in again] == ["."] * 3
    assert plain(kbert.tag(again[-1], "a cat-dog sees it.")) == plain(wanted)
    said = kbert_command(capsys, "tag", str(tmp_path / "a"), "a cat-dog sees it.", "a/b.")
    assert [line.split()[-1] for line in said.out.splitlines() if line] == [
        *(one.word for one in wanted),
        *("a/b", "."),
    ]
    said = kbert_command(capsys, "tag", str(tmp_path / "a"), "a/b.", "--words")
    assert said.out.split()[-1] == "a/b."


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ([["a"], "b"], ("texts[1]", "'b'")),
        ([["a", 3]], ("texts[0][1]", "int")),
        ([["a", " "]], ("texts[0][1]",)),
    ],
)
def test_bad_lists_of_words_are_refused(bert, texts, said):
    with raises(ValueError, *said):
        kbert.tag(bert, texts)
