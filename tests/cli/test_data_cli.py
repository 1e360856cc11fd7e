"""`kbert vocab` and `kbert prepare` write their files, and report mistakes in one line."""

import io
import json
import logging
import os
import tempfile
from functools import partial
from pathlib import Path

import click
import pytest
from helpers.command_line import kbert
from helpers.corpora import read_documents, text_files
from helpers.errors import check_named

from kbert.cli.console import run
from kbert.cli.main import cli
from kbert.data import samples


@pytest.fixture
def call(capsys):
    """Runs a command line; its exit status, stdout and stderr."""
    return partial(kbert, capsys)


@pytest.fixture
def corpus(tmp_path):
    """The first 50,000 bytes of a file of WikiText."""
    file = tmp_path / "corpus.txt"
    file.write_bytes(text_files()[1].read_bytes()[:50_000].rpartition(b"\n")[0])
    return file


def test_vocab_and_prepare_write_shards_from_text(call, corpus, tmp_path):
    vocab, shards = tmp_path / "vocab", tmp_path / "shards"
    status, out, _ = call("vocab", corpus, "--size", 700, "-o", vocab)
    assert (status, out) == (0, f"wrote {vocab}: 700 tokens\n")
    documents = list(read_documents(corpus))
    count = f"{len(documents)} documents, {sum(map(len, documents)):,} sentences"
    for _ in range(2):
        status, out, _ = call("prepare", corpus, "--vocab", vocab, "-o", shards)
        assert status == 0 and out.startswith(f"wrote {shards}: {count}")


def test_prepare_counts_the_duplicates_that_it_leaves_out(call, tmp_path):
    pytest.importorskip("rensa")
    texts = ["The cat sat on the mat.", "A dog ran.", "the CAT sat on the mat", "Birds sing."]
    corpus = write_rows(tmp_path / "corpus.jsonl", "text", texts)
    vocab, shards = tmp_path / "vocab", tmp_path / "shards"
    assert call("vocab", corpus, "--size", 60, "-o", vocab).status == 0
    line = ("prepare", corpus, "--vocab", vocab, "--drop-duplicates", 0.9, "-o", shards)
    status, out, _ = call(*line)
    assert status == 0 and out.startswith(f"wrote {shards}: 3 documents, 3 sentences")
    assert out.endswith("duplicates: 1\n")
    index = json.loads((shards / "index.json").read_text())
    assert index["duplicates"] == 1 and index["settings"]["drop_duplicates"]["similarity"] == 0.9


def write_rows(path: Path, column: str, texts: list[str]) -> Path:
    """Write texts as a column of Parquet, of Arrow or of JSON lines, as the path ends."""
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps({column: text}) + "\n" for text in texts))
        return path
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({column: texts})
    if path.suffix == ".parquet":
        pytest.importorskip("pyarrow.parquet").write_table(table, path)
    else:
        with pyarrow.ipc.new_stream(str(path), table.schema) as writer:
            writer.write_table(table)
    return path


@pytest.mark.parametrize("name", ["a.parquet", "b.arrow", "c.jsonl"])
@pytest.mark.parametrize("command", ["vocab", "prepare"])
def test_missing_column_is_one_line(call, corpus, tmp_path, command, name):
    call("vocab", corpus, "--size", 300, "-o", tmp_path / "vocab")
    option = ("--size", 300) if command == "vocab" else ("--vocab", tmp_path / "vocab")
    path = write_rows(tmp_path / name, "body", ["The cat sat.", "A dog ran."])
    status, out, err = call(command, path, *option, "-o", tmp_path / "new")
    assert (status, out, err.count("\n")) == (2, "", 1)
    check_named(err, path, "'text'", "body")
    assert not (tmp_path / "new").exists()


def make_context(name: str, words: list[str]) -> click.Context:
    """Parses a command's words as under `kbert`: the command keeps the names of its --help."""
    return cli.commands[name].make_context(name, words, help_option_names=["-h", "--help"])


