"""Raw text to documents of sentences: three formats, files, folders, globs, .gz; and bad input."""

import gzip
import json

import pytest
from helpers.corpora import read_documents, wikitext_files
from helpers.errors import raises

from kbert.data.corpus import blocks
from kbert.data.corpus import text_files as corpus

GOOGLE = "One sentence here.\nAnd two.\n\n\n  \nOther document.\nIts end.\n"
DOCUMENTS = [["One sentence here.", "And two."], ["Other document.", "Its end."]]
WIKITEXT = (
    " \n = First = \n \n A two @-@ part piece of 1 @,@ 000 @.@ 5 <unk> . It ends . \n"
    " \n = = Section = = \n \n More of it . \n = X = \n \n = = = Deep = = = \n Other text . \n"
)
WIKI_DOCUMENTS = [
    ["A two-part piece of 1,000.5 [UNK] .", "It ends .", "More of it ."],
    ["Other text ."],
]


def write(folder, name: str, text: str | bytes):
    content = text.encode() if isinstance(text, str) else text
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


def as_json(documents) -> str:
    return "".join(json.dumps({"id": 1, "text": "\n".join(d)}) + "\n" for d in documents)


@pytest.mark.parametrize(
    ("text", "documents"),
    [
        (GOOGLE, DOCUMENTS),
        (GOOGLE.replace("\n", "\r\n"), DOCUMENTS),
        ("\ufeff" + GOOGLE, DOCUMENTS),
        (GOOGLE.rstrip("\n"), DOCUMENTS),
        (WIKITEXT, WIKI_DOCUMENTS),
        ("\ufeff" + WIKITEXT, WIKI_DOCUMENTS),
        (as_json(DOCUMENTS), DOCUMENTS),
        (as_json(DOCUMENTS).replace("\n", "\n\n"), DOCUMENTS),
    ],
)
@pytest.mark.parametrize("name", ["text.txt", "text.txt.gz"])
def test_each_corpus_format_is_recognized(tmp_path, name, text, documents):
    assert list(read_documents(write(tmp_path, name, text))) == documents


@pytest.mark.parametrize("size", [1, 7, 30, 64])
def test_blocks_of_any_size_give_the_same_documents(tmp_path, size, monkeypatch):
    files = [write(tmp_path, "a.txt", GOOGLE), write(tmp_path, "b.txt", WIKITEXT)]
    files.append(write(tmp_path, "c.jsonl", as_json(DOCUMENTS)))
    monkeypatch.setattr(blocks, "BLOCK", size)
    assert list(read_documents(files)) == DOCUMENTS + WIKI_DOCUMENTS + DOCUMENTS


OF_EACH_FORM = {
    "sentences": GOOGLE,
    "wikitext": " = One = \n\n A cat . It sat . \n = = Two = = \n A dog . \n = Three = \n Red . \n",
    "jsonl": '{"text": "A cat sat. It ran."}\n{"text": "A dog."}\n',
}


@pytest.mark.parametrize("block", [1 << 20, 13])
@pytest.mark.parametrize("name", ["a.raw", "a.raw.gz"])
@pytest.mark.parametrize("form", OF_EACH_FORM)
@pytest.mark.parametrize("end", ["\r", "\r\n"])
def test_any_line_ending_gives_the_same_sentences(tmp_path, monkeypatch, end, form, name, block):
    """Old Macs end them with CR; the peer is the same text with LF."""
    monkeypatch.setattr(blocks, "BLOCK", block)
    text = OF_EACH_FORM[form]
    path = write(tmp_path, name, text.replace("\n", end))
    assert corpus.format_of(path) == form
    found = list(read_documents(path))
    assert len(found) > 1 and found == list(read_documents(write(tmp_path, "b.raw", text)))
    first, *others = corpus.read_blocks(path, form, "text")
    assert list(corpus.read_blocks(path, form, "text", first.end, first.next_line)) == others


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.JSON", "a.jsonl.gz"])
@pytest.mark.parametrize(
    "content", ['[{"text": "a cat"}]\n', '{\n "text": "a cat"\n}\n', "a cat\n", '"a cat"\n', "3\n"]
)
def test_json_file_is_not_read_as_plain_text(tmp_path, name, content):
    path = write(tmp_path, name, content)
    with raises(ValueError, f"{name}, line 1", "JSON object"):
        list(read_documents(path))
    assert list(read_documents(path, corpus_format="sentences"))  # as the user says


