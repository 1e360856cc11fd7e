"""Small files that would need gigabytes or minutes are refused soon, in a line."""

import json
import struct
import zipfile

import h5py
import numpy as np
import pytest
from helpers.damaged_checkpoints import VOCABULARY, WEIGHTS, as_torch, change_json, refused
from helpers.load_in_subprocess import Worker
from safetensors.numpy import save_file

import kbert

SECONDS, MIB = 20, 600  # of a machine that is busy; before, a minute or 2,500 at the least
MANY = 10_000_000


@pytest.fixture(scope="module")
def worker(good, small):
    made = Worker(small.to_dict(), good)
    yield made
    made.close()


def blocks(folder):
    change_json(folder / "config.json", num_hidden_layers=MANY)
    return folder


def write_header(folder, names):
    """A file of tensors of nothing, as the format allows."""
    tensor = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    text = json.dumps({name: tensor for name in names})
    (folder / WEIGHTS).write_bytes(struct.pack("<Q", len(text)) + text.encode())
    return folder


def header(folder):
    return write_header(folder, [f"tensor_{n}" for n in range(10**5)])


def header_of_one_name(folder):
    return write_header(folder, ["x" * 10**7])


def lines(folder):
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").write_bytes(b"\n" * 120_000_000)
    return folder


def objects_in_json(folder):
    with open(folder / "tokenizer_config.json", "wb") as file:
        file.write(b'{"added_tokens_decoder": [' + b"{}," * 23_000_000 + b"{}]}")
    return folder


def torch_file(change):
    def made(folder):
        torch, file = pytest.importorskip("torch"), as_torch(folder)
        change(torch, file)
        return folder

    return made


def repeated(torch, file):
    """One number in the file, 4 thousand million in the tensor."""
    torch.save(torch.load(file) | {"x": torch.zeros(1).expand(2**16, 2**16)}, file)


def rewritten(file, change, compression=zipfile.ZIP_STORED):
    """Change the pickle in a file of torch.save."""
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, change(content) if name.endswith("data.pkl") else content)


def compressed(torch, file):
    rewritten(file, lambda content: content + bytes(3 * 10**8), zipfile.ZIP_DEFLATED)


def allocating(torch, file):
    """A pickle of {"x": bytearray(4 * 10**9)}."""
    number = (4 * 10**9).to_bytes(5, "little")
    pickled = b"\x80\x02}X\x01\x00\x00\x00xcbuiltins\nbytearray\n\x8a\x05" + number + b"\x85Rs."
    rewritten(file, lambda content: pickled)


def hdf5(change):
    def made(folder):
        (folder / WEIGHTS).unlink()
        with h5py.File(folder / "tf_model.h5", "w") as file:
            change(file)
        return folder

    return made


def unallocated(file):
    file.create_dataset("bert/embeddings/word_embeddings/weight:0", (3 * 10**6, 768), "f4")


def packed(file):
    zeros = np.zeros(10**6, "f4")
    for number in range(75):
        file.create_dataset(f"bert/{number}:0", data=zeros, compression="gzip")


def nested(file):
    group = file
    for _ in range(5000):
        group = group.create_group("g")


def groups(file):
    for number in range(70_000):
        file.create_group(str(number))


def keras_file(member):
    def made(folder):
        content = {"config.json": b"[" + b"{}," * (10**8) + b"{}]"}.get(member, bytes(3 * 10**8))
        whole, path = folder.parent / "whole.keras", folder.parent / "bert.keras"
        kbert.save(kbert.load(folder), whole)
        with zipfile.ZipFile(whole) as old, zipfile.ZipFile(path, "w") as archive:
            for name in old.namelist():
                if name == member:
                    archive.writestr(name, content, zipfile.ZIP_DEFLATED)
                else:
                    archive.writestr(name, old.read(name), zipfile.ZIP_STORED)
        assert path.stat().st_size < 2**20
        return path

    return made


def archive_of_zeros(folder):
    with zipfile.ZipFile(folder.parent / "bert.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bert/vocab.txt", bytes(3 * 10**8))
    return folder.parent / "bert.zip"


def google(folder):
    """As a sparse table would be: the index says more than its data have."""
    pytest.importorskip("tensorflow")
    kbert.save(kbert.load(folder), folder.parent / "google", format="google")
    data = folder.parent / "google" / "bert_model.ckpt.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:-1000])
    return data.parent


SOON = [
    (blocks, "num_hidden_layers must be at most 1,000, got 10,000,000"),
    (header_of_one_name, "must have a header of at most 8,388,608 bytes, got one of 10,0"),
]
LARGE = [
    *SOON,
    (header, "must hold at most 16,384 tensors, got more"),
    (lines, "vocab.txt must have at most 4,194,304 lines, got more"),
    (objects_in_json, "tokenizer_config.json must be JSON of at most 64 MiB, got more"),
    (torch_file(repeated), "must hold plain tensors by name alone, got 'x'"),
    (torch_file(compressed), "got: a compressed archive, which torch.save does not write"),
    (torch_file(allocating), "got: bytearray, which is no tensor"),
    (hdf5(unallocated), "must hold its own numbers, got bert/embeddings/word_embeddings/weigh"),
    (hdf5(packed), "its datasets must unpack to at most 20 times the"),
    (hdf5(nested), "groups and datasets, 32 within each other, got more"),
    (hdf5(groups), "must have at most 65,536 groups and datasets"),
    (keras_file("config.json"), "bert.keras: config.json must"),
    (keras_file("model.weights.h5"), "bert.keras: model.weights.h5 must"),
    (keras_file("kbert/vocab.txt"), "bert.keras: kbert/vocab.txt must"),
    (archive_of_zeros, "the archive must unpack to at most 20 times the"),
    (google, "must be a whole TensorFlow checkpoint, got tensors of"),
]


@pytest.mark.parametrize(("make", "said"), SOON)
def test_too_large_settings_are_refused(capsys, folder, make, said):
    """In this process: what is refused needs no memory."""
    refused(capsys, make(folder), said)


@pytest.mark.full
@pytest.mark.parametrize(("make", "said"), LARGE)
def test_what_would_need_gigabytes_is_refused(worker, folder, make, said):
    found = worker.ask(make(folder), SECONDS)
    assert found["kind"] == "refused" and said in found["said"], found
    assert found["peak"] < worker.peak + MIB, (found, worker.peak)


@pytest.mark.full
def test_large_checkpoints_open(worker, tmp_path):
    """96 blocks; a vocabulary of a million tokens: more than any BERT has."""
    config = kbert.BertConfig(
        vocab_size=10**6,
        hidden_size=4,
        num_hidden_layers=96,
        num_attention_heads=2,
        intermediate_size=6,
        max_position_embeddings=17,
    )
    from kbert.checkpoints import weight_names
    from kbert.graph.spec import GraphSpec

    tensors = {
        entry.name: np.ones(entry.shape, "f2")
        for entry in weight_names.entries_of(GraphSpec(config, "encoder"), "transformers")
    }
    (tmp_path / "large").mkdir()
    save_file(tensors, tmp_path / "large" / WEIGHTS)
    config.to_json(tmp_path / "large" / "config.json")
    tokens = [*VOCABULARY, *(f"token{n}" for n in range(10**6 - len(VOCABULARY)))]
    (tmp_path / "large" / "vocab.txt").write_text("\n".join(tokens))
    (tmp_path / "large" / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    assert len(tensors) > 1500
    assert worker.ask(tmp_path / "large", 120)["kind"] == "opened"
