"""Nothing of the user's is written over: files of another kind never, others if it is asked."""

import io
import os
import struct
from xml.etree import ElementTree

import numpy as np
import pytest
from helpers.command_line import kbert as run
from helpers.errors import raises
from helpers.marks import full

import kbert
from kbert.tasks.attention.attention_map import AttentionMap


def make_archive() -> bytes:
    file = io.BytesIO()
    np.savez(file, weights=np.ones(3), names=np.array(["a"]))
    return file.getvalue()


MINE = b"notes of mine\n"
WRITERS = {  # of files that may be replaced by one of their kind
    "png": lambda path: kbert.plot("tiny", path),
    "svg": lambda path: kbert.plot("tiny", path),
    "pdf": lambda path: kbert.plot("tiny", path),
    "dot": lambda path: kbert.plot("tiny", path),
    "mmd": lambda path: kbert.plot("tiny", path),
    "tex": lambda path: kbert.plot("tiny", path),
    "paper.pdf": lambda path: kbert.plot("tiny", path, style="paper"),
    "html": lambda path: kbert.explore("tiny", path),
    "npz": lambda path: make_map().save(path),
    "map.html": lambda path: make_map().save(path),
    "map.png": lambda path: make_map().plot(path, layer=1, head=1),
}
SLOW = ("paper.pdf", "pdf", "html", "map.html", "map.png")
OTHERS = {  # as people write them by hand, and as other programs do
    "png": b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + b"IHDR" + bytes(17),
    "svg": b'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"></svg>\n',
    "pdf": b"%PDF-1.5\n%%EOF\n",
    "npz": make_archive(),
    "html": b"<!doctype html>\n<html><head><title>Mine</title></head></html>\n",
    "dot": b"digraph mine { a -> b }\n",
    "mmd": b"flowchart BT\na --> b\n",
    "tex": b"\\documentclass{article}\n\\begin{document}\\end{document}\n",
}


def make_map():
    weights = np.full((1, 1, 2, 2), 0.5, "float32")
    return AttentionMap(["a", "b"], weights, (1,), (1,), "a b")


@pytest.mark.full
@pytest.mark.parametrize(
    "ending", [full(ending) if ending in SLOW else ending for ending in WRITERS]
)
def test_only_a_file_of_its_kind_is_replaced(tmp_path, ending):
    path, write = tmp_path / f"out.{ending}", WRITERS[ending]
    write(path)
    written = path.read_bytes()
    path.touch()
    write(path)
    assert path.read_bytes() == written
    path.write_bytes(b"")  # nothing to lose, as a temporary file
    write(path)
    assert path.read_bytes() == written
    for content in (MINE, OTHERS.get(path.suffix[1:], MINE)):
        path.write_bytes(content)
        with raises(FileExistsError, path.name):
            write(path)
        assert path.read_bytes() == content
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_marked_pictures_are_opened_by_others(tmp_path):
    """By Pillow, an XML parser and, for a PDF, where the table of its objects is."""
    for ending in ("png", "svg", "pdf"):
        kbert.plot("tiny", tmp_path / f"out.{ending}")
    PIL = pytest.importorskip("PIL.Image")
    with PIL.open(tmp_path / "out.png") as picture:
        picture.load()
        assert picture.text["Comment"] == "written by kbert"
    assert ElementTree.parse(tmp_path / "out.svg").getroot().tag.endswith("}svg")
    data = (tmp_path / "out.pdf").read_bytes()
    start = int(data.rpartition(b"startxref\n")[2].split()[0])
    assert data.startswith(b"%PDF-") and data[start : start + 4] == b"xref"


@pytest.fixture(scope="module")
def bert(small):
    return kbert.Bert(small, "encoder", kbert.build_encoder(small))


@pytest.fixture
def writers(small, bert, tmp_path):
    """What writes over nothing unless `overwrite` is set, by the path that it writes."""
    tokenizer = kbert.Tokenizer.from_vocab(
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"], lowercase=True
    )
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("a cat sat\nthe dog ran\n")
    return {
        "out.keras": lambda path, **options: kbert.save(bert, path, **options),
        "folder": lambda path, **options: kbert.save(bert, path, **options),
        "google": lambda path, **options: kbert.save(bert, path, format="google", **options),
        "config.json": lambda path, **options: small.to_json(path, **options),
        "tokenizer": lambda path, **options: tokenizer.save(path, **options),
        "vocabulary": lambda path, **options: kbert.train_vocab(corpus, 90, path, **options),
    }


@pytest.mark.parametrize(
    "name", ["out.keras", "folder", "google", "config.json", "tokenizer", "vocabulary"]
)
def test_savers_write_over_nothing_unasked(tmp_path, writers, name):
    path = tmp_path / name
    if name == "google":
        pytest.importorskip("tensorflow")
    mine = path if path.suffix else path / "vocab.txt"
    mine.parent.mkdir(exist_ok=True)
    mine.write_bytes(MINE)
    with raises(FileExistsError, name, "overwrite=True"):
        writers[name](path)
    assert mine.read_bytes() == MINE
    if name in ("out.keras", "config.json", "tokenizer", "vocabulary"):
        writers[name](path, overwrite=True)
        assert mine.read_bytes() != MINE


