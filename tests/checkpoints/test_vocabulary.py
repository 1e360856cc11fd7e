"""The tokenizer's files are read, written or refused."""

import json

import pytest
from helpers.errors import collected_logs, logged, raises
from helpers.peer_outputs import run_peer
from helpers.texts import TOKENS

from kbert.data.tokenization.tokenizer import Tokenizer


@pytest.fixture
def folder(tmp_path):
    """A folder with vocab.txt and its settings."""
    (tmp_path / "vocab.txt").write_text("\n".join(TOKENS) + "\n", encoding="utf-8", newline="\n")
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}', encoding="utf-8")
    return tmp_path


def theirs(folder, out, text: str, kind: str) -> list[int]:
    """The ids that transformers gives the text with the folder's files."""
    files = {file.name: file.read_text(encoding="utf-8") for file in sorted(folder.iterdir())}
    case = {"class": kind, "files": files, "calls": [[[text], {}]]}
    out.mkdir()
    run_peer("peer_bert:encode", out, {"ids": case})
    return json.loads((out / "ids.json").read_text())["ids"][0]["input_ids"]


def saved_json(folder, **changes) -> dict:
    """Changes the tokenizer.json of a saved tokenizer: {"model.type": "BPE"}."""
    Tokenizer.from_vocab(TOKENS, lowercase=True).save(folder, overwrite=True)
    values = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    for keys, value in changes.items():
        *parents, last = keys.split("__")
        part = values
        for key in parents:
            part = part[key]
        part[last] = value
    (folder / "tokenizer.json").write_text(json.dumps(values), encoding="utf-8")
    return values


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("after", ["", "\n", "\n\n\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_endings_and_byte_order_mark_change_nothing(tmp_path, ending, after, mark):
    text = mark + ending.join(TOKENS) + after.replace("\n", ending)
    (tmp_path / "vocab.txt").write_bytes(text.encode())
    assert Tokenizer.from_vocab(tmp_path / "vocab.txt", lowercase=True).tokens == tuple(TOKENS)


def test_only_a_line_feed_ends_a_line(tmp_path):
    tokens = [*TOKENS, "a\u2028b", "\x0c", "\u0085", "z"]
    (tmp_path / "vocab.txt").write_text("\n".join(tokens), encoding="utf-8", newline="\n")
    tokenizer = Tokenizer.from_vocab(str(tmp_path / "vocab.txt"), lowercase=True)
    assert tokenizer.id_of("z") == len(tokens) - 1
    tokenizer.save(tmp_path / "again")
    assert Tokenizer.load(tmp_path / "again" / "vocab.txt").tokens == tuple(tokens)


def test_casing_argument_goes_before_the_files(folder):
    assert not Tokenizer.load(folder).lowercase
    assert Tokenizer.load(folder / "vocab.txt", lowercase=True).lowercase
    (folder / "tokenizer_config.json").unlink()
    with raises(ValueError, "lowercase"):
        Tokenizer.load(folder)
    saved_json(folder, normalizer__lowercase=True)
    (folder / "tokenizer_config.json").unlink()
    assert Tokenizer.load(folder).lowercase
    named = '{"do_lower_case": false, "tokenizer_class": "BertTokenizer"}'
    (folder / "tokenizer_config.json").write_text(named)
    assert not Tokenizer.load(folder).lowercase


def test_the_truncation_of_a_call_does_not_go_into_the_file(tmp_path):
    tokenizer = Tokenizer.from_vocab(TOKENS, lowercase=True)
    tokenizer.encode("the dog", max_length=3)
    tokenizer.save(tmp_path)
    values = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    assert values["truncation"] is None and values["padding"] is None


def test_saving_overwrites_whole_files_or_nothing(tmp_path, monkeypatch):
    Tokenizer.from_vocab(TOKENS, lowercase=True).save(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert set(before) == {"vocab.txt", "tokenizer.json", "tokenizer_config.json"}

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    with raises(OSError, "No space left"):
        Tokenizer.from_vocab([*TOKENS, "new"], lowercase=False).save(tmp_path, overwrite=True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("content", "things"),
    [
        (b"", ("empty",)),
        (b"\n\r\n\n", ("empty",)),
        ("\n".join(TOKENS).encode("utf-16"), ("UTF-8", "at 0")),
        ("naïve\ncafé\n".encode("latin-1"), ("UTF-8",)),
        ("\n".join(TOKENS[2:5]).encode(), ("[PAD] [MASK]",)),
    ],
    ids=["empty", "blank", "utf-16", "latin-1", "special"],
)
def test_a_bad_vocab_txt_is_one_line_that_names_it(tmp_path, content, things):
    (tmp_path / "vocab.txt").write_bytes(content)
    with raises(ValueError, tmp_path / "vocab.txt", *things) as error:
        Tokenizer.from_vocab(tmp_path / "vocab.txt", lowercase=True)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("changes", "things"),
    [
        ({"model": {"type": "WordLevel", "vocab": {}}}, ("WordPiece", "WordLevel")),
        ({"model__continuing_subword_prefix": "@"}, ("'##'", "'@'")),
        ({"model": None}, ("Rust tokenizers",)),
        ({"model__vocab": ["a", "b"]}, ("vocab",)),
        ({"model__vocab__dog": 8}, ("got 8", "'dog'", "'##s'")),
        ({"model__vocab__dog": 2**31 - 1}, ("4,194,304", "2,147,483,647")),
        ({"normalizer": {"type": "NFKC"}}, ("normalizer", "BertNormalizer", "NFKC")),
        ({"pre_tokenizer": None}, ("pre_tokenizer", "BertPreTokenizer", "None")),
        ({"post_processor": {"type": "ByteLevel"}}, ("post_processor", "ByteLevel")),
        ({"post_processor__single": []}, ("single", "BERT")),
        ({"added_tokens": [{"id": 7, "content": "cat"}]}, ("'cat'", 21, "got 7")),
        ({"added_tokens": ["dog"]}, ("added_tokens[0]", "'dog'")),
        ({"normalizer": "Bert"}, ("normalizer", "'Bert'")),
        ({"model__max_input_chars_per_word": 1.5}, ("max_input_chars_per_word",)),
        ({"added_tokens": [{"id": 7}]}, ("added_tokens[0].content", "nothing")),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_tokenizer_json_that_is_not_berts_is_refused(tmp_path, changes, things):
    saved_json(tmp_path, **changes)
    with raises(ValueError, "tokenizer.json", *things) as error:
        Tokenizer.load(tmp_path)
    assert "\n" not in str(error.value)


def test_a_token_that_stands_twice_has_its_last_id(folder, tmp_path_factory):
    """As in transformers; the first id has no token, and stays free in saved files."""
    tokens = [*TOKENS, "dog", "new"]
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    with logged("'dog'", f"id {TOKENS.index('dog')}"):
        tokenizer = Tokenizer.load(folder)
    out = tmp_path_factory.mktemp("peer") / "out"
    wanted = theirs(folder, out, "the dog [MASK]", "BertTokenizer")
    assert tokenizer.encode("the dog [MASK]").ids == wanted
    assert len(TOKENS) in wanted and tokenizer.id_of("new") == len(TOKENS) + 1
    tokenizer.save(folder, overwrite=True)
    for file in ("vocab.txt", "tokenizer.json"):
        with collected_logs() as messages:
            again = Tokenizer.load(folder / file)
        assert not messages
        assert again.tokens == tokenizer.tokens
        assert again.encode("the dog [MASK]").ids == wanted


@pytest.mark.full
def test_an_id_that_is_missing_is_none_of_transformers_either(tmp_path, tmp_path_factory):
    saved_json(tmp_path, model__vocab__dog=2 * len(TOKENS))
    tokenizer, text = Tokenizer.load(tmp_path), "the dog [MASK] [no_token_7]"
    out = tmp_path_factory.mktemp("peer") / "out"
    wanted = theirs(tmp_path, out, text, "PreTrainedTokenizerFast")
    assert tokenizer.encode(text).ids == wanted and 2 * len(TOKENS) in wanted


def test_an_id_that_is_missing_has_no_token(tmp_path):
    saved_json(tmp_path, model__vocab__dog=2 * len(TOKENS))
    tokenizer = Tokenizer.load(tmp_path)
    assert tokenizer.id_of("dog") == 2 * len(TOKENS)
    assert tokenizer.vocab_size == 2 * len(TOKENS) + 1
    assert tokenizer.token_of(TOKENS.index("dog")) == f"[no_token_{TOKENS.index('dog')}]"


def test_other_bad_files_are_one_line(folder):
    (folder / "tokenizer_config.json").write_text("{")
    with raises(ValueError, "tokenizer_config.json", "JSON"):
        Tokenizer.load(folder)
    (folder / "tokenizer_config.json").write_text('{"cls_token": {}, "do_lower_case": true}')
    with raises(ValueError, "cls_token.content", "nothing"):
        Tokenizer.load(folder)
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": "yes"}')
    with raises(ValueError, "do_lower_case", "'yes'"):
        Tokenizer.load(folder)
    (folder / "vocab.txt").unlink()
    with raises(FileNotFoundError, folder):
        Tokenizer.load(folder)
    with raises(FileNotFoundError, "nothing.txt"):
        Tokenizer.load(folder / "nothing.txt", lowercase=True)
