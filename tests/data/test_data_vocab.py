"""A trained vocabulary: BERT's special tokens, the same file every time, read by transformers."""

import random
import re
from pathlib import Path

import pytest
from helpers.corpora import VOCABULARY, folders, text_files
from helpers.errors import check_named, collected_logs, raises

from kbert.data.corpus.vocab_training import train_vocab
from kbert.data.tokenization.tokenizer import Tokenizer

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
TEXT = "low lower lowest newer newest wider\n" * 50 + "\nshow slow snow\n" * 30


def test_vocabulary_has_special_tokens_first_and_its_size():
    tokenizer = Tokenizer.load(folders()[0])
    assert tokenizer.tokens[:5] == SPECIAL and tokenizer.pad_id == 0
    assert tokenizer.vocab_size == VOCABULARY and tokenizer.lowercase
    assert not any(token != token.lower() for token in tokenizer.tokens[5:])
    words = tokenizer.encode("The game was released in japan .").tokens
    assert words[1:-1] == ["the", "game", "was", "released", "in", "japan", "."]


@pytest.mark.full
def test_every_process_trains_the_same_vocabulary(tmp_path, run_python):
    """The trainer's hash differs from process to process; the vocabulary must not."""
    code = (
        "from kbert.data.corpus.vocab_training import train_vocab; "
        f"train_vocab({str(text_files()[0])!r}, 1500, {{!r}}, lowercase=False)"
    )
    found = []
    for number in range(3):
        run_python(code.format(str(tmp_path / str(number))))
        found.append((tmp_path / str(number) / "vocab.txt").read_bytes())
    assert found[0] == found[1] == found[2]
    assert found[0].count(b"\n") == 1500


def test_cased_vocabulary_with_unused_tokens(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT.replace("low", "Low"), encoding="utf-8")
    with collected_logs() as lines:
        tokenizer = train_vocab(path, 500, tmp_path / "vocab", lowercase=False, unused=3)
    assert tokenizer.tokens[5:8] == ("[unused0]", "[unused1]", "[unused2]")
    assert "Low" in tokenizer.tokens and "##est" in tokenizer.tokens
    check_named("\n".join(lines), 500, tokenizer.vocab_size)


def test_rare_characters_are_left_out(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT + "ж ю я\n", encoding="utf-8")
    tokenizer = train_vocab(path, 60, tmp_path / "vocab", alphabet=11)
    single = [token for token in tokenizer.tokens if len(token) == 1]
    assert len(single) == 11
    assert not {"ж", "ю", "я"} & set(tokenizer.tokens)


def test_bad_vocabulary_sizes_are_refused(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    with raises(ValueError, "size", "at least", "5 special tokens", 9):
        train_vocab(path, 9, tmp_path / "vocab")
    assert not (tmp_path / "vocab").exists()
    with raises(ValueError, "size", "whole number", "got 0"):
        train_vocab(path, 0, tmp_path / "vocab")


@pytest.mark.parametrize("unused", [-1, 96, 9_999_999, 1.0, True, "3", None])
def test_bad_numbers_of_unused_tokens_are_refused(tmp_path, unused):
    """Before anything is read: there is no corpus."""
    with raises(ValueError, "unused", "0 to 95", repr(unused)):
        train_vocab(tmp_path / "nowhere", 100, tmp_path / "vocab", unused=unused)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.full
def test_very_long_words_are_left_out_of_training(tmp_path):
    """A word of 200 thousand letters: the trainer alone takes minutes. Its peer: without them."""
    draw = random.Random(3)
    long, address = "".join(draw.choices("abcdé", k=200_000)), "https://low/" + "slow/" * 40
    for name, text in (("with", f"{long} {TEXT} {long}, {long}"), ("without", f"{TEXT} , ")):
        (tmp_path / name).write_text(text + f"{address}\n" * 3, encoding="utf-8")
        train_vocab(tmp_path / name, 90, tmp_path / f"{name}-vocab")
    found = [(tmp_path / f"{name}-vocab/vocab.txt").read_text() for name in ("with", "without")]
    assert found[0] == found[1] and "\nhttps\n" in found[0]
    tokenizer = Tokenizer.load(tmp_path / "with-vocab")
    assert tokenizer.encode("low" * 33).tokens[1] == "low"
    assert tokenizer.encode(long[:101]).tokens[1:-1] == ["[UNK]"]  # as transformers'


@pytest.mark.full
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not say it")
def test_training_on_a_long_line_takes_bounded_memory(tmp_path, run_python):
    path = tmp_path / "text.txt"
    path.write_text("low lower lowest " * 200_000, encoding="utf-8")
    code = (
        "from pathlib import Path; from kbert.data.corpus.vocab_training import train_vocab; "
        f"train_vocab({str(path)!r}, 40, {str(tmp_path / 'vocab')!r}); "
        "print(Path('/proc/self/status').read_text())"
    )
    peak = re.search(r"VmHWM:\s+(\d+) kB", run_python(code).stdout)
    assert int(peak[1]) < 150_000  # it was 400,000
