"""kbert.push, kbert push and kbert.save("hf://…") against a local hub."""

import contextlib
import dataclasses
import json
import shutil
from pathlib import Path

import pytest
from helpers.command_line import kbert as kbert_command
from helpers.errors import logged, raises
from helpers.hub_cache import set_offline, use_hub, wait_no_longer
from helpers.local_hub import Fault
from huggingface_hub import ModelCard, snapshot_download

import kbert
from kbert.hub import pushing
from kbert.hub.model_card import make_card

TEXTS = ["a cat", "the red moon"]


@pytest.fixture(scope="module")
def bert(saved):
    return saved[1]["classifier"]


@pytest.fixture(scope="module")
def folder(saved):
    return saved[0] / "classifier"


@pytest.fixture(scope="module")
def run(bert, tmp_path_factory):
    """The folder of a finished run, as `kbert.finetune` leaves it."""
    run = tmp_path_factory.mktemp("pushed-run") / "run"
    kbert.save(dataclasses.replace(bert, card=make_card(bert, base="hf://org/base")), run / "model")
    kbert.save(bert, run / "model.keras")
    settings = {"task": "finetune", "run": "1", "settings": {}, "fingerprint": {}}
    (run / "settings.json").write_text(json.dumps(settings))
    (run / "result.json").write_text('{"steps": 3}')
    return run


@pytest.fixture
def owner(hub, monkeypatch):
    """The hub, for a user who is logged in."""
    monkeypatch.setenv("HF_TOKEN", "hf_owner")
    return hub


def pushed(hub, name: str) -> dict:
    """The files of a repository's newest commit, by name."""
    repository = hub.repositories[name]
    return repository.commits[repository.refs["main"]]


def same_numbers(one, other) -> bool:
    a, b = (kbert.classify(bert, TEXTS) for bert in (one, other))
    return all(
        {x.label: x.probability for x in left} == {x.label: x.probability for x in right}
        for left, right in zip(a, b, strict=True)
    )


@pytest.mark.full
def test_pushed_folder_gives_the_same_numbers_once_downloaded(owner, bert, folder):
    address = kbert.push(folder, "owner/small")
    repository = owner.repositories["owner/small"]
    assert address == f"hf://owner/small@{repository.refs['main']}"
    assert not repository.private and len(repository.commits) == 2  # an empty one, and this
    found = kbert.load(address)
    assert found.source == address and same_numbers(found, bert)


def test_folder_without_card_gets_one_and_its_own_card_stays(owner, folder, tmp_path):
    kbert.push(folder, "owner/small")
    card = pushed(owner, "owner/small")["README.md"]
    assert 'kbert.load("owner/small")' in card.content.decode()
    assert not (folder / "README.md").exists()
    data = ModelCard.load("owner/small").data
    assert (data.pipeline_tag, data.library_name) == ("text-classification", "transformers")
    own = shutil.copytree(folder, tmp_path / "own")
    words = 'my own words, "ORG/NAME" and ORG/NAME'
    (own / "README.md").write_text(words, encoding="utf-8")
    kbert.push(own, "owner/other")
    assert ModelCard.load("owner/other").text == words


@pytest.mark.full
def test_repository_keeps_its_card_unless_the_folder_has_one(owner, bert, folder, tmp_path):
    own = shutil.copytree(folder, tmp_path / "own")
    (own / "README.md").write_text("my own words", encoding="utf-8")
    kbert.push(own, "owner/small")
    with logged("hf://owner/small", "README.md", folder):
        kbert.push(folder, "owner/small")
    kbert.save(bert, "hf://owner/small")
    assert ModelCard.load("owner/small").text == "my own words"
    (own / "README.md").write_text("other words", encoding="utf-8")
    kbert.push(own, "owner/small")
    assert ModelCard.load("owner/small").text == "other words"


def test_files_of_an_earlier_model_are_deleted_in_the_same_commit(owner, folder, tmp_path):
    earlier = tmp_path / "earlier"
    stale = ["modules.json", "1_Pooling/config.json", "2_Dense/model.safetensors"]
    stale += ["sentence_bert_config.json", "pytorch_model.bin", "tf_model.h5", "onnx/model.onnx"]
    stale += ["pytorch_model-00001-of-00002.bin", "bert_model.ckpt.index", "generation_config.json"]
    stale += ["vocab.json", "adapter_model.safetensors", "onnx/model_int8.onnx"]
    kept = ["README.md", "LICENSE", "train.py", "flax_model.msgpack", "onnx/notes.txt"]
    kept += ["old/config.json", "old/pytorch_model.bin"]
    for name in [*stale, *kept, "config.json", "model.safetensors"]:
        (earlier / name).parent.mkdir(parents=True, exist_ok=True)
        (earlier / name).write_bytes(b"earlier")
    owner.add("owner/small", earlier)
    kbert.push(folder, "owner/small")
    names = {path.name for path in folder.iterdir()}
    found = pushed(owner, "owner/small")
    assert set(found) == names | set(kept) and len(owner.repositories["owner/small"].commits) == 2
    assert {name for name in found if found[name].content == b"earlier"} == {*kept}


