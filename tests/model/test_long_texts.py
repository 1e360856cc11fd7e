"""Truncating a long text gives the first tokens of the whole text, in little memory."""

import pytest
from helpers.marks import nightly
from helpers.sample_data import vocabulary
from numpy.random import default_rng

import kbert

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


def tokenizer(*more):
    return kbert.Tokenizer.from_vocab([*vocabulary(), *more], lowercase=True)


@pytest.mark.parametrize("blanks", [[" "], ["\n", "  ", "\u3000"], ["", " "], [""]])
@pytest.mark.parametrize("max_length", [17, *(nightly(n) for n in (2, 3, 512))])
def test_truncated_encoding_is_the_start_of_the_whole(blanks, max_length):
    words, random = tokenizer(), default_rng(max_length)
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
    words = tokenizer()
    text = ("a" * 9000 + " ") * 5 + "the " * 7  # five [UNK], and the rest is still read
    assert (
        words.encode(text, max_length=9).ids[1:-1] == [words.unk_id] * 5 + [words.id_of("the")] * 2
    )
    assert not words.encode(text, max_length=14).truncated


def test_truncating_a_line_of_16_mb_takes_little_memory(run_python):
    code = """
import kbert
from helpers.load_in_subprocess import peak_memory
words = kbert.Tokenizer.from_vocab(
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cat"], lowercase=True
)
text = "cat " * 4_000_000
before = peak_memory()
assert len(words.encode_batch([text, text], max_length=32)[1]) == 32
print(peak_memory() - before)
"""
    assert int(run_python(code).stdout) < 100_000  # KB; all of its tokens: 4 GB
