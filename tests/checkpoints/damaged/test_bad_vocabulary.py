"""A vocabulary that does not fit the embedding and invalid texts are refused."""

import pytest
from helpers.damaged_checkpoints import VOCABULARY, refused

import kbert


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            "\n".join([*VOCABULARY, "x", "y"]).encode(),
            "at most 99 tokens, as many as the embedding has rows, got 101",
        ),
        (b"", "must hold one token per line, got an empty file"),
        ("\n".join(VOCABULARY).encode("utf-16"), "must be UTF-8 text"),
        ("\n".join(VOCABULARY).replace("[MASK]", "[mask]").encode(), "[MASK] missing"),
    ],
)
def test_a_vocabulary_that_does_not_fit(capsys, folder, content, said):
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").write_bytes(content)
    refused(capsys, folder, said)
    assert kbert.load(folder, tokenizer=False).tokenizer is None


def test_a_vocabulary_that_is_shorter_is_a_warning(folder, caplog):
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY[:90]), encoding="utf-8")
    assert kbert.load(folder).tokenizer.vocab_size == 90
    (record,) = caplog.records
    assert "has 90 tokens, the embedding 99 rows" in record.getMessage()


@pytest.mark.parametrize("text", [b"text", 3, None, "a\ud800b"])
def test_invalid_text_is_refused(good, text):
    tokenizer = kbert.Tokenizer.load(good)
    with pytest.raises(ValueError, match=r"text must be"):
        tokenizer.encode(text)
    with pytest.raises(ValueError, match=r"texts\[1\] must be"):
        tokenizer.encode_batch(["a", text])