def test_what_is_no_part_of_the_model_stays(owner, folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "model")
    whole = {path.name for path in copy.iterdir()} | {"README.md", "LICENSE"}
    for name in ("optimizer.pt", "train.tsv", "trainer_state.json", ".env", "LICENSE", "x.part"):
        (copy / name).write_text("{}")
    (copy / "checkpoint-5").mkdir()
    shutil.copy(copy / "model.safetensors", copy / "checkpoint-5")
    (copy / ".git").mkdir()
    (copy / ".git/config.json").write_text("{}")
    with logged("checkpoint-5/model.safetensors, optimizer.pt, train.tsv, trainer_state.json, x"):
        kbert.push(copy, "owner/small")
    assert set(pushed(owner, "owner/small")) == whole


def test_folders_named_like_a_licence_and_links_out_stay(owner, folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "model")
    for name in ("LICENSE_KEYS/private.pem", "NOTICES/db.sqlite", "onnx/deep/model.onnx", "secret"):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_text("secret")
    (tmp_path / "secret").write_text("secret")
    (copy / "README.md").symlink_to(tmp_path / "secret")
    (copy / "LICENSE.txt").symlink_to("../secret")
    (copy / "NOTICE").symlink_to("config.json")
    with logged("LICENSE.txt, README.md"):
        kbert.push(copy, "owner/small")
    found = pushed(owner, "owner/small")
    assert set(found) == {path.name for path in folder.iterdir()} | {"README.md", "NOTICE"}
    assert b"secret" not in [file.content for file in found.values()]


def test_links_of_a_cache_are_followed(owner, folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "model")
    (copy / "README.md").write_text("words")
    (copy / "LICENSE").write_text("terms")
    owner.add("org/base", copy)
    cached = snapshot_download("org/base")
    assert Path(cached, "LICENSE").is_symlink()
    kbert.push(cached, "owner/small")
    assert set(pushed(owner, "owner/small")) == {path.name for path in copy.iterdir()}
    assert pushed(owner, "owner/small")["README.md"].content == b"words"


def test_run_is_pushed_as_its_model_with_its_card(owner, run, capsys):
    done = kbert_command(capsys, "push", run, "owner/tuned", "--private")
    repository = owner.repositories["owner/tuned"]
    assert (done.status, done.out) == (0, f"hf://owner/tuned@{repository.refs['main']}\n")
    assert repository.private
    assert set(pushed(owner, "owner/tuned")) == {path.name for path in (run / "model").iterdir()}
    card = ModelCard.load("owner/tuned")
    assert 'kbert.load("owner/tuned")' in card.text and card.data.base_model == "org/base"


def test_save_to_an_address_pushes_with_a_card(owner, bert):
    kbert.save(bert, "hf://owner/saved")
    assert same_numbers(kbert.load("owner/saved"), bert)
    assert ModelCard.load("owner/saved").data.tags == ["kbert", "bert"]
    based = dataclasses.replace(bert, source=f"hf://org/base@{'3d' * 20}")
    kbert.save(based, "hf://owner/based")
    assert ModelCard.load("owner/based").data.base_model == "org/base"
    own = dataclasses.replace(bert, card=make_card(bert, base="hf://org/first"))
    kbert.save(own, "hf://owner/own")
    assert ModelCard.load("owner/own").data.base_model == "org/first"
    kbert.save(own, "hf://owner/google", format="google")
    assert "bert_config.json" in pushed(owner, "owner/google")
    assert ModelCard.load("owner/google").data.library_name == "kbert"


@contextlib.contextmanager
def refused(kind, *things):
    """Expect an error of one line that names each of the things."""
    with raises(kind, *things) as caught:
        yield caught
    assert "\n" not in str(caught.value)


BAD_NAMES = ["small", "owner/small@main", "https://huggingface.co/owner/small", "s3://owner/small"]
BAD_NAMES += ["owner/a--b", "owner/..", "kaggle://keras/bert/keras/mine"]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_bad_names_are_refused_before_any_request(owner, folder, name):
    with refused(ValueError, name):
        kbert.push(folder, name)
    assert owner.requests == []