def test_wikitext_2_has_its_articles_and_no_headings():
    files = wikitext_files()
    documents = list(read_documents(files))
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    headings = [s for line in lines if (s := line.strip()).startswith("= ") and s.endswith(" =")]
    titles = [s for s in headings if s[2] != "="]
    assert len(documents) == len(titles)
    letters = "".join("".join("".join(document).split()) for document in documents)
    text = [line for line in lines if line.strip() not in {"", *headings}]
    expected = " ".join(" ".join(text).split()).replace("<unk>", "[UNK]")
    for mark in "-,.":
        expected = expected.replace(f" @{mark}@ ", mark)
    assert letters == "".join(expected.split())
    assert not any(sentence.endswith("3.") for document in documents for sentence in document)
    assert 4 < sum(map(len, documents)) / sum(line.count(" . ") > 0 for line in text) < 6


def test_files_of_folders_and_globs_in_order(tmp_path):
    for name in ("b/2.txt", "a/9.jsonl.gz", "c.tokens", "wiki_00", ".hidden.txt", "x.pdf"):
        write(tmp_path, name, "text")
    found = [str(path.relative_to(tmp_path)) for path in corpus.find_files(tmp_path)]
    assert found == ["a/9.jsonl.gz", "b/2.txt", "c.tokens", "wiki_00"]
    by_glob = corpus.find_files([tmp_path / "*" / "*", tmp_path / "wiki_00", tmp_path / "b"])
    assert [path.name for path in by_glob] == ["9.jsonl.gz", "2.txt", "wiki_00"]


@pytest.mark.parametrize(
    ("text", "things"),
    [
        (b"Fine.\n\nNot \xff so.\n", ("line 3", "UTF-8", "0xff", "byte 5")),
        (
            '{"text": "Fine."}\n{"text"\n',
            ("line 2", "JSON object"),
        ),
        ('{"text": "Fine."}\n[1]\n', ("line 2", "JSON object", "list")),
        ('{"text": "a"}\n\n{"body": "b"}\n', ("line 3", "'text'", "body")),
        ('{"text": 5}\n', ("line 1", "'text'")),
    ],
)
def test_bad_corpus_line_is_named(tmp_path, text, things, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK", 4)  # its number is right in any block
    with raises(ValueError, "text.txt", *things):
        list(read_documents(write(tmp_path, "text.txt", text)))


def test_too_long_line_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus, "LONGEST_TEXT", 1 << 21)
    path = write(tmp_path, "text.txt", "Short.\n" + "word " * 800_000)
    with raises(ValueError, "text.txt, line 2", "2 MiB"):
        list(read_documents(path))


def test_missing_and_damaged_corpus_files_are_refused(tmp_path):
    with raises(FileNotFoundError, "nothing*"):
        corpus.find_files(tmp_path / "nothing*")
    with raises(FileNotFoundError, tmp_path):
        corpus.find_files(tmp_path)
    with raises(ValueError, "none"):
        corpus.find_files([])
    with raises(ValueError, "format", "sentences, wikitext, jsonl", "'xml'"):
        list(read_documents(tmp_path, corpus_format="xml"))
    cut = write(tmp_path, "cut.txt.gz", "Many words. " * 1000)
    cut.write_bytes(cut.read_bytes()[:-9])
    with raises(OSError, "cut.txt.gz"):
        list(read_documents(cut))
    cut.write_bytes(b"no gzip at all")
    with raises(OSError, "cut.txt.gz"):
        list(read_documents(cut))