@pytest.fixture
def type_in(monkeypatch):
    """Gives standard input its content."""
    return lambda content: monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))


@pytest.mark.full
def test_vocab_and_prepare_read_standard_input(call, corpus, tmp_path, type_in):
    written = []
    for source in (corpus, "-"):
        for command in ("vocab - --size 700 -o v", "prepare - --vocab v -o s"):
            type_in(corpus.read_bytes())
            words = [tmp_path / word if len(word) == 1 else word for word in command.split()]
            words[1] = source
            assert call(*words).status == 0
        written.append(
            [
                (tmp_path / "v/vocab.txt").read_bytes(),
                next((tmp_path / "s").glob("*.npy")).read_bytes(),
            ]
        )
        for name in "vs":
            (tmp_path / name).rename(tmp_path / f"{name}{source == '-'}")
    assert written[0] == written[1]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("finetune model --train -", "train"),
        ("finetune model --dev -", "dev"),
        ("evaluate model --data -", "data"),
        ("vocab - --size 9 -o v", "corpus"),
        ("prepare - --vocab v -o s", "corpus"),
    ],
)
def test_dash_is_standard_input(line, name, type_in):
    """As a file, which may be read several times; it is removed afterwards."""
    type_in(b"a\tb\n")
    command, *words = line.split()
    with make_context(command, words) as context:
        path = context.params[name]
        path = path[0] if name == "corpus" else path
        assert path.read_bytes() == b"a\tb\n"
    assert not path.exists()


def test_mistake_in_standard_input_names_it(call, type_in):
    type_in(b"\xff\xfe")
    done = call("vocab", "-", "--size", 99, "-o", "v")
    assert (done.status, done.out) == (2, "")
    check_named(done.err, "kbert: stdin, line 1", "UTF-8")


def test_full_disk_names_the_folder_of_the_copy(call, type_in, monkeypatch):
    def fail(*files):
        raise OSError(28, "No space left on device")

    type_in(b"a\tb\n")
    monkeypatch.setattr("shutil.copyfileobj", fail)
    done = call("vocab", "-", "-o", "v")
    assert done.status == 2
    check_named(done.err, tempfile.gettempdir(), "No space left on device", "TMPDIR")


def test_standard_input_is_given_once(call, type_in):
    type_in(b"a\tb\n")
    done = call("finetune", "model", "--train", "-", "--dev", "-", "-o", "run")
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    check_named(done.err, "--dev")


def test_warning_is_one_line_on_stderr(capsys):
    @click.command()
    def warns():
        logging.getLogger("kbert").warning("the %s is wet", "cat")
        logging.getLogger("kbert").info("nobody asked")

    for _ in range(2):  # no handler stays
        with pytest.raises(SystemExit) as ended:
            run(warns, [])
        assert (ended.value.code, *capsys.readouterr()) == (0, "", "kbert: the cat is wet\n")


def test_unreadable_folder_is_an_error(call, tmp_path, monkeypatch):
    (tmp_path / "locked").mkdir()
    (tmp_path / "open.txt").write_text("the cat sat on the mat\n")
    scan = os.scandir

    def refuse(path):
        if str(path).endswith("locked"):  # root may read everywhere
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    status, out, err = call("vocab", tmp_path, "--size", 30, "-o", tmp_path / "v")
    assert (status, out) == (2, "") and err.endswith("locked: Permission denied\n")
    assert not (tmp_path / "v").exists()


def test_labelled_data_can_be_the_sample_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("samples.TRAIN").mkdir()  # a folder has no examples
    words = ["model", "--train", "samples.TRAIN", "--dev", "samples.DEV"]
    given = make_context("finetune", words).params
    assert (given["train"], given["dev"]) == (samples.TRAIN, samples.DEV)
    words = ["model", "--task", "classify", "--data", "samples.DEV"]
    assert make_context("evaluate", [*words]).params["data"] == samples.DEV
    Path("samples.DEV").write_text("a\tb\n")  # a file comes first
    assert make_context("evaluate", [*words]).params["data"] == Path("samples.DEV")
