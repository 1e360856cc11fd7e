"""Truncating a long text gives the first tokens of the whole text, in little memory."""

import json

import pytest
import tokenizers
from helpers.marks import full, nightly
from helpers.sample_data import vocabulary
from numpy.random import default_rng

import kbert
from kbert.data.tokenization.subwords import Subwords

PARTS = [
    "the",
    "of",
    "naïve",
    "e\u0301",
    "東京",
    "[MASK]",
    "(x)",
    "\u200b",
    "a" * 300,
    "\t",
    "😂",
    "!",
]


def make_tokenizer(*more):
    return kbert.Tokenizer.from_vocab([*vocabulary(), *more], lowercase=True)


@pytest.mark.parametrize(
    "blanks", [["", " "], *(full(blanks) for blanks in ([" "], ["\n", "  ", "\u3000"], [""]))]
)
@pytest.mark.parametrize("max_length", [17, *(nightly(n) for n in (2, 3, 512))])
def test_truncated_encoding_is_the_start_of_the_whole(blanks, max_length):
    words, random = make_tokenizer(), default_rng(max_length)
    for _ in range(3):
        parts = random.choice(PARTS, random.integers(1500, 9000))
        text = "".join(part + random.choice(blanks) for part in parts)
        whole = words.encode(text, add_special_tokens=False)
        found = words.encode(text, max_length=max_length)
        many = words.encode_batch([text, "the"], max_length=max_length)[0]
        kept = max_length - 2
        for one in (found, many):
            assert one.ids == [words.cls_id, *whole.ids[:kept], words.sep_id]
            assert one.offsets[1:-1] == whole.offsets[:kept]
            assert one.word_ids[1:-1] == whole.word_ids[:kept]
            assert one.truncated


def test_truncation_counts_tokens_of_overlong_words():
    words = make_tokenizer()
    text = ("a" * 9000 + " ") * 5 + "the " * 7  # five [UNK], and the rest is still read
    assert (
        words.encode(text, max_length=9).ids[1:-1] == [words.unk_id] * 5 + [words.id_of("the")] * 2
    )
    assert not words.encode(text, max_length=14).truncated


IN_JAPANESE = ["猫", "が", "です", "今日", "京", "。", "，", "[MASK]", "猫京", "e\u0301", "the"]


def subwords(kind: str) -> kbert.Tokenizer:
    """A tokenizer of the Rust package's own training, as XLM-R's and RoBERTa's files have it."""
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    if kind == "Unigram":
        rust = tokenizers.Tokenizer(tokenizers.models.Unigram())
        rust.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
        options = {"unk_token": "<unk>", "vocab_size": 90}
        trainer = tokenizers.trainers.UnigramTrainer
    else:
        rust = tokenizers.Tokenizer(tokenizers.models.BPE())
        rust.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
        options = {"initial_alphabet": alphabet, "vocab_size": 330}
        trainer = tokenizers.trainers.BpeTrainer
    lines = ["".join(default_rng(n).choice(IN_JAPANESE, 30)) for n in range(20)]
    settings = {"special_tokens": special, "show_progress": False}
    rust.train_from_iterator(lines, trainer(**options, **settings))
    return kbert.Tokenizer(Subwords(text=rust.to_str()))


def rust_of(tokenizer: kbert.Tokenizer, folder) -> tokenizers.Tokenizer:
    """The Rust tokenizer of the same file."""
    tokenizer.save(folder)
    return tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))


@pytest.mark.parametrize("max_length", [17, nightly(300)])
@pytest.mark.parametrize(
    "kind", ["without ideographs", *(full(kind) for kind in ("WordPiece", "BPE", "Unigram"))]
)
def test_texts_without_blanks_are_truncated_as_rust_truncates_the_whole(kind, max_length, tmp_path):
    if kind in ("BPE", "Unigram"):
        tokenizer = subwords(kind)
    else:
        alone, more = kind == "WordPiece", ["猫", "京", "今", "##日", "猫京"]
        rules = {"lowercase": True, "tokenize_chinese_chars": alone}
        tokenizer = kbert.Tokenizer.from_vocab([*vocabulary(), *more], **rules)
    whole, random = rust_of(tokenizer, tmp_path), default_rng(max_length)
    whole.enable_truncation(max_length)
    for few in (IN_JAPANESE, IN_JAPANESE[:1], IN_JAPANESE[:5], [*IN_JAPANESE, " "]):
        text = "".join(random.choice(few, 50_000))
        found, expected = tokenizer.encode(text, max_length=max_length), whole.encode(text)
        assert found.ids == expected.ids and found.offsets == expected.offsets
        assert found.word_ids == expected.word_ids
        assert found.truncated == bool(expected.overflowing)


@pytest.mark.parametrize("more", [1, *(full(more) for more in (-1, 0, 700))])
def test_pairs_are_truncated_as_rust_truncates_the_whole(more, tmp_path):
    """Which text is longer decides which keeps an odd token."""
    tokenizer = kbert.Tokenizer.from_vocab([*vocabulary(), "猫"], lowercase=True)
    whole = rust_of(tokenizer, tmp_path)
    for max_length in (500, 501):
        whole.enable_truncation(max_length)
        for size in (300, 1200, 5000):
            pair = ["猫 " * size, "the!" * ((size + more) // 2) + "." * ((size + more) % 2)]
            for one, other in (pair, reversed(pair)):
                found = tokenizer.encode(one, other, max_length=max_length)
                expected = whole.encode(one, other)
                assert found.ids == expected.ids and found.offsets == expected.offsets


LINES = ["'猫' * 4_000_000", full("'cat ' * 4_000_000"), full("'cat,' * 4_000_000")]


@pytest.mark.parametrize("line", LINES)
def test_truncating_a_line_of_16_mb_takes_little_memory(run_python, line):
    code = """
import kbert
from helpers.load_in_subprocess import peak_memory
words = kbert.Tokenizer.from_vocab(
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cat"], lowercase=True
)
text = LINE
before = peak_memory()
assert len(words.encode_batch([text, text], max_length=32)[1]) == 32
print(peak_memory() - before)
"""
    assert (
        int(run_python(code.replace("LINE", line)).stdout) < 100_000
    )  # KB; all of its tokens: 4 GB


def test_evil_pattern_of_a_tokenizers_file_is_one_line():
    """Rust counts the tries of a regular expression, and panics: no Exception in Python."""
    values = json.loads(subwords("Unigram").vocabulary.text)
    pattern = {"type": "Replace", "pattern": {"Regex": "(x+x+)+y"}, "content": "x"}
    evil = kbert.Tokenizer(Subwords(text=json.dumps(values | {"normalizer": pattern})))
    with pytest.raises(ValueError) as raised:
        evil.encode("x" * 50)
    assert "tokenizer" in str(raised.value) and "\n" not in str(raised.value)
