"""Binary files with mutations open, or are refused in one line, soon and in little memory.

270 in the gate, the first ones of 2,160 with `pytest -m nightly`.

Values of JSON files are mutated in tests/checkpoints/damaged/test_mutated_json.py.
"""

import collections
import os
import random
import shutil
import zipfile
from pathlib import Path

import pytest
from helpers.damaged_checkpoints import VOCABULARY, as_torch
from helpers.load_in_subprocess import SECONDS, Worker
from helpers.marks import nightly
from helpers.sizes import FILES

import kbert
from kbert.checkpoints import transfer, weight_names
from kbert.graph.spec import GraphSpec

ARCHIVE = FILES / "tf_bert.zip"
EACH, MORE = 30, 240  # mutations of a format
# Formats whose files hold check sums of all that is read from them.
SUMMED = ("bin", "google", "bert.keras", "bert.zip")
BAD = ("other", "unclear", "over time", "over 2 GB", "died", "accepted against its check sum")

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc"),
]


@pytest.fixture(scope="module")
def checkpoints(small, tmp_path_factory):
    """By name: a path, and the files of it to be mutated."""
    folder = tmp_path_factory.mktemp("fuzzed")
    tokenizer = kbert.Tokenizer.from_vocab(VOCABULARY, lowercase=True)
    model = kbert.build_bert(small, seq_len=None)
    bert = kbert.Bert(small, "pretraining", model, tokenizer)
    kbert.save(bert, folder / "safetensors")
    kbert.save(bert, folder / "google", format="google")
    kbert.save(bert, folder / "preset", format="keras_hub")
    kbert.save(bert, folder / "bert.keras")
    shutil.copytree(folder / "safetensors", folder / "bin")
    as_torch(folder / "bin")
    with zipfile.ZipFile(ARCHIVE) as archive:  # of transformers 4
        archive.extractall(folder / "transformers")
    shutil.move(folder / "transformers" / "pretraining", folder / "tensorflow")
    as_keras_bert(folder / "bert.h5", model, small)
    with zipfile.ZipFile(folder / "bert.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted((folder / "google").iterdir()):
            archive.write(file, f"uncased/{file.name}")
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in VOCABULARY))
    parts = {
        "safetensors": ["model.safetensors"],
        "bin": ["pytorch_model.bin"],
        "tensorflow": ["tf_model.h5"],
        "google": ["bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001"],
        "preset": ["model.weights.h5", "task.weights.h5"],
    }
    files = ["bert.h5", "bert.keras", "bert.zip", "vocab.txt"]
    found = {n: (folder / n, [folder / n / part for part in parts[n]]) for n in parts}
    return found | {name: (folder / name, [folder / name]) for name in files}


def as_keras_bert(path: Path, model, config) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        for name, array in arrays_in("keras_bert", model, config).items():
            layer, weight = name.split("/")
            file[f"{layer}/{layer}/{weight}:0"] = array
        file.attrs["layer_names"] = [name.encode() for name in file]


def arrays_in(column: str, model, config) -> dict:
    entries = weight_names.entries_of(GraphSpec(config, "pretraining"), column)
    return transfer.arrays_of(model, entries)


def mutated(content: bytes, draws: random.Random) -> bytes:
    """The content with one to three changes, half of them where headers are."""
    found = bytearray(content)
    for _ in range(draws.choice([1, 1, 1, 2, 3])):
        place = place_in(len(found), draws)
        length = draws.choice([1, 1, 2, 4, 8, 64, 500])
        numbers = [0, 1, 2**15, 2**31 - 1, 2**32 - 1, 2**40, 2**63 - 1, 2**64 - 1, len(found)]
        few = draws.choice(numbers).to_bytes(8, "little")[: draws.choice([2, 4, 8])]
        change = draws.randrange(9)
        if change < 3:  # bits
            found[place] ^= 1 << draws.randrange(8)
        elif change == 3:  # a size
            found[place : place + len(few)] = few
        elif change == 4:
            del found[place : len(found) if draws.random() < 0.3 else place + length]
        elif change == 5:
            found[place:place] = draws.randbytes(length)
        elif change == 6:
            found[place : place + length] = bytes(min(length, len(found) - place))
        elif change == 7:  # another part of itself
            other = place_in(len(found), draws)
            found[place : place + length] = found[other : other + length]
        else:  # a digit of JSON or of a name
            digits = [at for at in range(place, min(place + 200, len(found)))
                      if 48 <= found[at] < 58]  # fmt: skip
            for at in digits[:1]:
                found[at : at + 1] = draws.choice([b"0", b"9", b"-1", b"9999999999", b"1e9"])
        found = found or bytearray(b"\0")
    return bytes(found)


def place_in(length: int, draws: random.Random) -> int:
    at = draws.random()
    if at < 0.4:
        return draws.randrange(min(length, 4096))
    return length - 1 - draws.randrange(min(length, 4096) if at < 0.6 else length)


@pytest.fixture(scope="module")
def worker(small, checkpoints):
    made = Worker(small.to_dict(), checkpoints["safetensors"][0])
    yield made
    made.close()


NAMES = ("safetensors", "bin", "tensorflow", "google", "preset", "bert.h5", "bert.keras")
NAMES += ("bert.zip", "vocab.txt")


@pytest.mark.full
@pytest.mark.parametrize("count", [EACH, nightly(MORE)])
@pytest.mark.parametrize("name", NAMES)
def test_mutated_files(checkpoints, worker, name, count, capsys):
    path, files = checkpoints[name]
    whole = worker.ask(path)
    assert whole["kind"] == "opened", whole
    draws = random.Random(f"kbert {name}")
    counts, bad, slowest = collections.Counter(), [], 0.0
    for number in range(int(os.environ.get("KBERT_FUZZ", count))):
        file = draws.choice(files)
        content = file.read_bytes()
        file.write_bytes(mutated(content, draws))
        found = worker.ask(path)
        if name in SUMMED and found["kind"] == "opened" and found["digest"] != whole["digest"]:
            found["kind"] = "accepted against its check sum"
        if found["kind"] in BAD:
            bad.append((number, file.name, found))
            keep(file, name, number)
        file.write_bytes(content)
        counts[found["kind"]] += 1
        slowest = max(slowest, found.get("seconds", SECONDS))
    with capsys.disabled():
        print(
            f"\n{name}: {sum(counts.values())} mutations, {dict(counts)}, {slowest:.1f} s at most"
        )
    assert not bad, bad[:10]


def keep(file: Path, name: str, number: int) -> None:
    """Where KBERT_FUZZ_KEEP names a folder, what was bad is kept there."""
    if folder := os.environ.get("KBERT_FUZZ_KEEP"):
        shutil.copy(file, Path(folder) / f"{name}-{number}-{file.name}")