def test_folders_without_a_whole_model_are_refused_before_any_request(owner, run, folder, tmp_path):
    copy = shutil.copytree(run, tmp_path / "run")
    shutil.rmtree(copy / "model")
    unfinished = shutil.copytree(copy, tmp_path / "unfinished")
    (unfinished / "result.json").unlink()
    part = shutil.copytree(folder, tmp_path / "part")
    (part / "model.safetensors").unlink()
    cases = {
        tmp_path / "none": FileNotFoundError,
        tmp_path: FileNotFoundError,
        run / "model.keras": NotADirectoryError,
        copy: FileNotFoundError,
        unfinished: FileNotFoundError,
        part: (ValueError, OSError),
    }
    for path, kind in cases.items():
        with refused(kind, path):
            kbert.push(path, "owner/small")
    assert owner.requests == []


def test_formats_that_kbert_does_not_open_are_refused_before_they_are_written(owner, bert):
    for form in ("saved_model", "onnx", "keras", "peft", "nonsense"):
        with refused(ValueError, "format", "transformers, transformers_onnx, google, keras_hub"):
            kbert.save(bert, "hf://owner/small", format=form)
    with refused(ValueError, "kaggle://a/b/keras/c"):
        kbert.save(bert, "kaggle://a/b/keras/c")
    assert owner.requests == []


def test_without_a_login_one_line_says_how(hub, folder, bert, capsys):
    with refused(PermissionError, "HF_TOKEN"):
        kbert.push(folder, "owner/small")
    with refused(PermissionError, "HF_TOKEN"):
        kbert.save(bert, "hf://owner/small")
    done = kbert_command(capsys, "push", folder, "owner/small")
    assert (done.status, done.err.count("\n"), hub.requests) == (2, 1, [])


@pytest.mark.parametrize("token", ["hf_stranger", "hf_unknown"])
def test_refused_token_is_one_line(hub, folder, monkeypatch, token):
    monkeypatch.setenv("HF_TOKEN", token)
    with refused(PermissionError, "127.0.0.1:", "owner/small"):
        kbert.push(folder, "owner/small")


def test_no_network_is_one_line(owner, folder, monkeypatch, tmp_path):
    """The hub answers with an error, never, or does not exist; the network is forbidden."""
    owner.faults["/api/repos/create"] = Fault(status=500)
    with refused(ConnectionError, "owner/small", "127.0.0.1:", 500):
        kbert.push(folder, "owner/small")
    with monkeypatch.context() as patch:
        owner.faults["/api/models/owner/small"] = Fault(silent=True)
        patch.setattr(pushing, "TIMEOUT_S", 0.2)
        with refused(ConnectionError, "owner/small", "Timeout"):
            kbert.push(folder, "owner/small")
    with monkeypatch.context() as patch:
        use_hub(patch, "http://127.0.0.1:1", tmp_path / "home")
        patch.setenv("HF_TOKEN", "hf_owner")
        with refused(ConnectionError, "owner/small", "127.0.0.1:1"):
            kbert.push(folder, "owner/small")
    set_offline(monkeypatch)
    with refused(ConnectionError, "owner/small", "HF_HUB_OFFLINE"):
        kbert.push(folder, "owner/small")


@pytest.mark.full
def test_upload_that_breaks_off_leaves_no_commit_and_is_pushed_again(owner, folder, monkeypatch):
    wait_no_longer(monkeypatch)
    owner.faults["/cdn/"] = Fault(status=500)
    with refused(ConnectionError, "owner/small", "repository"):
        kbert.push(folder, "owner/small")
    with refused(ConnectionError, "owner/small") as again:
        kbert.push(folder, "owner/small")
    assert "repository" not in str(again.value)  # it is not new
    assert pushed(owner, "owner/small") == {}
    owner.faults.clear()
    kbert.push(folder, "owner/small")
    assert "model.safetensors" in pushed(owner, "owner/small")


def test_cards_that_cannot_be_pushed_are_one_line(owner, folder, tmp_path, monkeypatch):
    copy = shutil.copytree(folder, tmp_path / "model")
    (copy / "README.md").write_bytes("größer".encode("latin-1"))
    with refused(ValueError, copy / "README.md", "UTF-8"):
        kbert.push(copy, "owner/small")
    assert owner.requests == []
    (copy / "README.md").write_text("---\nlicense: 3\n---\n")
    owner.faults["/api/validate-yaml"] = Fault(status=400)
    with refused(ValueError, "owner/small", "README.md", "repository"):
        kbert.push(copy, "owner/small")


def test_push_shows_no_bars_where_stderr_is_no_terminal(owner, folder, capfd, monkeypatch):
    kbert.push(folder, "owner/small")
    assert capfd.readouterr().err == ""
