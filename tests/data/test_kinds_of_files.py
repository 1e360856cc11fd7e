"""Files that are no plain UTF-8 text: unpacked, converted, or refused in one line."""

import bz2
import gzip
import importlib
import io
import json
import lzma
import tarfile

import pytest
from helpers.command_line import kbert as kbert_command
from helpers.corpora import read_documents
from helpers.errors import logged, raises

import kbert
from kbert.cli.inputs import read_lines
from kbert.io import text_bytes
from kbert.tasks.finetuning.task import records_of, task_of

TEXT = "One sentence here.\nAnd two, with Ünïcode.\n\nOther document.\n"
DOCUMENTS = [["One sentence here.", "And two, with Ünïcode."], ["Other document."]]
ROWS = [("a late goal, “yes”", "1"), ("it rained", "0")]
TABLE = "text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in ROWS)
PACKED = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": importlib.import_module(text_bytes.ZSTD).compress,
}


def pack_tar(data: bytes) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        entry = tarfile.TarInfo("a.txt")
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
    return file.getvalue()


NO_TEXT = {  # what begins so is no text; the format's own first bytes
    "zip": (b"PK\x03\x04\x14\x00\x00\x00", "zip"),
    "parquet": (b"PAR1\x15\x04\x15", "Parquet"),
    "7z": (b"7z\xbc\xaf\x27\x1c\x00\x04", "7z"),
    "arrow": (b"ARROW1\x00\x00\xff\xff", "Arrow"),
    "tar": (pack_tar(TABLE.encode()), "tar"),
    "tar.gz": (gzip.compress(pack_tar(TABLE.encode())), "tar"),
    "utf-16 without its mark": (TABLE.encode("utf-16-le"), "UTF-16"),
    "utf-32 without its mark": (TABLE.encode("utf-32-be"), "UTF-16"),
}


@pytest.mark.parametrize("ending", PACKED)
@pytest.mark.parametrize("named", [True, False])
def test_compressed_files_are_read_everywhere(tmp_path, ending, named):
    """Python's own modules wrote them; the first bytes count, not the name."""
    suffix = f".{ending}" if named else ""
    corpus, table, lines = (tmp_path / f"{name}{suffix}" for name in ("a.txt", "b.tsv", "c.txt"))
    corpus.write_bytes(PACKED[ending](TEXT.encode()))
    table.write_bytes(PACKED[ending](TABLE.encode()))
    lines.write_bytes(PACKED[ending](b"one\ntwo\n"))
    assert list(read_documents(corpus)) == DOCUMENTS
    records = records_of(task_of("classify"), table)
    assert [(record.text, record.label) for record in records] == ROWS
    assert records[0].location == f"{table}, line 2"
    assert read_lines(str(lines)) == ["one", "two"]


