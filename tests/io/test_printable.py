"""Names from files cannot control a terminal, and stay readable."""

import functools
import json
import logging
import shutil
import traceback
import unicodedata

import click
import numpy as np
import pytest
from helpers.command_line import kbert as command
from helpers.damaged_checkpoints import change_json, change_tensors, put

import kbert
from kbert.checkpoints import bert as checkpoints
from kbert.cli import console
from kbert.io import printable, row_formats
from kbert.tasks.attention.inference import attention

NASTY = "a\nkbert: all is well\x1b[2J\x9b2J\u202eb\u2028c\u200bd"
# Unicode's PropList.txt: Prepended_Concatenation_Mark; and Egyptian's signs: format, but seen.
SEEN = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
SEEN |= set(range(0x13430, 0x13440))
OF_DIRECTION = {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}


def test_control_characters_are_escaped_and_visible_ones_stay():
    for code in range(0x110000):
        character = chr(code)
        category = unicodedata.category(character)
        acts = category in ("Cc", "Cs", "Zl", "Zp") or (category == "Cf" and code not in SEEN)
        acts |= unicodedata.bidirectional(character) in OF_DIRECTION
        if acts:
            assert character not in printable.line(f"a{character}b"), hex(code)
        elif category[0] in "LMNPSZ":
            assert printable.line(f"a{character}b") == f"a{character}b", hex(code)


WORDS = ["naïve café", "e\u0301", "東京", "می\u200cخواهم", "क्\u200dष", "👩\u200d👧", "a\\u001b"]


@pytest.mark.parametrize("text", WORDS)
def test_words_of_every_script_stay_unchanged(text):
    assert printable.line(text) == text


def test_line_is_one_line_and_json_stays_equal():
    text = "".join(map(chr, [*range(0x3000), 0xD800, 0x61, 0xDFFF, 0xE0041]))
    assert len(printable.line(text).splitlines()) == 1
    assert printable.lines("a\tb\nc\r") == "a\tb\nc\\u000d"
    assert json.loads(row_formats.to_json({text: [text]})) == {text: [text]}
    assert set(printable.lines(row_formats.to_json(text))) & set(map(chr, range(32))) == {"\n"}


def acts(text: str) -> list[str]:
    """What of a text would act on a terminal, but for the ends of its lines."""
    controls = [c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
    return [control for control in controls if control != "\n"]


def test_tensor_names_are_escaped_in_commands(capsys, saved, tmp_path):
    shutil.copytree(saved[0] / "pretraining", tmp_path / "bert")
    change_tensors(tmp_path / "bert", put(NASTY, np.zeros(3, "float32")))
    for arguments in (("inspect",), ("inspect", "--tensors"), ("inspect", "--format", "json")):
        done = command(capsys, *arguments, tmp_path / "bert")
        assert done.status == 1 and not acts(done.out + done.err)
        assert "kbert: all is well" in done.out and "\nkbert: all" not in done.out
    done = command(capsys, "convert", tmp_path / "bert", tmp_path / "out")
    assert (done.status, done.out) == (2, "") and not acts(done.err)
    assert done.err.count("\n") == 1 and done.err.startswith("kbert: ")


def test_names_from_files_are_escaped_in_python_errors(saved, tmp_path):
    bert = saved[1]["classifier"]
    shutil.copytree(saved[0] / "classifier", tmp_path / "bert")
    change_tensors(tmp_path / "bert", put(NASTY, np.zeros(3, "float32")))
    (tmp_path / "config.json").write_text(json.dumps({f"{NASTY}": 3, "vocab_size": NASTY}))
    (tmp_path / "train.jsonl").write_text(json.dumps({"text": "a", NASTY: "b"}) + "\n")
    reads = {
        "bert": kbert.load,
        "config.json": kbert.BertConfig.from_json,
        "train.jsonl": lambda path: kbert.finetune(bert, "classify", train=path),
    }
    for name, read in reads.items():
        with pytest.raises(ValueError) as error:
            read(tmp_path / name)
        text = "".join(traceback.format_exception(error.value))
        assert "[2J" in str(error.value) and not acts(text), name


@pytest.mark.full
def test_tokens_and_labels_from_files_are_escaped(capsys, saved, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "load", functools.cache(checkpoints.load))
    for head in ("pretraining", "classifier", "tokens"):
        shutil.copytree(saved[0] / head, tmp_path / head)
        tokens = saved[1][head].tokenizer.tokens
        vocabulary = [token if token != "cat" else "c\x1b[2Jat" for token in tokens]
        (tmp_path / head / "tokenizer.json").unlink()
        (tmp_path / head / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    labels = {str(n): f"{n}{NASTY}" for n in range(5)}
    for head in ("classifier", "tokens"):
        change_json(tmp_path / head / "config.json", id2label=labels)
    calls = [
        ("fill-mask", "pretraining", "dog [MASK]", "--top-k", "99"),
        ("classify", "classifier", "dog"),
        ("classify", "classifier", "dog", "sun"),
        ("tag", "tokens", "dog sun\x1b[2J"),
    ]
    for name, head, *rest in calls:
        for form in ("text", "json"):
            done = command(capsys, name, tmp_path / head, *rest, "--format", form)
            assert done.status == 0 and not acts(done.out + done.err), (name, form)
        assert "\\u001b[2J" in done.out


@pytest.mark.full
def test_warnings_and_pictures_are_escaped(capsys, saved, tmp_path):
    @click.command()
    def warns():
        logging.getLogger("kbert").warning("%s lacks %s", NASTY, NASTY)

    with pytest.raises(SystemExit):
        console.run(warns, [])
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and not acts(said) and said.startswith("kbert: a\\u000akbert")
    found = attention(saved[1]["pretraining"], "cat dog")
    found.tokens[1] = "c\u202ea\x07t"
    text = found.plot(tmp_path / "map.svg").read_text(encoding="utf-8")
    assert not acts(text) and "c\\u202ea\\u0007t" in text
    assert not acts(repr(found))
