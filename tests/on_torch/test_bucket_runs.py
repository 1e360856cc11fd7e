"""Runs and shards in a bucket: moto's server answers as S3 does; local folders are the peer."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
from helpers.command_line import kbert as run_command
from helpers.corpora import content, small_blocks
from helpers.errors import raises
from helpers.interrupted_run import Crash
from helpers.run_shards import CONFIG, make_shards, without_times

import kbert

pytestmark = pytest.mark.full
moto = pytest.importorskip("moto.server")
fsspec = pytest.importorskip("fsspec")
pytest.importorskip("s3fs")
pytest.importorskip("upath")

SETTINGS = {"seq_len": 17, "batch_size": 6, "dev_ratio": 0.2, "progress": False, "peak_flops": 1e9}
SETTINGS |= {"steps": 11, "save_every": 2, "evaluate_every": 4}


@pytest.fixture(scope="module")
def bucket():
    """The file system of an empty bucket, s3://runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "somebody")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        patch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
        server = moto.ThreadedMotoServer(port=0, verbose=False)
        server.start()
        _, port = server.get_host_and_port()
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        system = fsspec.filesystem("s3", skip_instance_cache=True)
        system.mkdir("runs", region_name="eu-central-1")
        yield system
        server.stop()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    make_shards(folder)
    config = kbert.BertConfig(**CONFIG)
    config.to_json(folder / "config.json")
    return folder


@pytest.fixture(scope="module")
def local_run(place, tmp_path_factory):
    output = tmp_path_factory.mktemp("local") / "run"
    return kbert.pretrain(place / "shards", place / "config.json", output=output, **SETTINGS)


def names_in(bucket, folder: str) -> set[str]:
    bucket.invalidate_cache()
    return {name.removeprefix(f"{folder}/") for name in bucket.find(folder)}


def assert_same_run(one, other) -> None:
    assert without_times(one.history.updates) == without_times(other.history.updates)
    pairs = zip(one.bert.model.get_weights(), other.bert.model.get_weights(), strict=True)
    assert all(np.array_equal(*pair) for pair in pairs)


def copies() -> list[str]:
    return [name for name in os.listdir(tempfile.gettempdir()) if name.startswith(".kbert-bucket")]


def test_a_run_in_a_bucket_is_that_of_a_folder(bucket, place, local_run):
    config = place / "config.json"
    there = kbert.pretrain(place / "shards", config, output="s3://runs/whole", **SETTINGS)
    assert_same_run(there, local_run)
    assert str(there.folder) == "s3://runs/whole"
    assert json.loads((there.folder / "result.json").read_text())["steps"] == 11
    hidden = {".owner"}
    local = {str(path.relative_to(local_run.folder)) for path in local_run.folder.rglob("*.*")}
    assert {name.partition("events")[0] for name in names_in(bucket, "runs/whole") - hidden} == {
        name.partition("events")[0] for name in local
    }
    again = kbert.resume("s3://runs/whole")
    assert without_times(again.history.updates) == without_times(there.history.updates)
    with raises(FileExistsError, "s3://runs/whole"):
        kbert.pretrain(place / "shards", config, output="s3://runs/whole", **SETTINGS)


