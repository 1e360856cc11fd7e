"""Answers of a hub with mutations lead to the same model, or to one line."""

import json
import shutil
from pathlib import Path

import pytest
from helpers.errors import raises
from helpers.hub_cache import wait_no_longer
from helpers.hub_models import BERT, check_same, failed_line, write_model
from helpers.json_mutations import Document, mutations, try_mutations
from helpers.local_hub import Fault
from helpers.marks import full, nightly

import kbert

SHA = '"sha": "' + "a" * 40 + '"'
SHAPES = [
    "{}",
    "[]",
    "null",
    '{"error": "busy"}',
    '{"id": "o/n", "sha": 7, "siblings": [{"rfilename": "config.json"}]}',
    '{"id": "o/n", "sha": "../../up", "siblings": [{"rfilename": "config.json"}]}',
    f'{{"id": "o/n", {SHA}, "siblings": 3}}',
    f'{{"id": "o/n", {SHA}, "siblings": [{{}}]}}',
    f'{{"id": "o/n", {SHA}, "siblings": [{{"rfilename": 7}}]}}',
    f'{{"id": "o/n", {SHA}, "siblings": [{{"rfilename": "config.json", "lfs": 7}}]}}',
]
LARGE = '{"rfilename": "model.safetensors", "lfs": {"sha256": 7, "size": 1, "pointerSize": 1}}'
SHAPES.append(f'{{"id": "o/n", {SHA}, "siblings": [{LARGE}]}}')
ERRORS = (ValueError, FileNotFoundError, ConnectionError, PermissionError, OSError)
# Parts of the addresses that are asked: those of a download, and those of a push.
DOWNLOAD = ("/api/models/",)
PUSH = ("/api/models/", "/preupload/", "/commit/", "/objects/batch", "/create", "/validate-yaml")


@pytest.fixture
def folder(tmp_path):
    write_model(tmp_path / "bert")
    return tmp_path / "bert"


@pytest.mark.full
@pytest.mark.parametrize("shape", SHAPES)
def test_another_shape_is_one_line(hub, capsys, shape):
    hub.rewrite = lambda path, text: shape
    hub.add("o/n", Path(__file__).parent)
    with raises(ConnectionError, "Hugging Face"):
        kbert.download("o/n")
    assert "login page" in failed_line(capsys, "download", "o/n")
    assert not (Path(hub_home()) / "hub").exists()


@pytest.mark.full
@pytest.mark.parametrize("status", [None, 404])
@pytest.mark.parametrize("header", ["ETag", "X-Linked-ETag", "X-Repo-Commit"])
def test_a_header_writes_nothing_outside_of_the_cache(hub, folder, tmp_path, header, status):
    hub.add(BERT, folder)
    value = "../" * 12 + str(tmp_path / "evil")[1:]

    def rewrite(path: str, text: str) -> str:
        if not path.startswith("headers of"):
            return text
        return json.dumps(json.loads(text) | {header: value, "X-Error-Code": "EntryNotFound"})

    hub.rewrite = rewrite
    before = {*tmp_path.rglob("*")}
    if status:
        hub.faults["/resolve/"] = Fault(status=status)
    with pytest.raises((ConnectionError, FileNotFoundError)):
        kbert.download(BERT)
    new = {*tmp_path.rglob("*")} - before - {tmp_path / "hf"}
    assert all(tmp_path / "hf" in path.parents for path in new)


def test_headers_of_no_hub_are_told_apart_from_no_network(hub, folder):
    hub.add(BERT, folder)
    hub.rewrite = lambda path, text: '{"Content-Length": 0}' if path[0] == "h" else text
    with raises(ConnectionError, "Hugging Face"):
        kbert.download(BERT)


def test_a_card_of_another_shape_is_not_remarked_on(hub, folder, capsys):
    hub.add(BERT, folder)
    card = {"cardData": {"model-index": 3}, "gated": [1], "tags": 3}

    def rewrite(path: str, text: str) -> str:
        return text if path.startswith("headers of") else json.dumps(json.loads(text) | card)

    hub.rewrite = rewrite
    kbert.download(BERT)
    assert "model-index" not in capsys.readouterr().err


def hub_home() -> str:
    from huggingface_hub import constants

    return constants.HF_HOME


@pytest.mark.parametrize("part", PUSH)
@pytest.mark.full
def test_another_shape_of_a_pushs_answer_is_one_line(hub, folder, monkeypatch, part):
    """The answer to a card's metadata alone may have any shape: its status says all."""
    monkeypatch.setenv("HF_TOKEN", "hf_owner")
    for shape in ("[]", "null", "7", '{"files": [{}]}', "<html>"):
        hub.rewrite = lambda path, text, shape=shape: shape if part in path else text
        if part == "/api/models/":  # of the first question alone
            hub.rewrite = lambda path, text, shape=shape: shape if path.endswith("/n") else text
            hub.add("owner/n", folder)
        try:
            kbert.push(folder, "owner/n")
        except ConnectionError as error:
            assert "owner/n" in str(error) and "\n" not in str(error)
        else:
            assert part in ("/validate-yaml", "/create")
        hub.repositories.clear()


def documents(hub, act, parts) -> list[Document]:
    """What the hub answers to a download or a push: JSON, and headers of files."""
    answers: dict[str, str] = {}
    hub.rewrite = lambda path, text: answers.setdefault(path, text)
    act()

    def write_answer(path: str):
        def write(changed: str) -> None:
            hub.rewrite = lambda asked, text: changed if asked == path else text

        return write

    return [Document(path, text, write_answer(path)) for path, text in answers.items()]


ROUNDS = [2, full(40), nightly(400)]  # mutations of each answer


@pytest.mark.parametrize("count", ROUNDS)
@pytest.mark.full
def test_mutated_answers_to_a_download(hub, folder, tmp_path, monkeypatch, count):
    """What is downloaded is what the hub has; nothing is written outside of the cache."""
    wait_no_longer(monkeypatch)
    hub.add(BERT, folder)
    before = {*tmp_path.iterdir()}

    def download() -> None:
        shutil.rmtree(tmp_path / "hf", ignore_errors=True)
        found = kbert.download(BERT)
        assert (tmp_path / "hf" / "hub") in found.parents

    chosen = mutations(documents(hub, download, DOWNLOAD), seed=5, count=count)
    counts = try_mutations(chosen, download, ("127.0.0.1", BERT), errors=ERRORS)
    print(f"download: {dict(counts)}")
    assert counts["refused"] and {*tmp_path.iterdir()} <= before | {tmp_path / "hf"}
    check_same(kbert.load(BERT), folder)


@pytest.mark.parametrize("count", ROUNDS)
@pytest.mark.full
def test_mutated_answers_to_a_push(hub, folder, monkeypatch, count):
    monkeypatch.setenv("HF_TOKEN", "hf_owner")
    wait_no_longer(monkeypatch)

    def push() -> None:
        hub.repositories.clear()
        kbert.push(folder, "owner/small")

    chosen = mutations(documents(hub, push, PUSH), seed=6, count=count)
    counts = try_mutations(chosen, push, ("127.0.0.1", "owner/small"), errors=ERRORS)
    print(f"push: {dict(counts)}")
    assert counts["refused"] and "model.safetensors" in newest(hub, "owner/small")


def newest(hub, name: str) -> dict:
    repository = hub.repositories[name]
    return repository.commits[repository.refs["main"]]
