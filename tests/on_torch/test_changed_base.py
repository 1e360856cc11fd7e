"""A run that must start over does so from the weights that it began from, or says that it cannot.

The oracle is a run that never stopped.
"""

import json
import shutil

import numpy as np
import pytest
from helpers.errors import raises
from helpers.folder_trees import read_tree
from helpers.interrupted_run import Crash
from helpers.labelled_texts import QUIET, tune, write_source
from helpers.run_shards import CONFIG, SETTINGS, make_shards
from safetensors.numpy import load_file, save_file

import kbert
from kbert.io import interrupted_saves

pytestmark = pytest.mark.full

OPTIONS = {"epochs": 1, "save_every": 1}
WEIGHTS = "model.safetensors"


@pytest.fixture
def folder(labelled, tmp_path):
    """A copy of the data and the base, which the test may change."""
    return shutil.copytree(labelled, tmp_path / "data")


def crash(folder, run, updates=2, **options):
    with raises(RuntimeError, "crash"):
        tune(folder, run, callbacks=[Crash(updates)], **OPTIONS | options)
    return run


def damage_states(run) -> None:
    for state in (run / "checkpoints").iterdir():
        state.write_bytes(state.read_bytes()[:-9])


def change_weights(base, *, drop=()) -> None:
    """Add to all weights of a checkpoint; or leave some out."""
    tensors = load_file(base / WEIGHTS)
    if drop:
        tensors = {name: array for name, array in tensors.items() if not name.startswith(drop)}
    else:
        tensors = {name: array + np.float32(0.25) for name, array in tensors.items()}
    save_file(tensors, base / WEIGHTS, metadata={"format": "pt"})


def assert_same(bert, wanted) -> None:
    for array, expected in zip(bert.model.get_weights(), wanted.model.get_weights(), strict=True):
        np.testing.assert_array_equal(array, expected)


def test_run_without_a_state_is_not_begun_from_another_base(folder, tmp_path):
    whole = tune(folder, **OPTIONS)
    run = crash(folder, tmp_path / "run")
    damage_states(run)
    shutil.copytree(folder / "source", tmp_path / "old")
    change_weights(folder / "source")
    before = read_tree(run)
    with raises(ValueError, "source") as raised:
        kbert.resume(run, **QUIET)
    assert str(folder / "source") in str(raised.value) and "\n" not in str(raised.value)
    after = read_tree(run)
    assert {**after, ".": None} == {**before, ".": None}  # the lock was there
    again = kbert.resume(run, source=tmp_path / "old", **QUIET)
    assert_same(again.bert, whole.bert)


def test_run_with_a_state_needs_its_base_no_more(folder, tmp_path):
    whole = tune(folder, **OPTIONS)
    run = crash(folder, tmp_path / "run")
    change_weights(folder / "source")
    assert_same(kbert.resume(run, **QUIET).bert, whole.bert)


def test_run_of_an_older_kbert_has_no_digest_and_resumes(folder, tmp_path):
    whole = tune(folder, **OPTIONS)
    run = crash(folder, tmp_path / "run")
    damage_states(run)
    settings = json.loads((run / "settings.json").read_text())
    assert settings.pop("base")
    (run / "settings.json").write_text(json.dumps(settings))
    assert_same(kbert.resume(run, **QUIET).bert, whole.bert)


def test_layers_that_the_base_lacks_are_none_of_the_digest(small, tmp_path):
    """They are initialized at random at each load, and from the seed in each run."""
    folder = write_source(tmp_path, small)
    change_weights(folder / "source", drop="bert.pooler.")
    run = crash(folder, tmp_path / "run")
    damage_states(run)
    assert kbert.resume(run, **QUIET).metrics