def test_a_saved_model_is_replaced_if_it_is_asked(tmp_path, small, bert):
    other = kbert.Bert(small, "encoder", kbert.build_encoder(small))
    kbert.save(bert, tmp_path / "model")
    with pytest.raises(FileExistsError):
        kbert.save(other, tmp_path / "model")
    wanted = [weight.numpy() for weight in bert.model.weights]
    found = kbert.load(tmp_path / "model").model.weights
    assert all(np.array_equal(a, b) for a, b in zip(wanted, found, strict=True))
    kbert.save(other, tmp_path / "model", overwrite=True)
    wanted = [weight.numpy() for weight in other.model.weights]
    found = kbert.load(tmp_path / "model").model.weights
    assert all(np.array_equal(a, b) for a, b in zip(wanted, found, strict=True))


@pytest.mark.parametrize("name", ["out.kears", "out.onxx", "out.safetensors", "out.pt", "out.BIN"])
def test_an_unknown_ending_is_refused(tmp_path, bert, name):
    with pytest.raises(ValueError) as raised:
        kbert.save(bert, tmp_path / name)
    assert all(part in str(raised.value) for part in (name, ".keras", ".onnx", ".tflite"))
    near = {"out.kears": "out.keras", "out.onxx": "out.onnx"}
    assert near.get(name, "") in str(raised.value)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    "name", ["bert-v1.5", *(full(n) for n in ("bert.v2", "bert-base.en", "bert.ft", "x.final"))]
)
def test_a_version_or_a_word_is_no_ending(tmp_path, bert, name):
    kbert.save(bert, tmp_path / name)
    assert (tmp_path / name / "config.json").is_file()


@pytest.mark.full
def test_embed_writes_over_a_file_if_it_is_asked(saved, tmp_path, capsys):
    path = tmp_path / "out.npy"
    path.write_bytes(MINE)
    command = ["embed", saved[0] / "encoder", "a cat", "the dog", "-o", path]
    done = run(capsys, *command)
    assert (done.status, path.read_bytes()) == (2, MINE) and "--overwrite" in done.err
    assert run(capsys, *command, "--overwrite").status == 0
    assert len(np.load(path)) == 2


def test_an_input_is_not_written_over(saved, tmp_path, capsys):
    corpus, texts = tmp_path / "words" / "vocab.txt", tmp_path / "texts.npy"
    corpus.parent.mkdir()
    corpus.write_text("a cat sat\nthe dog ran\n")
    texts.write_text("a cat\n")
    (tmp_path / "link").symlink_to(corpus.parent)
    before = corpus.read_bytes(), texts.read_bytes()
    folders = corpus.parent, tmp_path / "link"
    embed = ["embed", saved[0] / "encoder"]
    for command, output in (
        *((["vocab", corpus, "--size", 90], folder) for folder in folders),
        ([*embed, "--lines", texts], texts),
        ([*embed, texts], texts),
    ):
        done = run(capsys, *command, "-o", output, "--overwrite")
        assert done.status == 2 and done.err.count("\n") == 1 and str(output) in done.err
        assert (corpus.read_bytes(), texts.read_bytes()) == before
    assert run(capsys, "vocab", corpus, "--size", 90, "-o", tmp_path / "new").status == 0


def test_prepare_keeps_another_vocabulary(tmp_path, small):
    corpus, mine = tmp_path / "corpus.txt", tmp_path / "shards" / "vocabulary" / "vocab.txt"
    corpus.write_text("a cat sat\nthe dog ran\n")
    tokenizer = kbert.train_vocab(corpus, 90, tmp_path / "vocabulary")
    mine.parent.mkdir(parents=True)
    mine.write_bytes(MINE)
    with raises(FileExistsError, "vocab.txt"):
        kbert.prepare(corpus, tokenizer, tmp_path / "shards", processes=1)
    assert mine.read_bytes() == MINE


@pytest.mark.parametrize("name", ["out.txt", "out.json", "out.keras"])
def test_a_folder_is_not_called_as_a_file(tmp_path, saved, name):
    corpus, path = tmp_path / "corpus.txt", tmp_path / name
    corpus.write_text("a cat sat\nthe dog ran\n")
    train = [("a cat", "0"), ("the dog", "1")]
    for write in (
        lambda: kbert.train_vocab(corpus, 90, path),
        lambda: kbert.prepare(corpus, saved[0] / "encoder", path),
        lambda: kbert.finetune(saved[1]["encoder"], "classify", train=train, output=path),
    ):
        with raises(ValueError, name, "folder"):
            write()
    assert not path.exists()
