"""A profile of some steps: its trace names the layers, and the run's result is the same."""

import collections
import gzip
import json
import os

import keras
import numpy as np
import pytest
from helpers.backends import full_on
from helpers.errors import raises
from helpers.run_shards import CONFIG, make_shards, without_times
from helpers.sizes import ROOT

import kbert

pytestmark = full_on("tensorflow")  # torch is the quickest
BLOCKS = 3
SETTINGS = {"steps": 7, "batch_size": 6, "seq_len": 17, "learning_rate": 3e-3, "dev_ratio": 0.2}
SETTINGS |= {"evaluate_every": 7, "save_every": 5}
LAYERS = ["Embedding-Norm", "MLM-Dense"]
LAYERS += [f"Encoder-{block}-MultiHeadSelfAttention" for block in range(1, BLOCKS + 1)]
LAYERS += [f"Encoder-{block}-FeedForward" for block in range(1, BLOCKS + 1)]


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    return make_shards(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def train(shards, tmp_path_factory):
    def train(**options):
        folder = tmp_path_factory.mktemp("runs") / "run"
        config = kbert.BertConfig(**CONFIG | {"num_hidden_layers": BLOCKS})
        options = {"output": folder, "progress": False, "peak_flops": 1e9} | SETTINGS | options
        return kbert.pretrain(shards, config, **options), folder

    return train


@pytest.fixture(scope="module")
def profiled(train):
    """A run whose steps 3 and 4 are profiled; without the profile, a call has steps 1 to 3."""
    return train(profile="3:4", steps_per_execution=3)


@pytest.fixture(scope="module")
def plain(train):
    return train(steps_per_execution=3)


def read_events(folder) -> list[dict]:
    """The events of the one trace that Perfetto opens."""
    files = [*folder.glob("profile/**/*.json.gz")]
    named = [file for file in files if file.name == "perfetto_trace.json.gz"] or files
    (file,) = named
    return json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]


def list_operations(folder) -> list[str]:
    """The names of the operations of a trace, with their layers."""
    if keras.backend.backend() == "tensorflow":
        from tensorflow.tsl.profiler.protobuf import xplane_pb2

        (file,) = folder.glob("profile/*/plugins/profile/*/*.xplane.pb")
        space = xplane_pb2.XSpace.FromString(file.read_bytes())
        names = []
        for plane in space.planes:
            for line in plane.lines:
                names += [plane.event_metadata[event.metadata_id].name for event in line.events]
        return names
    names = []
    for event in read_events(folder):
        names.append(event.get("args", {}).get("op_name", event.get("name", "")))
    return names


def test_trace_names_the_layers_of_each_block(profiled):
    operations = list_operations(profiled[1])
    for layer in LAYERS:
        assert [name for name in operations if layer in name], layer
    backward = {"tensorflow": "gradients/", "jax": "transpose("}.get(keras.backend.backend())
    for layer in LAYERS:
        if backward is not None and layer.startswith("Encoder"):
            of_layer = [name for name in operations if layer in name]
            assert [name for name in of_layer if backward in name], layer


def test_trace_has_the_steps_of_the_range_alone(profiled):
    """The operation that is first and has one event per step."""
    operations = list_operations(profiled[1])
    layer = "Encoder-2-FeedForward"
    if keras.backend.backend() == "torch":
        assert operations.count(layer) == 2
        return
    counts = collections.Counter(name for name in operations if layer in name)
    assert min(counts.values()) == 2


def test_profiled_run_has_the_same_weights(profiled, plain):
    assert without_times(profiled[0].history.updates) == without_times(plain[0].history.updates)
    weights = zip(profiled[0].bert.model.weights, plain[0].bert.model.weights, strict=True)
    for a, b in weights:
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(a), keras.ops.convert_to_numpy(b))


@pytest.mark.full
def test_killed_run_is_profiled_when_it_is_resumed(train, plain, monkeypatch):
    """Ctrl-C in step 6, the second one of the profile; the last state is of step 5."""
    callback = keras.callbacks.LambdaCallback(on_train_batch_begin=interrupt_at(5))
    folder = None
    with pytest.raises(KeyboardInterrupt):
        folder = train(profile="5:7", callbacks=callback)[1]
    folder = max(plain[1].parent.parent.glob("runs*/run"), key=os.path.getmtime)
    traces = [*folder.rglob("*trace.json.gz"), *folder.rglob("*.xplane.pb")]  # of step 5
    assert traces

    resumed = kbert.resume(folder, profile="6:6", progress=False)
    now = [*folder.rglob("*trace.json.gz"), *folder.rglob("*.xplane.pb")]
    assert len(now) == 2 * len(traces)
    assert without_times(resumed.history.updates) == without_times(plain[0].history.updates)


def interrupt_at(batch: int):
    def begin(number, logs=None):
        if number == batch:
            raise KeyboardInterrupt

    return begin


@pytest.mark.full
def test_run_survives_a_profile_that_cannot_be_written(train, plain, caplog):
    """A file has the name of the traces' folder."""

    def write_file(logs=None):
        (folder,) = [run for run in folder_of.glob("runs*/run") if run not in before]
        (folder / "profile").write_text("no folder")

    folder_of = plain[1].parent.parent
    before = [*folder_of.glob("runs*/run")]
    callback = keras.callbacks.LambdaCallback(on_train_begin=write_file)
    trained, folder = train(profile="2:3", callbacks=callback)
    assert (folder / "profile").read_text() == "no folder"
    assert without_times(trained.history.updates) == without_times(plain[0].history.updates)
    assert [record for record in caplog.records if record.levelname == "WARNING"]


@pytest.mark.parametrize("steps", ["10", "5:4", "0:3", "a:b", "1:2:3", "6:8", ":", "", True])
def test_range_that_the_run_does_not_have_is_refused(train, steps):
    with raises(ValueError, "profile", str(steps)):
        train(profile=steps)


def test_profile_needs_a_folder(tmp_path):
    data = tmp_path / "train.tsv"
    data.write_text("a\tx\nb\ty\n")
    with raises(ValueError, "profile", "output", "1:2"):
        kbert.finetune(ROOT / "docs" / "small_model", train=data, task="classify", profile="1:2")


def test_run_without_a_profile_writes_none(plain):
    assert not (plain[1] / "profile").exists()