def test_the_format_of_a_compressed_table_is_in_its_name(tmp_path):
    rows = "".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in ROWS)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(rows.encode()))
    (tmp_path / "a.csv.xz").write_bytes(lzma.compress(b'text,label\n"a late goal, yes",1\nb,0\n'))
    found = records_of(task_of("classify"), tmp_path / "a.jsonl.gz")
    assert [(record.text, record.label) for record in found] == ROWS
    found = records_of(task_of("classify"), tmp_path / "a.csv.xz")
    assert [record.text for record in found] == ["a late goal, yes", "b"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32"])
def test_labelled_data_and_lines_with_a_mark_of_utf_16_are_read(tmp_path, encoding):
    """Python's codecs wrote them; Excel's "Unicode text" is such a file."""
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    path = tmp_path / "a.tsv"
    path.write_bytes((mark + TABLE).encode(encoding))
    records = records_of(task_of("classify"), path)
    assert [(record.text, record.label) for record in records] == ROWS
    path.write_bytes((mark + "one\nzwö\n").encode(encoding))
    assert read_lines(str(path)) == ["one", "zwö"]
    with raises(ValueError, "a.tsv", "UTF-8"):
        list(read_documents(path, corpus_format="sentences"))


@pytest.mark.parametrize("kind", NO_TEXT)
def test_other_files_are_refused_in_one_line(tmp_path, monkeypatch, kind):
    content, name = NO_TEXT[kind]
    path = tmp_path / "some.txt"
    path.write_bytes(content)
    monkeypatch.setattr("kbert.data.labelled.table_reading.is_parquet", lambda path: False)
    readers = [
        lambda: list(read_documents(path)),
        lambda: records_of(task_of("classify"), path),
        lambda: records_of(task_of("tag"), path),
        lambda: read_lines(str(path)),
    ]
    for read in readers:
        with pytest.raises(ValueError) as refused:
            read()
        said = str(refused.value)
        assert str(path) in said and name in said and "\n" not in said


@pytest.mark.parametrize("ending", PACKED)
def test_a_cut_file_is_one_line(tmp_path, ending):
    path = tmp_path / f"a.txt.{ending}"
    path.write_bytes(PACKED[ending](TEXT.encode() * 99)[:-9])
    for read in (lambda: list(read_documents(path)), lambda: read_lines(str(path))):
        with pytest.raises(OSError) as refused:
            read()
        assert f"{path}: must be a whole .{ending} file" in str(refused.value)
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize("command", ["vocab", "prepare"])
@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.csv.gz"])
def test_a_table_is_no_corpus(tmp_path, capsys, monkeypatch, command, name):
    """Unless the user says that its lines are sentences; nothing is written."""
    monkeypatch.chdir(tmp_path)
    content = b"text,label\na film,1\n" * 9
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    kbert.train_vocab([tmp_path / name], 40, tmp_path / "vocabulary", corpus_format="sentences")
    options = ["--size", "40"] if command == "vocab" else ["--vocab", "vocabulary"]
    done = kbert_command(capsys, command, name, *options, "-o", "new")
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert name in done.err and not (tmp_path / "new").exists()


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_may_end_in_any_way(tmp_path, end):
    (tmp_path / "a.txt").write_bytes(f"one{end}{end}two{end}".encode())
    assert read_lines(str(tmp_path / "a.txt")) == ["one", "", "two"]


def test_rows_given_as_lines_are_warned_of(tmp_path):
    (tmp_path / "a.csv").write_text("a,1\nb,0\n")
    with logged("a.csv", "line"):
        assert read_lines(str(tmp_path / "a.csv")) == ["a,1", "b,0"]


@pytest.mark.full
def test_parquet_files_are_read_as_datasets_reads_them(tmp_path):
    datasets = pytest.importorskip("datasets")
    names = datasets.ClassLabel(names=["sad", "good"])
    features = {"text": datasets.Value("string"), "label": names}
    columns = {"text": ["a", "b", "c"], "label": [1, 0, 1]}
    data = datasets.Dataset.from_dict(columns, features=datasets.Features(features))
    data.to_parquet(tmp_path / "a.parquet")
    found = records_of(task_of("classify"), tmp_path / "a.parquet")
    expected = records_of(task_of("classify"), data)
    assert [record[:2] for record in found] == [record[:2] for record in expected]
    assert found.labels == expected.labels == ("sad", "good")
    features = {"tokens": [datasets.Value("string")], "ner_tags": [names]}
    columns = {"tokens": [["a", "b"], ["c"]], "ner_tags": [[0, 1], [1]]}
    data = datasets.Dataset.from_dict(columns, features=datasets.Features(features))
    data.to_parquet(tmp_path / "tags")
    found = records_of(task_of("tag"), tmp_path / "tags")
    assert [record.labels for record in found] == [("sad", "good"), ("good",)]
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:-9])
    with raises(ValueError, "cut.parquet", "Parquet"):
        records_of(task_of("classify"), tmp_path / "cut.parquet")


def test_parquet_without_pyarrow_names_it(tmp_path, monkeypatch):
    (tmp_path / "a.parquet").write_bytes(b"PAR1 and more")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with raises(ImportError, "a.parquet", "pip install pyarrow"):
        records_of(task_of("classify"), tmp_path / "a.parquet")
