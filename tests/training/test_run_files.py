"""A run's files: states are whole or refused, records appear once, TensorBoard reads its events."""

import json
import math
import os

import ml_dtypes
import numpy as np
import pytest
from helpers.errors import check_logged, raises

from kbert.training.run.records import EventFile, RecordFile, read_records
from kbert.training.run.run_folder import RunFolder
from kbert.training.run.state_files import DamagedState, read_state, write_state

RANDOM = np.random.default_rng(7)
ARRAYS = {
    "weights": RANDOM.normal(size=(13, 7)).astype("float32"),
    "turned": RANDOM.normal(size=(5, 3)).astype("float32").T,
    "scalar": np.float32(3.5),
    "count": np.array(2**40, "int64"),
    "seed": np.array([4_000_000_000, 17], "uint32"),
    "flag": np.array(True),
    "half": RANDOM.normal(size=11).astype(ml_dtypes.bfloat16),
    "none": np.zeros((0, 4), "float32"),
    "nan": np.array([math.nan, math.inf], "float32"),
}
SETTINGS, DATA = {"steps": 9, "sizes": [1, 2]}, {"shards": {"sha256": "ab"}, "seed": 3}


@pytest.fixture
def state(tmp_path):
    path = tmp_path / "step-00000007.safetensors"
    write_state(path, ARRAYS, {"step": 7})
    return path


def test_state_round_trip_is_bit_equal(state):
    arrays, facts = read_state(state)
    assert facts == {"step": 7} == read_state(state, whole=False)[1]
    assert set(arrays) == set(ARRAYS)
    for name, array in ARRAYS.items():
        array = np.asarray(array)
        assert (arrays[name].dtype, arrays[name].shape) == (array.dtype, array.shape)
        assert arrays[name].tobytes() == array.tobytes()


def test_safetensors_opens_a_state(state):
    """Read it by safetensors, and its header as the format's page describes it."""
    from safetensors.numpy import load_file

    assert np.array_equal(load_file(state)["turned"], ARRAYS["turned"])
    data = state.read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    assert header["weights"]["shape"] == [13, 7] and header["weights"]["dtype"] == "F32"


def test_state_with_one_flipped_bit_is_refused(state):
    whole = state.read_bytes()
    for place in range(0, len(whole), 61):
        damaged = bytearray(whole)
        damaged[place] ^= 4
        state.write_bytes(damaged)
        with pytest.raises((DamagedState, OSError)):
            read_state(state)


