"""A run pins the commit of what it started from, and says it in settings, report and card."""

import dataclasses
import getpass
import json
import shutil
import socket

import numpy as np
import pytest
from helpers.errors import raises
from helpers.labelled_texts import QUIET, SETTINGS, tune, write_source
from huggingface_hub import ModelCard

import kbert
from kbert.hub import fetching
from kbert.tasks.finetuning.run_request import request_finetuning
from kbert.tasks.finetuning.settings import FinetuningSettings
from kbert.tasks.finetuning.task import task_of
from kbert.training.run_plan import Device, RunPlan

LORA = {"lora_rank": 3, "lora_targets": "query,value"}


@pytest.fixture(scope="module")
def folder(small, tmp_path_factory):
    """Data, and two checkpoints of other weights."""
    folder = write_source(tmp_path_factory.mktemp("pinned"), small, train=26, dev=13)
    kbert.save(scaled(kbert.load(folder / "source")), folder / "newer")
    return folder


@pytest.fixture(scope="module")
def plain(folder):
    """A run that started from a folder."""
    return tune(folder, folder / "plain", epochs=1)


def scaled(bert):
    for weight in bert.model.weights:
        weight.assign(weight.numpy() * 1.5)
    return bert


def planned(folder, source, **options) -> RunPlan:
    """A run as it is before it trains."""
    sources = {"source": source, "train": folder / "train.tsv", "dev": None}
    sources["teacher"] = options.pop("teacher", None)
    settings = FinetuningSettings.from_options(SETTINGS | {"epochs": 2} | options)
    request = request_finetuning(task_of("classify"), settings, sources)
    return request.plan(request, request.read(request), Device(compiled=False))


def begun(run, to):
    """A copy of a run's folder as it was before its first state."""
    results = ("checkpoints", "model", "model.keras", "result.json", "adapter", "metrics.jsonl")
    return shutil.copytree(run, to, ignore=lambda _, names: [n for n in names if n in results])


def weights(bert) -> dict:
    return {weight.path: weight.numpy() for weight in bert.model.weights}


def places(run) -> dict:
    return json.loads((run / "settings.json").read_text())["places"]


def test_run_of_a_name_pins_its_commit_and_resumes_from_it(hub, folder, tmp_path):
    commit = hub.add("org/base", folder / "source")
    address = f"hf://org/base@{commit}"
    whole = tune(folder, tmp_path / "run", "org/base", epochs=1)
    assert places(tmp_path / "run")["source"] == address
    page = (tmp_path / "run/report.html").read_text()
    assert f"<dt>Started from</dt><dd>org/base, commit {commit}</dd>" in page
    card = ModelCard.load(tmp_path / "run/model/README.md")
    assert card.data.base_model == "org/base" and f"commit `{commit}`" in card.text
    hub.add("org/base", folder / "newer")
    shutil.rmtree(tmp_path / "hf")  # the cache
    again = kbert.resume(begun(tmp_path / "run", tmp_path / "again"), **QUIET)
    revisions = [r.path for r in hub.requests if "/revision/" in r.path]
    assert f"/revision/{commit}" in revisions[-1]
    for name, array in weights(again.bert).items():
        np.testing.assert_array_equal(array, weights(whole.bert)[name])
    files = [tmp_path / name / "result.json" for name in ("run", "again")]
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.full
def test_run_of_a_loaded_model_resumes_from_its_name(hub, folder, tmp_path):
    address = f"hf://org/base@{hub.add('org/base', folder / 'source')}"
    bert = kbert.load("org/base")
    whole = tune(folder, tmp_path / "run", bert, epochs=1)
    assert places(tmp_path / "run")["source"] == address
    again = kbert.resume(begun(tmp_path / "run", tmp_path / "again"), **QUIET)
    for name, array in weights(again.bert).items():
        np.testing.assert_array_equal(array, weights(whole.bert)[name])
    tune(folder, tmp_path / "other", scaled(bert), epochs=1)
    copy = begun(tmp_path / "other", tmp_path / "changed")
    with raises(ValueError, "source"):
        kbert.resume(copy, **QUIET)  # the name has other weights
    again = kbert.resume(copy, source=bert, **QUIET)
    assert again.metrics == kbert.resume(tmp_path / "other", **QUIET).metrics


def test_folder_in_a_cache_is_pinned_and_other_folders_stay_paths(hub, folder, plain, tmp_path):
    commit = hub.add("org/base", folder / "source")
    cached = kbert.download("org/base")
    for path in (cached, cached.parent, cached.parent.parent, "org/base", "hf://org/base"):
        assert fetching.pin(path) == f"hf://org/base@{commit}"
    for path in (folder / "source", cached / "model.safetensors"):
        assert fetching.pin(path) == str(path)
    with raises(FileNotFoundError, "not there"):
        fetching.pin(tmp_path / "not there")
    assert places(plain.folder)["source"] == str(folder / "source")
    card = ModelCard.load(plain.folder / "model/README.md")
    assert card.data.base_model is None and "| Started from | source |" in card.text


