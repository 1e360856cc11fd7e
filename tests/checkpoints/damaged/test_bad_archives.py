"""Archives that are damaged or foreign are refused: check sums count, errors name the archive."""

import os
import zipfile

import pytest
from helpers.damaged_checkpoints import as_torch, refused
from helpers.marks import full
from numpy.testing import assert_equal

import kbert


@pytest.fixture
def torch_folder(folder):
    return as_torch(folder).parent


@pytest.mark.full
def test_a_pytorch_model_without_check_sums_opens(good, torch_folder):
    import torch

    file = torch_folder / "pytorch_model.bin"
    state = torch.load(file, weights_only=True)
    torch.serialization.set_crc32_options(False)
    try:
        torch.save(state, file)
    finally:
        torch.serialization.set_crc32_options(True)
    with zipfile.ZipFile(file) as archive:
        assert {member.CRC for member in archive.infolist()} == {0}
    assert_equal(*(kbert.load(path).model.get_weights() for path in (good, torch_folder)))


@pytest.mark.parametrize("method", ["DEFLATED", *(full(name) for name in ("LZMA", "BZIP2"))])
def test_a_damaged_member_however_it_is_compressed(capsys, tmp_path, method):
    file = tmp_path / "bert.zip"
    with zipfile.ZipFile(file, "w", getattr(zipfile, f"ZIP_{method}")) as archive:
        archive.writestr("bert/config.json", os.urandom(5000))
        start = archive.getinfo("bert/config.json").header_offset + 30 + len("bert/config.json")
    damaged = bytearray(file.read_bytes())
    damaged[start + 9 : start + 40] = bytes(31)
    file.write_bytes(damaged)
    refused(capsys, file, f"{file} must be a whole .zip file, got: ")


def test_errors_name_the_zip_and_not_where_it_was_unpacked(capsys, folder, tmp_path):
    (folder / "config.json").write_text("{")
    with zipfile.ZipFile(tmp_path / "some.zip", "w") as archive:
        for file in folder.iterdir():
            archive.write(file, f"bert/{file.name}")
    message = refused(
        capsys, tmp_path / "some.zip", f"{tmp_path}/some.zip/bert/config.json must be"
    )
    assert "kbert-" not in message
    with zipfile.ZipFile(tmp_path / "no.zip", "w") as archive:
        archive.writestr("bert/readme.txt", "nothing")
    message = refused(capsys, tmp_path / "no.zip", "no checkpoint of")
    assert "kbert-" not in message


def test_too_little_memory_is_one_line(capsys, monkeypatch):
    from helpers.command_line import kbert as command

    class ResourceExhaustedError(Exception):
        """As TensorFlow's, which is no RuntimeError."""

    for error in (ResourceExhaustedError("OOM when\nallocating"), MemoryError()):

        def fail(*_, error=error, **__):
            raise error

        monkeypatch.setattr("kbert.model.builder.build_graph", fail)
        done = command(capsys, "summary", "tiny", "--built")
        assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
        assert done.err.startswith("kbert: not enough memory for the model")
