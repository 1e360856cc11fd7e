"""Corpora in Parquet and Arrow: pyarrow and datasets wrote them, and JSON lines are the peer."""

import json

import pytest
from helpers.corpora import content, read_documents
from helpers.errors import raises

import kbert
from kbert.data.corpus import blocks, text_files

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

TEXTS = [
    "A cat sat. It ran.",
    "",
    "A dog.\nIt slept “well”",
    None,
    *(f"Row {number} ends here. So does this one." for number in range(300)),
    "Ünïcode \u2028 and 猫 at the end.",
]
DOCUMENTS = [["A cat sat.", "It ran."], ["A dog.", "It slept “well”"]]


def write_parquet(path, texts=TEXTS, group: int = 97, column: str = "text", **options):
    table = pyarrow.table({"id": range(len(texts)), column: pyarrow.array(texts, **options)})
    parquet.write_table(table, path, row_group_size=group)
    return path


def write_arrow(path, texts=TEXTS, is_stream: bool = True):
    table = pyarrow.table({"id": range(len(texts)), "text": texts})
    make = pyarrow.ipc.new_stream if is_stream else pyarrow.ipc.new_file
    with make(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=97)
    return path


def write_json(path, texts=TEXTS):
    path.write_text("".join(json.dumps({"text": text or ""}) + "\n" for text in texts))
    return path


WRITERS = {
    "a.parquet": write_parquet,
    "b.arrow": write_arrow,
    "c.arrow": lambda path: write_arrow(path, is_stream=False),
    "without an ending": write_parquet,
    "stream without an ending": write_arrow,
}


@pytest.mark.parametrize("size", [13, 1 << 12, 1 << 20])
@pytest.mark.parametrize("name", WRITERS)
def test_rows_are_the_documents_of_json_lines(tmp_path, monkeypatch, name, size):
    monkeypatch.setattr(blocks, "BLOCK", size)
    path = WRITERS[name](tmp_path / name)
    found = list(read_documents(path))
    assert found[:2] == DOCUMENTS and len(found) == 303
    assert found == list(read_documents(write_json(tmp_path / "d.jsonl")))


@pytest.mark.parametrize("name", ["a.parquet", "b.arrow", "c.arrow"])
def test_reading_resumes_at_any_block(tmp_path, monkeypatch, name):
    monkeypatch.setattr(blocks, "BLOCK", 1 << 10)
    path = WRITERS[name](tmp_path / name)
    form = text_files.format_of(path)
    whole = list(text_files.read_blocks(path, form, "text"))
    assert len(whole) > 9
    for number, block in enumerate(whole):
        rest = text_files.read_blocks(path, form, "text", block.end, block.next_line)
        assert list(rest) == whole[number + 1 :]


@pytest.mark.parametrize(
    "kind",
    [pyarrow.large_string(), pyarrow.string_view(), pyarrow.dictionary(pyarrow.int32(), "str")],
)
def test_any_type_of_text_is_read(tmp_path, kind):
    path = write_parquet(tmp_path / "a.parquet", column="body", type=kind)
    assert list(read_documents(path, text_column="body"))[:2] == DOCUMENTS


def test_folders_of_datasets_are_read(tmp_path):
    datasets = pytest.importorskip("datasets")
    data = datasets.Dataset.from_dict({"text": TEXTS, "n": range(len(TEXTS))})
    data.save_to_disk(tmp_path / "saved", num_shards=3)
    both = datasets.DatasetDict({"train": data, "test": data.select(range(9))})
    both.save_to_disk(tmp_path / "splits")
    expected = list(read_documents(write_json(tmp_path / "d.jsonl")))
    assert list(read_documents(tmp_path / "saved")) == expected
    assert list(read_documents(tmp_path / "splits" / "train")) == expected
    with raises(ValueError, "splits", "test, train"):
        list(read_documents(tmp_path / "splits"))
    data.to_parquet(tmp_path / "e.parquet")
    assert list(read_documents(tmp_path / "e.parquet")) == expected


def test_shards_of_a_table_are_those_of_json_lines(tmp_path):
    """Their tokens are the same bytes; the file that they are made from has another name."""
    json_lines = write_json(tmp_path / "d.jsonl")
    kbert.train_vocab(json_lines, 200, tmp_path / "vocabulary")
    kbert.prepare(json_lines, tmp_path / "vocabulary", tmp_path / "one")
    kbert.prepare(write_parquet(tmp_path / "a.parquet"), tmp_path / "vocabulary", tmp_path / "two")
    one, two = content(tmp_path / "one"), content(tmp_path / "two")
    assert one.pop("index.json") != two.pop("index.json")
    assert one == two


def test_bad_tables_are_refused_in_one_line(tmp_path):
    path = write_parquet(tmp_path / "a.parquet", column="body")
    for form in ("parquet", None):
        with raises(ValueError, "a.parquet", "'text'", "id, body"):
            list(read_documents(path, corpus_format=form))
    with raises(ValueError, "a.parquet", "'id'", "int64"):
        list(read_documents(path, text_column="id"))
    with raises(ValueError, "a.parquet", "Arrow"):
        list(read_documents(path, corpus_format="arrow"))

    cut = tmp_path / "cut.parquet"
    cut.write_bytes(path.read_bytes()[:-99])
    with raises(ValueError, "cut.parquet", "Parquet"):
        list(read_documents(cut))
    stream = write_arrow(tmp_path / "b.arrow")
    stream.write_bytes(stream.read_bytes()[:4099])
    with raises(ValueError, "b.arrow", "Arrow"):
        list(read_documents(stream))


def test_long_row_is_refused(tmp_path):
    path = write_parquet(tmp_path / "a.parquet", ["a", "b" * (17 << 20)])
    with raises(ValueError, "a.parquet", "row 2", "MiB"):
        list(read_documents(path))


def test_tables_need_pyarrow(tmp_path, monkeypatch):
    path = write_parquet(tmp_path / "a.parquet")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with raises(ImportError, "a.parquet", "pyarrow"):
        list(read_documents(path))
    (tmp_path / "words.txt").write_text("a line of text\n" * 9)
    kbert.train_vocab(tmp_path / "words.txt", 30, tmp_path / "vocabulary")
    with raises(ImportError, "a.parquet", "pyarrow"):
        kbert.prepare(path, tmp_path / "vocabulary", tmp_path / "shards")
    assert not (tmp_path / "shards").exists()
