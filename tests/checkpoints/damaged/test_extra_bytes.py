"""Weights with more bytes than their header says are refused: a library reads shifted numbers."""

import pytest
from helpers.damaged_checkpoints import as_torch, load_error

import kbert


def insert(file, place: int, count: int = 8) -> None:
    content = file.read_bytes()
    place = place if place >= 0 else len(content) + 1 + place
    file.write_bytes(content[:place] + bytes(count) + content[place:])


def write(saved, form: str, folder):
    """Return the path of a checkpoint, and that of the file with its numbers."""
    bert = saved[1]["encoder"]
    if form == "keras_hub":
        kbert.save(bert, folder / "bert", format="keras_hub")
        return folder / "bert", folder / "bert" / "model.weights.h5"
    if form == "h5":
        bert.model.save(folder / "bert.h5")
        return folder / "bert.h5", folder / "bert.h5"
    kbert.save(bert, folder / "bert")
    if form == "safetensors":
        return folder / "bert", folder / "bert" / "model.safetensors"
    file = as_torch(folder / "bert", _use_new_zipfile_serialization=False)
    return folder / "bert", file


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")  # Keras advises against .h5
@pytest.mark.parametrize("place", ["middle", "end"])
@pytest.mark.parametrize("form", ["safetensors", "torch", "keras_hub", "h5"])
def test_inserted_bytes_are_refused(saved, tmp_path, form, place):
    path, file = write(saved, form, tmp_path)
    assert kbert.load(path, lowercase=True).head == "encoder"
    insert(file, file.stat().st_size // 2 if place == "middle" else -1)
    load_error(path, file.name, lowercase=True)