@pytest.mark.full
def test_continued_adapter_is_part_of_the_base(folder, tmp_path):
    lora = {"lora_rank": 3, "lora_targets": "query,value"}
    first = tune(folder, tmp_path / "first", **OPTIONS | lora)
    kbert.save(first.bert, tmp_path / "adapter", format="peft")
    run = crash(folder, tmp_path / "run", source=tmp_path / "adapter", **lora)
    damage_states(run)
    file = tmp_path / "adapter" / "adapter_model.safetensors"
    tensors = load_file(file)
    save_file({name: array * np.float32(1.5) for name, array in tensors.items()}, file)
    with raises(ValueError, "source"):
        kbert.resume(run, **QUIET)
    save_file(tensors, file)
    assert kbert.resume(run, **QUIET).metrics


@pytest.mark.full
def test_pretraining_without_a_state_is_not_begun_from_another_init(tmp_path):
    make_shards(tmp_path)
    config = kbert.BertConfig(**CONFIG)
    options = {**SETTINGS, **QUIET, "steps": 3, "save_every": 1}
    base = kbert.pretrain(tmp_path / "shards", config, output=tmp_path / "base", **options)
    kbert.save(base.bert, tmp_path / "init")
    run = tmp_path / "run"
    with raises(RuntimeError, "crash"):
        start = {"init": tmp_path / "init", "output": run, "callbacks": [Crash(2)]}
        kbert.pretrain(tmp_path / "shards", **start, **options)
    damage_states(run)
    change_weights(tmp_path / "init")
    with raises(ValueError, "init"):
        kbert.resume(run, **QUIET)


@pytest.mark.parametrize("name", ["checkpoints", "metrics.jsonl", "report.html", ".lock"])
def test_a_run_with_links_changes_nothing_outside_of_it(labelled, tmp_path, name):
    """As an archive may bring it."""
    run = crash(labelled, tmp_path / "run")
    mine = tmp_path / "mine"
    mine.mkdir()
    if (run / name).is_dir():
        shutil.move(run / name, mine / name)
    else:
        (run / name).unlink(missing_ok=True)
        (mine / name).write_text("mine")
    (run / name).symlink_to(mine / name)
    before = read_tree(mine)
    with raises(ValueError, "link"):
        kbert.resume(run, **QUIET)
    assert read_tree(mine) == before


@pytest.mark.parametrize("name", ["interrupted save", "another checkpoint", "folder"])
def test_run_whose_model_cannot_be_written_is_refused_before_it_trains(
    labelled, tmp_path, monkeypatch, name
):
    monkeypatch.setattr(interrupted_saves, "WRITER_TIMEOUT_S", 0.0)
    run = crash(labelled, tmp_path / "run")
    if name == "interrupted save":
        file = run / "model" / ".kbert.00000000-1.new" / "config.json"
    elif name == "another checkpoint":
        file = run / "model" / "bert_model.ckpt.index"
        (run / "model").mkdir()
        (run / "model" / "bert_config.json").write_text("{}")
    else:
        file = run / "model.keras" / "notes.txt"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("mine")
    before = read_tree(run)
    with raises((ValueError, IsADirectoryError), "model"):
        kbert.resume(run, **QUIET)
    assert read_tree(run) == before


def test_finished_run_of_links_is_opened(labelled, tmp_path):
    """As `cp -rs` makes it."""
    run = tune(labelled, tmp_path / "run", **OPTIONS).folder
    for path in sorted(run.rglob("*")):
        link = tmp_path / "links" / path.relative_to(run)
        if path.is_dir():
            link.mkdir(parents=True)
        else:
            link.parent.mkdir(exist_ok=True)
            link.symlink_to(path)
    before = read_tree(tmp_path)
    assert kbert.resume(tmp_path / "links", **QUIET).metrics
    assert read_tree(tmp_path) == before


def test_hidden_files_of_the_user_stay_in_a_run(labelled, tmp_path):
    run = crash(labelled, tmp_path / "run")
    (run / ".notes.part").write_text("mine")
    (run / ".model.0badcafe-12.part").write_text("a killed writer's")
    kbert.resume(run, **QUIET)
    assert (run / ".notes.part").read_text() == "mine"
    assert not (run / ".model.0badcafe-12.part").exists()
