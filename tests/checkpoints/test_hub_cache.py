"""Models in the caches of Hugging Face and Kaggle, however they came there, without a network."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import huggingface_hub
import pytest
from helpers.command_line import kbert as run
from helpers.errors import logged, raises
from helpers.hub_cache import set_offline
from helpers.hub_models import BERT, MINILM, check_same, failed_line, write_model
from helpers.local_hub import Fault

import kbert
from kbert.hub.fetching import pin
from kbert.hub.hugging_face import find_snapshot

NEEDED = ["config.json", "tokenizer.json", "model.safetensors"]


def cache_of(name: str) -> Path:
    return Path(os.environ["HF_HUB_CACHE"]) / f"models--{name.replace('/', '--')}"


def fill_by_single_files(name):
    for file in NEEDED:
        huggingface_hub.hf_hub_download(name, file)


def fill_without_links(name):
    """As on a disk without symbolic links: the files lie in the snapshot."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("huggingface_hub.file_download.are_symlinks_supported", lambda _=None: False)
        kbert.load(name)
    assert not any(path.is_symlink() for path in cache_of(name).rglob("*"))


FILLED = [
    *[(BERT, kbert.load), (BERT, huggingface_hub.snapshot_download)],
    *[(BERT, fill_by_single_files), (BERT, fill_without_links)],
    *[(MINILM, kbert.load), (MINILM, huggingface_hub.snapshot_download)],
    ("org/encoder", kbert.load),  # that has no modules of sentence-transformers: it is written
]


@pytest.mark.parametrize(("name", "fill"), FILLED)
def test_what_is_cached_opens_no_socket(
    hub, bert_folder, minilm_folder, saved, no_sockets, capsys, name, fill
):
    folders = {BERT: bert_folder, MINILM: minilm_folder, "org/encoder": saved[0] / "encoder"}
    commit = hub.add(name, folders[name])
    fill(name)
    no_sockets()
    short = ["bert-base-uncased"] * (name == BERT)
    for text in (*short, name, f"hf://{name}@main", f"{name}@{commit}"):
        bert = kbert.load(text)
        assert bert.source == f"hf://{name}@{commit}"
    check_same(bert, folders[name])
    assert run(capsys, "inspect", name).status == 0


def test_what_was_cached_under_a_name_without_owner_is_found(hub, bert_folder, no_sockets):
    """As transformers caches what it is given as bert-base-uncased."""
    commit = hub.add(BERT, bert_folder)
    hub.moved["bert-base-uncased"] = BERT
    fill_by_single_files("bert-base-uncased")
    assert cache_of("bert-base-uncased").is_dir() and not cache_of(BERT).exists()
    no_sockets()
    for name in ("bert-base-uncased", BERT):
        assert kbert.load(name).source == f"hf://{BERT}@{commit}"


def test_a_cache_that_cannot_be_written_opens_if_it_is_whole(
    hub, bert_folder, nobody, capsys, monkeypatch
):
    hub.add(BERT, bert_folder)
    hub.add("org/part", bert_folder)
    kbert.load(BERT)
    huggingface_hub.hf_hub_download("org/part", "config.json")
    cache = Path(os.environ["HF_HUB_CACHE"])
    folders = [path for path in (cache, *cache.rglob("*")) if path.is_dir()]
    for folder in folders:
        folder.chmod(0o555)
    nobody()
    try:
        bert = kbert.load(BERT)
        assert run(capsys, "download", BERT).status == 0
        with raises(PermissionError, "org/part"):
            kbert.load("org/part")
        assert "org/part" in failed_line(capsys, "inspect", "org/part")
    finally:
        if os.getuid() == 0:
            os.seteuid(0)
        for folder in folders:
            folder.chmod(0o755)
    check_same(bert, bert_folder)


