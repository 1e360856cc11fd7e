"""Runs of blanks and endless words give the Rust package's tokens, in bounded time."""

import itertools
import random
import re
import time

import pytest
import tokenizers
from helpers.marks import full

import kbert
from kbert.data.tokenization.long_runs import BLANKS, LETTERS

VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##a", "cat", "##t", "e", "##e", "!"]
RUNS = [
    " ",
    "\n \t",
    "\u00a0",
    "a",
    "cat",
    "E\u0301",
    "\u00e9",
    "\u0416",
    "😀",
    "\ud55c",
    "a\u0301\u0323e",
]
OTHERS = ["cat", " ", "!", "[MASK]", "的", "[MASK", "\u0301", "\0", "a" * 300, "_", "\u200b", "x y"]
RULES = [
    {"lowercase": True},
    {"lowercase": False},
    {"lowercase": False, "strip_accents": True},
    {"lowercase": True, "strip_accents": False, "tokenize_chinese_chars": False},
]


def make_text(random: random.Random) -> str:
    parts = []
    for _ in range(random.randint(1, 5)):
        run = random.choice(RUNS)
        length = random.choice([10, 1023, 4000, 4096, 5000, 20_000])
        parts += [*random.choices(OTHERS, k=random.randint(0, 3)), run * (length // len(run))]
    return "".join([*parts, *random.choices(OTHERS, k=random.randint(0, 2))])


@pytest.mark.full
@pytest.mark.parametrize("count", [4, full(300)])
@pytest.mark.parametrize("rules", RULES)
def test_long_runs_give_what_the_rust_package_gives_for_the_whole_text(rules, count, tmp_path):
    tokenizer = kbert.Tokenizer.from_vocab(VOCAB, **rules)
    tokenizer.save(tmp_path)
    rust = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    numbers = random.Random(count)
    for _ in range(count):
        text, pair = make_text(numbers), make_text(numbers)
        for second, length in itertools.product((None, pair), (None, 6, 64)):
            if length is None:
                rust.no_truncation()
            else:
                rust.enable_truncation(length)
            wanted = rust.encode(text, second)
            found = tokenizer.encode(text, second, max_length=length)
            assert (found.ids, found.offsets, found.word_ids) == (
                *(wanted.ids, wanted.offsets, wanted.word_ids),
            )
            assert found.truncated == bool(wanted.overflowing)


@pytest.mark.parametrize("added", ["aaa", "a a", "[x]"])
def test_added_tokens_within_runs_are_found(added, tmp_path):
    tokenizer = kbert.Tokenizer.from_vocab(
        [*VOCAB, added], lowercase=False, special_tokens={"mask": added}
    )
    tokenizer.save(tmp_path)
    rust = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for text in ("a" * 9001, "a " * 5000 + " " * 9000 + "a", f"{'e' * 9000}[x]{'e' * 9000}"):
        found, wanted = tokenizer.encode(text), rust.encode(text)
        assert (found.ids, found.offsets) == (wanted.ids, wanted.offsets)


@pytest.mark.parametrize("unit", [" ", "a", "😀", "a\u0301"])
def test_millions_of_characters_take_little_time(unit):
    tokenizer = kbert.Tokenizer.from_vocab(VOCAB, lowercase=True)
    start = time.process_time()
    encoding = tokenizer.encode(unit * (3_000_000 // len(unit)) + " cat", max_length=64)
    assert time.process_time() - start < 1.5
    tokens = ["[CLS]", "[UNK]", "cat", "[SEP]"]
    assert encoding.tokens == [token for token in tokens if unit != " " or token != "[UNK]"]
    assert encoding.offsets[-2] == (3_000_001, 3_000_004)


@pytest.mark.parametrize("rules", RULES)
def test_letters_and_blanks_are_what_the_rust_package_takes_them_for(rules, tmp_path):
    kbert.Tokenizer.from_vocab(VOCAB, **rules).save(tmp_path)
    rust = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    points = [chr(n) for n in range(0x30000) if not 0xD800 <= n < 0xE000]
    split = rust.pre_tokenizer.pre_tokenize_str
    letters = re.findall(f"[{LETTERS}]", "".join(points))
    assert len(letters) > 12_000
    apart, together = (rust.normalizer.normalize_str(by.join(letters)) for by in (" ", ""))
    assert len(split(apart)) == len(letters)
    assert len(split(together)) == 1 and len(together) >= len(letters)
    for blank in re.findall(f"[{BLANKS}]", "".join(points)):
        assert [word for word, _ in split(rust.normalizer.normalize_str(f"a{blank}a"))] == ["a"] * 2