def test_card_of_a_run_has_no_names_of_this_machine(folder, plain):
    card = (plain.folder / "model/README.md").read_text(encoding="utf-8")
    assert plain.bert.card == card
    for name in (str(folder), folder.name, socket.gethostname(), getpass.getuser()):
        assert f"/{name}" not in card and f"{name}/" not in card and f" {name} " not in card
    assert "| Data | train.tsv, 26 examples, 2 labels: bad (13), good (13) |" in card
    assert "| Dev data | dev.tsv, 13 examples |" in card
    assert "| `epochs` | 1 |" in card and "`lengths`" not in card
    results = ModelCard(card).data.eval_results
    found = {one.metric_name: (one.metric_value, one.dataset_name) for one in results}
    metrics = {name: (value, "dev.tsv") for name, value in plain.metrics.items()}
    assert metrics.pop("loss") and found == metrics  # a loss is no metric of the hub


def test_finished_run_opens_with_its_card_and_intervals(folder, plain, tmp_path):
    first, _ = plain, shutil.copytree(plain.folder, tmp_path / "run")
    again = kbert.resume(tmp_path / "run", **QUIET)
    assert again.bert.card == first.bert.card
    assert again.intervals == first.intervals and set(again.intervals) < set(again.metrics)
    low, high = again.intervals["accuracy"]
    said = f"dev accuracy</span><span>95 % interval {low:.1%} to {high:.1%}</span>"
    assert said in (tmp_path / "run/report.html").read_text()
    kbert.save(again.bert, tmp_path / "saved")
    assert (tmp_path / "saved/README.md").read_text(encoding="utf-8") == first.bert.card
    file = tmp_path / "run/result.json"  # of a kbert without intervals and cards
    result = json.loads(file.read_text())
    del result["intervals"]
    file.write_text(json.dumps(result))
    (tmp_path / "run/model/README.md").unlink()
    older = kbert.resume(tmp_path / "run", **QUIET)
    assert (older.intervals, older.bert.card, older.metrics) == ({}, None, first.metrics)


def test_loaded_run_has_its_card_and_another_model_has_none(plain, tmp_path):
    for path in (plain.folder, plain.folder / "model", plain.folder / "model.keras"):
        assert kbert.load(path).card == plain.bert.card is not None
    assert kbert.load(plain.folder, head="encoder").card is None
    assert kbert.resize_positions(plain.bert, 11).card is None
    copy = shutil.copytree(plain.folder / "model", tmp_path / "model")
    assert kbert.load(copy).card is None


def test_teacher_of_a_name_is_pinned_too(hub, folder, plain):
    address = f"hf://org/teacher@{hub.add('org/teacher', plain.folder / 'model')}"
    plan = planned(folder, folder / "source", teacher="org/teacher")
    assert plan.data_paths["teacher"] == plan.describe_training(1)["Teacher"] == address


def test_pretraining_pins_what_it_begins_with_and_its_teacher(hub, folder, tmp_path, monkeypatch):
    commits = {name: hub.add(f"org/{name}", folder / "source") for name in ("init", "teacher")}
    requests = []

    def stop(request, *_):
        requests.append(request)
        raise InterruptedError

    monkeypatch.setattr("kbert.training.runner.start", stop)
    models = {name: f"org/{name}" for name in commits}
    with pytest.raises(InterruptedError):
        kbert.pretrain("shards", output=tmp_path / "run", steps=5, **models)
    found = {name: requests[0].sources[name] for name in commits}
    assert found == {name: f"hf://org/{name}@{commit}" for name, commit in commits.items()}


@pytest.mark.full
def test_adapter_names_its_base_as_peft_does_and_is_trained_further(hub, folder, tmp_path):
    commit = hub.add("org/base", folder / "source")
    tune(folder, tmp_path / "run", "org/base", epochs=1, **LORA)
    adapter = tmp_path / "run/adapter"
    config = json.loads((adapter / "adapter_config.json").read_text())
    assert (config["base_model_name_or_path"], config["revision"]) == ("org/base", commit)
    hub.add("org/base", folder / "newer")
    address = f"hf://org/adapter@{hub.add('org/adapter', adapter)}"
    shutil.rmtree(tmp_path / "hf")  # the cache
    for source, place in (("org/adapter", address), (adapter, str(adapter))):
        plan = planned(folder, source, **LORA)
        assert plan.data_paths["source"] == place
        assert plan.model.source.source == f"hf://org/base@{commit}"
        bert = dataclasses.replace(plan.model.source, adapter=plan.model.adapter)
        kbert.save(bert, tmp_path / "again", format="peft", overwrite=True)
        saved = json.loads((tmp_path / "again/adapter_config.json").read_text())
        assert saved["revision"] == commit