@pytest.mark.parametrize("missing", [*NEEDED, "modules.json", "1_Pooling/config.json"])
def test_what_a_cache_lacks_is_downloaded(hub, minilm_folder, missing):
    """Whichever file is missing alone; no other is fetched again."""
    hub.add(MINILM, minilm_folder)
    # vocab.txt alone is a tokenizer
    lacking = [missing, "vocab.txt"] if missing == "tokenizer.json" else [missing]
    other_weights = ["*.bin", "*.h5", "*.onnx", "*.ot"]
    huggingface_hub.snapshot_download(MINILM, ignore_patterns=lacking + other_weights)
    before = hub.sent()
    check_same(kbert.load(MINILM), minilm_folder)
    new = {name for name, sent in hub.sent().items() if sent != before.get(name)}
    assert new == set(lacking)


def test_a_cache_with_a_configuration_alone_is_not_a_model(
    hub, bert_folder, monkeypatch, capsys, no_sockets
):
    hub.add(BERT, bert_folder)
    huggingface_hub.hf_hub_download(BERT, "config.json")
    assert "incomplete" in run(capsys, "cache").out
    set_offline(monkeypatch)
    no_sockets()
    with raises(ConnectionError, BERT, "HF_HUB_OFFLINE"):
        kbert.load(BERT)
    assert "HF_HUB_OFFLINE" in failed_line(capsys, "inspect", BERT)


def test_offline_an_encoder_opens_as_far_as_it_is_cached(
    hub, minilm_folder, monkeypatch, no_sockets
):
    """Whether there are modules is not known: transformers fetches none."""
    hub.add(MINILM, minilm_folder)
    fill_by_single_files(MINILM)
    set_offline(monkeypatch)
    no_sockets()
    with logged(MINILM, "HF_HUB_OFFLINE"):
        check_same(kbert.load(MINILM), minilm_folder, sentence=False)


@pytest.mark.full
@pytest.mark.parametrize("content", ["/etc", "../../..", ".", ""])
def test_a_branch_of_a_cache_leads_nowhere_else(hub, bert_folder, content):
    hub.add(BERT, bert_folder)
    kbert.download(BERT)
    (cache_of(BERT) / "refs" / "main").write_text(content)
    assert find_snapshot(cache_of(BERT), "main") is None


def test_a_branch_may_end_with_a_line_break(hub, bert_folder):
    """As one that a person or a script wrote does."""
    commit = hub.add(BERT, bert_folder)
    kbert.download(BERT)
    (cache_of(BERT) / "refs" / "main").write_text(f"{commit}\n")
    assert find_snapshot(cache_of(BERT), "main").name == commit


def test_a_part_of_a_model_is_told_from_another_version(hub, bert_folder, no_sockets, monkeypatch):
    hub.add(BERT, bert_folder)
    kbert.download(BERT)
    (snapshot,) = (cache_of(BERT) / "snapshots").iterdir()
    (snapshot / "config.json").unlink()
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    no_sockets()
    with raises(OSError, BERT, "in part"):
        kbert.inspect(BERT)
    with raises(OSError, BERT, snapshot.name[:8], "v1"):
        kbert.inspect(f"{BERT}@v1")


def test_a_run_from_a_copied_cache_keeps_the_path(hub, bert_folder, tmp_path):
    """The address would lead to the cache of the machine, which may not have the model."""
    commit = hub.add(BERT, bert_folder)
    kbert.download(BERT)
    copy = tmp_path / "copy" / cache_of(BERT).name
    shutil.copytree(cache_of(BERT), copy, symlinks=True)
    assert pin(copy) == str(copy / "snapshots" / commit)
    assert pin(cache_of(BERT)) == pin(BERT) == f"hf://{BERT}@{commit}"
    assert kbert.load(copy).source == f"hf://{BERT}@{commit}"


@pytest.mark.full
@pytest.mark.parametrize("below", ["", "snapshots", "snapshots/{commit}"])
def test_folders_of_a_cache_open_by_path(hub, bert_folder, tmp_path, no_sockets, below):
    commit = hub.add(BERT, bert_folder)
    kbert.load(BERT)
    no_sockets()
    bert = kbert.load(cache_of(BERT) / below.format(commit=commit))
    assert bert.source == f"hf://{BERT}@{commit}"
    check_same(bert, bert_folder)


