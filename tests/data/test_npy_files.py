"""An .npy file with more bytes than its header says is refused; NumPy reads it without a word."""

import numpy as np
import pytest
from helpers.command_line import kbert as command
from helpers.errors import raises

import kbert
from kbert.data.npy_files import read_npy

SHAPES = [(), (0,), (7,), (2, 24), (3, 0)]


def changes(content: bytes) -> dict[str, bytes]:
    return {
        "bytes inserted": content[:160] + bytes(8) + content[160:],
        "another dtype": content.replace(b"<f4", b"<f2"),
        "another shape": content.replace(b"(2, 24)", b"(1, 24)"),
        "one byte more": content + b"\0",
        "one byte fewer": content[:-1],
        "a second array": content * 2,
    }


@pytest.mark.parametrize("mode", [None, "r"])
@pytest.mark.parametrize("shape", SHAPES)
def test_whole_files_are_read_as_numpy_reads_them(tmp_path, shape, mode):
    array = np.arange(np.prod(shape, dtype=int), dtype="float32").reshape(shape)
    for stored in (array, np.asarray(array, order="F")):
        np.save(tmp_path / "a.npy", stored)
        np.testing.assert_array_equal(read_npy(tmp_path / "a.npy", mode), array, strict=True)


@pytest.mark.parametrize("mode", [None, "r"])
def test_a_file_of_another_length_than_its_header_says_is_refused(tmp_path, mode):
    file = tmp_path / "a.npy"
    np.save(file, np.arange(48, dtype="float32").reshape(2, 24))
    for name, content in changes(file.read_bytes()).items():
        file.write_bytes(content)
        with raises(ValueError, file, ".npy") as raised:
            read_npy(file, mode)
        assert "\n" not in str(raised.value), name


@pytest.mark.full
def test_search_and_shards_refuse_such_a_file(saved, corpus, tmp_path, capsys):
    folder, _ = corpus
    kept = {file: file.read_bytes() for file in (folder / "shards").glob("*.npy")}
    for file, content in kept.items():
        file.write_bytes(content + bytes(4))
        with raises(ValueError, file.name):
            kbert.open_shards(folder / "shards", check=False)
        file.write_bytes(content)
    kbert.open_shards(folder / "shards", check=False)
    width = saved[1]["encoder"].config.hidden_size
    np.save(tmp_path / "v.npy", np.ones((2, width), "float32"))
    with (tmp_path / "v.npy").open("ab") as file:
        file.write(bytes(8))
    (tmp_path / "texts.txt").write_text("a cat\na dog\n")
    options = ["--lines", tmp_path / "texts.txt", "--embeddings", tmp_path / "v.npy"]
    done = command(capsys, "search", saved[0] / "encoder", "cat", *options)
    assert done.status == 2 and "v.npy" in done.err and done.err.count("\n") == 1