def test_truncated_state_is_refused(state):
    whole = state.read_bytes()
    for length in (0, 1, 8, 100, len(whole) // 2, len(whole) - 1):
        state.write_bytes(whole[:length])
        with raises(DamagedState, "step-00000007"):
            read_state(state)


def test_foreign_safetensors_file_is_refused(tmp_path):
    from safetensors.numpy import save_file

    save_file({"a": np.zeros(3)}, tmp_path / "a.safetensors")
    with raises(DamagedState, "a.safetensors"):
        read_state(tmp_path / "a.safetensors")


def test_state_is_flushed_before_it_gets_its_name(tmp_path, monkeypatch):
    """Else a machine that fails may leave the name, and old or no numbers under it."""
    path, calls, replace = tmp_path / "step-00000007.safetensors", [], os.replace
    monkeypatch.setattr(os, "fsync", lambda number: calls.append(os.fstat(number).st_ino))
    monkeypatch.setattr(os, "replace", lambda *paths: (calls.append("renamed"), replace(*paths)))
    write_state(path, ARRAYS, {"step": 7})
    assert calls == [path.stat().st_ino, "renamed", tmp_path.stat().st_ino]


def test_records_are_cut_at_the_resumed_step(tmp_path):
    path = tmp_path / "metrics.jsonl"
    records = RecordFile(path)
    for step in range(1, 8):
        records.add(step, {"loss": 1 / step, "accuracy": math.nan})
    records.close()
    with path.open("ab") as file:
        file.write(b'{"step": 8, "lo')
    assert [line["step"] for line in read_records(path)] == list(range(1, 8))
    assert "NaN" not in path.read_text(encoding="utf-8")
    assert math.isnan(read_records(path)[3]["accuracy"])
    again = RecordFile(path, step=5)
    again.add(6, {"loss": 0.5})
    again.close()
    assert [line["step"] for line in read_records(path)] == [1, 2, 3, 4, 5, 6]


def test_tensorflow_reads_the_event_file(tmp_path):
    """Framing, checksums and fields as TensorFlow has them."""
    tf = pytest.importorskip("tensorflow")
    from tensorflow.core.util.event_pb2 import Event, SessionLog

    events = EventFile(tmp_path, 300)
    values = {"loss": 0.1, "MLM_accuracy": 0.25, "größe": -1e30}
    events.add(301, values)
    events.add(2**40, {"loss": math.inf})
    events.close()
    (path,) = tmp_path.iterdir()
    records = [record.numpy() for record in tf.data.TFRecordDataset(str(path))]
    version, start, first, last = map(Event.FromString, records)
    assert version.file_version == "brain.Event:2" and version.wall_time > 1.7e9
    assert (start.step, start.session_log.status) == (301, SessionLog.START)
    found = {value.tag: value.simple_value for value in first.summary.value}
    assert first.step == 301 and found == {k: float(np.float32(v)) for k, v in values.items()}
    assert last.step == 2**40 and last.summary.value[0].simple_value == math.inf


@pytest.fixture
def run(tmp_path):
    run = RunFolder.create(tmp_path / "run", SETTINGS, DATA)
    run.begin(0)
    yield run
    run.close()


def steps(run) -> list[int]:
    return [int(path.stem[5:]) for path in sorted(run.path.glob("checkpoints/*.safetensors"))]


def test_last_two_and_best_states_are_kept(run):
    for step, score in ((2, None), (4, -3.0), (6, -1.0), (8, -2.0), (10, None), (12, -1.0)):
        run.save_state(ARRAYS, step, score=score and (score, -0.5))
    assert steps(run) == [6, 10, 12]
    assert run.states.best().step == 6 and run.states.best().score == -1.0


def test_last_two_states_are_kept_without_evaluations(run):
    for step in (0, 2, 4, 6):
        run.save_state(ARRAYS, step)
    assert steps(run) == [4, 6] and run.states.best() is None


def test_lowest_loss_is_best_among_equal_scores(run):
    for step, loss in ((2, 0.75), (4, 0.25), (6, 0.5), (8, 0.625)):
        run.save_state(ARRAYS, step, score=(0.875, -loss))
    assert steps(run) == [4, 6, 8] and run.states.best().step == 4


def test_damaged_state_is_skipped_with_a_warning(run, messages):
    for step in (2, 4):
        run.save_state(ARRAYS, step)
    newest = run.path / "checkpoints" / "step-00000004.safetensors"
    os.truncate(newest, 300)
    assert RunFolder.open(run.path).states.last().step == 2
    check_logged(messages, "step-00000004.safetensors")
    run.begin(2)
    assert steps(run) == [2]  # what cannot be used is set aside


def test_state_of_another_run_is_skipped_with_a_warning(run, tmp_path, messages):
    run.save_state(ARRAYS, 2)
    other = RunFolder.create(tmp_path / "other", SETTINGS, DATA)
    other.begin(0)
    other.save_state(ARRAYS, 5)
    other.close()
    foreign = other.path / "checkpoints" / "step-00000005.safetensors"
    foreign.rename(run.path / "checkpoints" / foreign.name)
    assert run.states.last().step == 2
    check_logged(messages, "step-00000005.safetensors")


def test_changed_settings_are_named(run):
    run.save_state(ARRAYS, 2)
    file = run.path / "settings.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    content["settings"]["steps"] = 10
    file.write_text(json.dumps(content), encoding="utf-8")
    with raises(ValueError, "steps", "10", "9"):
        RunFolder.open(run.path).states.last()
    other = {"shards": {"sha256": "cd"}, "seed": 3}
    with raises(ValueError, "data.shards.sha256:", '"ab"', '"cd"') as error:
        run.check(other)
    assert "\n" not in str(error.value)


def test_run_folder_must_be_new_or_empty(run, tmp_path):
    with raises(FileExistsError, "kbert.resume("):
        RunFolder.create(run.path, SETTINGS, DATA)
    (run.path / "result.json").write_text("{}", encoding="utf-8")
    with raises(FileExistsError, "finished"):
        RunFolder.create(run.path, SETTINGS, DATA)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine", encoding="utf-8")
    with raises(FileExistsError, "empty"):
        RunFolder.create(tmp_path / "full", SETTINGS, DATA)
    with raises(FileNotFoundError, "no run"):
        RunFolder.open(tmp_path / "full")