@pytest.mark.full
def test_of_several_snapshots_the_branch_chooses(hub, bert_folder, minilm_folder, capsys):
    old, new = hub.add(BERT, minilm_folder, ref="v1"), hub.add(BERT, bert_folder)
    kbert.load(f"{BERT}@v1")
    only = kbert.load(cache_of(BERT))
    assert only.source == f"hf://{BERT}@{old}"  # it is the only one
    kbert.load(BERT)
    assert kbert.load(cache_of(BERT)).source == f"hf://{BERT}@{new}"
    (cache_of(BERT) / "refs" / "main").unlink()
    line = failed_line(capsys, "inspect", cache_of(BERT))
    assert str(cache_of(BERT)) in line and old in line and new in line


@pytest.mark.parametrize("mark", ["none", "version", "files"])
def test_presets_of_keras_hub_open_from_kaggles_cache(hub, no_sockets, monkeypatch, mark):
    """With kagglehub's mark of a whole version, with its marks of files, and without marks."""
    places = Path(os.environ["KAGGLEHUB_CACHE"]) / "models/keras/bert/keras/bert_base_en"
    write_model(places / "2", form="keras_hub")
    shutil.copytree(places / "2", places / "10")
    if mark == "version":
        (places / "2.complete").touch()
        (places / "10.complete").touch()
    elif mark == "files":
        for file in (places / "10").rglob("*"):
            name = file.relative_to(places).as_posix()
            (places / ".complete" / name).parent.mkdir(parents=True, exist_ok=True)
            (places / ".complete" / f"{name}.complete").touch()
    no_sockets()
    found = kbert.load("kaggle://keras/bert/keras/bert_base_en")
    assert found.source == "kaggle://keras/bert/keras/bert_base_en/10"  # the newest, as a number
    check_same(found, places / "2")
    monkeypatch.setitem(sys.modules, "kagglehub", None)
    if mark == "files":  # none of version 2 is marked
        with pytest.raises(ImportError):
            kbert.load("kaggle://keras/bert/keras/bert_base_en/2")
    else:
        assert kbert.load("kaggle://keras/bert/keras/bert_base_en/2").source.endswith("en/2")


def test_a_preset_that_is_not_cached_needs_kagglehub(hub, no_sockets, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "kagglehub", None)
    no_sockets()
    with raises(ImportError, "kagglehub"):
        kbert.load("bert_base_en")
    assert "kagglehub" in failed_line(capsys, "inspect", "bert_base_en")


@pytest.mark.full
def test_two_processes_download_at_once(hub, bert_folder):
    """The first has half of the weights when the second begins."""
    hub.add(BERT, bert_folder)
    hub.faults[f"/{NEEDED[-1]}"] = Fault(pause=0.5)
    code = f"import kbert; print(kbert.download({BERT!r}))"
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen([sys.executable, "-c", code], **options) for _ in range(2)]
    done = [process.communicate(timeout=60) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], done
    assert set(done) == {(f"{kbert.download(BERT)}\n", "")}
    check_same(kbert.load(BERT), bert_folder)
    assert not [path for path in cache_of(BERT).rglob("*") if "incomplete" in path.name]


@pytest.mark.full
def test_cache_lists_models_with_their_sizes(hub, bert_folder, minilm_folder, capsys):
    commit = hub.add(BERT, bert_folder)
    hub.add(MINILM, minilm_folder)
    kbert.load(BERT)
    kbert.load(MINILM)
    places = Path(os.environ["KAGGLEHUB_CACHE"]) / "models/keras/bert/keras/bert_base_en/3"
    write_model(places, form="keras_hub")
    listed = json.loads(run(capsys, "cache", "--format", "json").out)
    assert [one["name"] for one in listed] == [
        BERT,
        "kaggle://keras/bert/keras/bert_base_en",
        MINILM,
    ]
    sizes = [path.stat().st_size for path in cache_of(BERT).rglob("*") if path.is_symlink()]
    assert listed[0]["bytes"] == sum(sizes) and listed[0]["revision"] == commit
    assert [one["is_whole"] for one in listed] == [True] * 3
    lines = run(capsys, "cache").out.splitlines()
    assert lines[1].split()[2:] == [commit[:8], "main", "bert", BERT]
    assert lines[4].endswith("in all")
