"""Archives that are damaged or foreign are refused: check sums count, errors name the archive."""

import os
import zipfile

import h5py
import numpy as np
import pytest
from helpers.damaged_checkpoints import as_torch, load_error, refused
from helpers.marks import full, nightly
from numpy.testing import assert_equal

import kbert


@pytest.fixture
def torch_folder(folder):
    return as_torch(folder).parent


@pytest.mark.parametrize("number", [0, *(nightly(n) for n in range(1, 5)), 5])
def test_a_flipped_byte_of_a_pytorch_model(torch_folder, number):
    """One of its numbers, its zip has a check sum over it."""
    file = torch_folder / "pytorch_model.bin"
    with zipfile.ZipFile(file) as archive:
        members = [m for m in archive.infolist() if "/data/" in m.filename and m.file_size > 50]
    member = members[number * 7]
    content = bytearray(file.read_bytes())
    start = member.header_offset + 30 + int.from_bytes(
        content[member.header_offset + 26 : member.header_offset + 28], "little"
    ) + int.from_bytes(content[member.header_offset + 28 : member.header_offset + 30], "little")  # fmt: skip  # noqa: E501
    content[start + member.file_size // 2] ^= 1 << number
    file.write_bytes(content)
    load_error(torch_folder, f"wrong check sum of {member.filename}$")


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
def test_a_damaged_member_however_it_is_compressed(capsys, good, tmp_path, method):
    content = os.urandom(5000)
    way = getattr(zipfile, f"ZIP_{method}")
    file = tmp_path / "bert.zip"
    with zipfile.ZipFile(file, "w", way) as archive:
        archive.writestr("bert/config.json", content)
        start = archive.getinfo("bert/config.json").header_offset + 30 + len("bert/config.json")
    damaged = bytearray(file.read_bytes())
    damaged[start + 9 : start + 40] = bytes(31)
    file.write_bytes(damaged)
    refused(capsys, file, f"{file} must be a whole .zip file, got: ")
    kbert.save(kbert.load(good), tmp_path / "whole.keras")
    path = tmp_path / "bert.keras"
    with zipfile.ZipFile(tmp_path / "whole.keras") as whole, zipfile.ZipFile(path, "w", way) as to:
        for name in whole.namelist():
            to.writestr(name, whole.read(name))
        start = to.getinfo("config.json").header_offset + 30 + len("config.json")
    damaged = bytearray(path.read_bytes())
    damaged[start + 9 : start + 40] = bytes(31)
    path.write_bytes(damaged)
    refused(capsys, path, f"{path} must be a whole .keras file, got: ")


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


def test_a_variable_at_the_root_of_a_keras_file(good, tmp_path):
    kbert.save(kbert.load(good), tmp_path / "whole.keras")
    with zipfile.ZipFile(tmp_path / "whole.keras") as whole:
        members = {name: whole.read(name) for name in whole.namelist()}
    (tmp_path / "weights.h5").write_bytes(members["model.weights.h5"])
    with h5py.File(tmp_path / "weights.h5", "a") as file:
        file["own"] = np.float32([3, 5])
        file["layers/own"] = np.float32([7])
    members["model.weights.h5"] = (tmp_path / "weights.h5").read_bytes()
    with zipfile.ZipFile(tmp_path / "bert.keras", "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    assert set(kbert.inspect(tmp_path / "bert.keras").left_out) == {"own", "layers/own"}


def test_too_little_memory_is_one_line(capsys, monkeypatch):
    from helpers.command_line import kbert as command

    class ResourceExhaustedError(Exception):
        """As TensorFlow's, which is no RuntimeError."""

    for error in (
        ResourceExhaustedError("OOM when\nallocating [1000000000000,768]"),
        MemoryError(),
    ):

        def fail(*_, error=error, **__):
            raise error

        monkeypatch.setattr("kbert.model.builder.build", fail)
        done = command(capsys, "summary", "tiny", "--built")
        assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
        assert done.err.startswith("kbert: not enough memory for the model")