def test_a_run_that_lost_its_machine_goes_on_from_the_bucket(bucket, place, local_run):
    with pytest.raises(RuntimeError, match="crash"):
        kbert.pretrain(
            place / "shards",
            place / "config.json",
            output="s3://runs/lost",
            callbacks=[Crash(9)],
            **SETTINGS,
        )
    states = sorted(name for name in names_in(bucket, "runs/lost") if "checkpoints" in name)
    assert 2 <= len(states) <= 3 and states[-1] == "checkpoints/step-00000008.safetensors"
    # half a state, as no PUT leaves it: the state before it is taken
    whole = bucket.cat(f"runs/lost/{states[-1]}")
    bucket.pipe(f"runs/lost/{states[-1]}", whole[: len(whole) // 2])
    again = kbert.resume("s3://runs/lost", progress=False, peak_flops=1e9)
    assert_same_run(again, local_run)
    assert not [name for name in names_in(bucket, "runs/lost") if "checkpoints" in name]


def test_a_killed_process_leaves_a_run_and_no_copies(bucket, place, local_run, capsys):
    command = [sys.executable, "-m", "kbert", "pretrain", str(place / "shards"), "--steps", "11"]
    command += ["--config", str(place / "config.json"), "-o", "s3://runs/killed"]
    command += ["--seq-len", "17", "--batch-size", "6", "--dev-ratio", "0.2", "--save-every", "2"]
    command += ["--evaluate-every", "4", "--peak-flops", "1e9"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 120
    while "checkpoints/step-00000004.safetensors" not in names_in(bucket, "runs/killed"):
        assert time.monotonic() < end and process.poll() is None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert copies()
    done = run_command(capsys, "pretrain", "--resume", "s3://runs/killed")
    assert done.status == 0 and "s3://runs/killed/model" in done.out
    again = kbert.resume("s3://runs/killed")
    assert_same_run(again, local_run)
    assert str(process.pid) not in " ".join(copies())


def test_another_process_that_resumes_the_run_stops_this_one(bucket, place):
    class Claim(Crash):
        def on_train_batch_end(self, batch, logs=None):
            self.left -= 1
            if not self.left:
                bucket.pipe("runs/two/.owner", b"another process")

    with raises(RuntimeError, "s3://runs/two", "another process"):
        kbert.pretrain(
            place / "shards",
            place / "config.json",
            output="s3://runs/two",
            callbacks=[Claim(5)],
            **SETTINGS,
        )
    last = max(name for name in names_in(bucket, "runs/two") if "checkpoints" in name)
    assert last <= "checkpoints/step-00000006.safetensors"


def test_a_bucket_that_is_gone_stops_the_run_with_the_way_to_resume(bucket, place, monkeypatch):
    import s3fs

    class Cut(Crash):
        def on_train_batch_end(self, batch, logs=None):
            self.left -= 1
            if not self.left:
                monkeypatch.setattr(s3fs.S3FileSystem, "_call_s3", refuse)

    async def refuse(*arguments, **options):
        raise ConnectionError("the network is down")

    with raises(OSError, "s3://runs/cut", "the network is down", "resume"):
        kbert.pretrain(
            place / "shards",
            place / "config.json",
            output="s3://runs/cut",
            callbacks=[Cut(5)],
            **SETTINGS,
        )
    monkeypatch.undo()
    again = kbert.resume("s3://runs/cut", progress=False, peak_flops=1e9)
    assert again.history.updates[-1]["step"] == 11


def test_shards_in_a_bucket_are_those_of_a_folder(bucket, place, tmp_path, monkeypatch):
    text = (place / "corpus.txt").read_text()
    corpus, vocabulary = tmp_path / "corpus.txt", place / "shards" / "vocabulary"
    corpus.write_text("\n".join([text] * 20))
    options = {"shard_tokens": 300, "processes": 1}
    with small_blocks():
        kbert.prepare(corpus, vocabulary, tmp_path / "local", **options)

    from kbert.io.bucket_folder import BucketFolder

    pushes = []
    real = BucketFolder.push

    def push_twice(self):
        pushes.append(len(names_in(bucket, "runs/shards")))
        if len(pushes) == 4:
            raise KeyboardInterrupt
        real(self)

    monkeypatch.setattr(BucketFolder, "push", push_twice)
    with pytest.raises(KeyboardInterrupt), small_blocks():
        kbert.prepare(corpus, vocabulary, "s3://runs/shards", **options)
    assert "index.json" not in names_in(bucket, "runs/shards")
    assert any("tokens-" in name for name in names_in(bucket, "runs/shards"))
    with raises(FileNotFoundError, "s3://runs/shards", "index.json"):
        kbert.open_shards("s3://runs/shards")
    monkeypatch.undo()

    with small_blocks():
        shards = kbert.prepare(corpus, vocabulary, "s3://runs/shards", **options)
    bucket.get("runs/shards/", f"{tmp_path}/there/", recursive=True)
    Path(tmp_path, "there", ".owner").unlink()
    assert content(tmp_path / "there") == content(tmp_path / "local")
    opened = kbert.open_shards("s3://runs/shards")
    assert opened.fingerprint == shards.fingerprint
    config = place / "config.json"
    run = kbert.pretrain("s3://runs/shards", config, output="s3://runs/of", **SETTINGS)
    plain = kbert.pretrain(tmp_path / "local", config, output=tmp_path / "run", **SETTINGS)
    assert_same_run(run, plain)
    resumed = kbert.resume("s3://runs/of")
    assert resumed.bert.config == run.bert.config


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["pretrain", "SHARDS", "--steps", "3", "-o", "s3://nowhere/run"], "s3://nowhere/run"),
        (["pretrain", "--resume", "s3://runs/nothing"], "s3://runs/nothing"),
        (["pretrain", "s3://runs/nothing", "--steps", "3", "-o", "run"], "s3://runs/nothing"),
        (["prepare", "CORPUS", "--vocab", "VOCAB", "-o", "s3://nowhere/s"], "s3://nowhere/s"),
        (["pretrain", "SHARDS", "--steps", "3", "-o", "hdfs://host/run"], "hdfs://host/run"),
        (["vocab", "CORPUS", "--size", "99", "-o", "s3://runs/v"], "s3://runs/v"),
    ],
)
def test_what_cannot_be_is_one_line(bucket, place, tmp_path, monkeypatch, capsys, arguments, named):
    monkeypatch.chdir(tmp_path)
    places = {
        "SHARDS": place / "shards",
        "CORPUS": place / "corpus.txt",
        "VOCAB": place / "shards" / "vocabulary",
    }
    words = [str(places.get(word, word)) for word in arguments]
    done = run_command(capsys, *words)
    assert done.status == 2 and named in done.err.splitlines()[-1]
    assert not list(tmp_path.iterdir())


def test_a_bucket_that_refuses_is_one_line(bucket, place, tmp_path, monkeypatch, capsys):
    """As with other credentials: every request is answered with 403."""
    import s3fs

    def refuse(*arguments, **options):
        raise PermissionError("Forbidden")

    monkeypatch.setattr(s3fs.S3FileSystem, "_find", refuse)
    monkeypatch.setattr(s3fs.S3FileSystem, "find", refuse)
    shards = place / "shards"
    done = run_command(capsys, "pretrain", shards, "--steps", 3, "-o", "s3://runs/refused")
    assert done.status == 2
    line = done.err.splitlines()[-1]
    assert "s3://runs/refused" in line and "Forbidden" in line
    monkeypatch.undo()
    assert not names_in(bucket, "runs/refused")


def test_no_object_is_copied_out_of_the_copy(bucket, tmp_path, monkeypatch):
    """Keys of S3 may have any text; fsspec passes them on as they are."""
    from kbert.io.bucket_folder import BucketFolder

    folder = BucketFolder("s3://runs/names")
    listed = {"runs/names/a.txt": {"size": 1}, "runs/names/../../b.txt": {"size": 1}}
    monkeypatch.setattr(folder.remote.fs, "find", lambda *_, **__: listed)
    assert list(folder.list_files()) == ["a.txt"]
