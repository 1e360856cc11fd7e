"""Corpora in a bucket: moto's server answers as S3 does; local files are the peer."""

import bz2
import gzip
import http.server
import threading

import pytest
from helpers.corpora import content, read_documents
from helpers.errors import raises

import kbert

pytestmark = pytest.mark.full
moto = pytest.importorskip("moto.server")
fsspec = pytest.importorskip("fsspec")
pytest.importorskip("s3fs")
pytest.importorskip("upath")
parquet = pytest.importorskip("pyarrow.parquet")

LINES = "".join(f"Line {number} of it.\nAnd another one.\n\n" for number in range(99))
ROWS = [f"Row {number} ends. It ends twice." for number in range(77)]


@pytest.fixture(scope="module")
def credentials():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "somebody")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        patch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
        yield patch


@pytest.fixture(scope="module")
def folder(credentials, tmp_path_factory):
    """The local files, which the bucket has too."""
    import pyarrow

    folder = tmp_path_factory.mktemp("corpus")
    (folder / "a.txt").write_text(LINES)
    (folder / "b.txt.gz").write_bytes(gzip.compress(LINES.encode()))
    (folder / "inner").mkdir()
    (folder / "inner" / "c.txt.bz2").write_bytes(bz2.compress(LINES.encode()))
    (folder / "notes.pdf").write_bytes(b"%PDF-1.7")
    parquet.write_table(pyarrow.table({"text": ROWS}), folder / "d.parquet", row_group_size=13)

    (folder / "saved").mkdir()
    table = pyarrow.table({"text": ROWS})
    with pyarrow.ipc.new_stream(str(folder / "saved" / "data.arrow"), table.schema) as writer:
        writer.write_table(table)
    (folder / "saved" / "state.json").write_text('{"_data_files": []}')  # as datasets writes it

    server = moto.ThreadedMotoServer(port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    credentials.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    system = fsspec.filesystem("s3", skip_instance_cache=True)
    system.mkdir("bucket", region_name="eu-central-1")
    system.put(f"{folder}/", "bucket/texts/", recursive=True)
    system.pipe("bucket/splits/dataset_dict.json", b'{"splits": ["test", "train"]}')
    system.pipe("bucket/splits/test/a.txt", LINES.encode())
    yield folder
    server.stop()


@pytest.mark.parametrize(
    "name",
    [
        "a.txt",
        "b.txt.gz",
        "inner/c.txt.bz2",
        "d.parquet",
        "*.txt*",
        "**/*.bz2",
        "",
        "inner",
        "saved",
    ],
)
def test_documents_are_those_of_local_files(folder, name):
    found = list(read_documents(f"s3://bucket/texts/{name}".rstrip("/")))
    assert found and found == list(read_documents(str(folder / name)))


def test_shards_are_those_of_local_files(folder, tmp_path):
    vocabulary = tmp_path / "vocabulary"
    kbert.train_vocab("s3://bucket/texts", 100, vocabulary)
    kbert.train_vocab(folder, 100, tmp_path / "local vocabulary")
    assert content(vocabulary) == content(tmp_path / "local vocabulary")

    kbert.prepare("s3://bucket/texts", vocabulary, tmp_path / "shards")
    kbert.prepare(folder, vocabulary, tmp_path / "local")
    there, here = content(tmp_path / "shards"), content(tmp_path / "local")
    assert there.pop("index.json") != here.pop("index.json")  # ETags and hashes
    assert there == here
    kbert.prepare("s3://bucket/texts", vocabulary, tmp_path / "shards")  # done already

    fsspec.filesystem("s3").pipe("s3://bucket/texts/a.txt", (LINES + "More.\n").encode())
    with raises(ValueError, "shards", "something else", "a.txt"):
        kbert.prepare("s3://bucket/texts", vocabulary, tmp_path / "shards")
    fsspec.filesystem("s3").pipe("s3://bucket/texts/a.txt", LINES.encode())


def test_splits_of_datasets_are_refused(folder):
    with raises(ValueError, "bucket/splits", "test"):
        list(read_documents("s3://bucket/splits"))


@pytest.mark.parametrize("name", ["nothing.txt", "nothing/*.txt", "nothing"])
def test_what_is_not_there_is_named(folder, name):
    with raises(FileNotFoundError, f"s3://bucket/texts/{name}"):
        list(read_documents(f"s3://bucket/texts/{name}"))


class Refusing(http.server.BaseHTTPRequestHandler):
    """Answers 403, as a bucket does to whoever may not read it."""

    def do_GET(self):
        self.send_response(403)
        self.end_headers()

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


class Half(Refusing):
    """Says how long a file is, and closes the connection in the middle of it."""

    def do_HEAD(self):
        self.send_response(200)
        self.send_header("Content-Length", "20000")
        self.send_header("ETag", '"0123"')
        self.end_headers()

    def do_GET(self):
        self.do_HEAD()
        self.wfile.write(b"A line of text.\n" * 99)
        self.close_connection = True


@pytest.fixture
def serve(credentials, monkeypatch):
    servers = []

    def start(handler):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
        fsspec.filesystem("s3").clear_instance_cache()

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()
    fsspec.filesystem("s3").clear_instance_cache()


@pytest.mark.parametrize("name", ["a.txt", "a.parquet"])
@pytest.mark.parametrize("handler", [Refusing, Half])
def test_failing_bucket_is_one_line_and_leaves_nothing(serve, tmp_path, handler, name):
    """An OSError, which keeps the shards that are finished; a ValueError would remove them."""
    (tmp_path / "words.txt").write_text("a line of text\n" * 9)
    kbert.train_vocab(tmp_path / "words.txt", 30, tmp_path / "vocabulary")
    serve(handler)
    with raises(OSError, f"s3://bucket/{name}"):
        kbert.prepare(f"s3://bucket/{name}", tmp_path / "vocabulary", tmp_path / "shards")
    assert not (tmp_path / "shards").exists()
