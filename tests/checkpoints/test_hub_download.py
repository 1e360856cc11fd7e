"""Models by name from a local hub: what is downloaded, what is refused, what breaks off."""

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import huggingface_hub
import pytest
from helpers.command_line import kbert as run
from helpers.damaged_checkpoints import read_files
from helpers.errors import raises
from helpers.hub_cache import set_offline, wait_no_longer
from helpers.hub_models import BERT, MINILM, check_same, failed_line
from helpers.local_hub import Fault
from helpers.marks import full

import kbert

SETTINGS = {"config.json", "tokenizer.json", "tokenizer_config.json"}
NEEDED = {
    BERT: {*SETTINGS, "vocab.txt", "model.safetensors"},
    MINILM: {
        *(*SETTINGS, "vocab.txt", "model.safetensors"),
        *("modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"),
        "1_Pooling/config.json",
    },
}
WEIGHTS, PICKLED = "model.safetensors", "pytorch_model.bin"


@pytest.fixture
def bert_hub(hub, bert_folder):
    """The hub with BERT's repository, which was called otherwise once."""
    hub.add(BERT, bert_folder)
    hub.moved["bert-base-uncased"] = BERT
    return hub


@pytest.mark.parametrize("name, layout", [(BERT, "bert"), (MINILM, "minilm")])
def test_only_what_kbert_reads_is_downloaded(hub, request, name, layout):
    folder = request.getfixturevalue(f"{layout}_folder")
    commit = hub.add(name, folder)
    bert = kbert.load(name)
    assert bert.source == f"hf://{name}@{commit}"
    check_same(bert, folder)
    assert hub.sent() == {file: (folder / file).stat().st_size for file in NEEDED[name]}
    assert (bert.sentence is not None) == (name == MINILM)


@pytest.mark.full
@pytest.mark.parametrize(
    "text, tag",
    [
        ("bert-base-uncased", "new"),
        full(f"hf://{BERT}", "new"),
        full(f"{BERT}@v1", "old"),
        full("bert-base-uncased@v1", "old"),
        (f"hf://{BERT}@refs/pr/1", "old"),
        (BERT + "@{old}", "old"),
    ],
)
def test_names_lead_to_their_commits(hub, bert_folder, minilm_folder, text, tag):
    commits = {"old": hub.add(BERT, minilm_folder, ref="v1"), "new": hub.add(BERT, bert_folder)}
    hub.repositories[BERT].refs["refs/pr/1"] = commits["old"]
    folder = kbert.download(text.format(**commits))
    assert folder.name == commits[tag]
    assert kbert.download(text.format(**commits)) == folder  # from the cache
    heads = {"old": "encoder", "new": "pretraining"}
    assert kbert.load(text.format(**commits)).head == heads[tag]


@pytest.mark.parametrize(
    "missing, taken", [("", "pytorch_model.bin"), ("pytorch_model.bin", "tf_model.h5")]
)
def test_without_safetensors_another_format_is_taken(bert_folder, missing, taken):
    from kbert.hub.needed_files import choose_files

    names = [path.name for path in bert_folder.iterdir()]
    left = [
        name for name in names if name != WEIGHTS and not (missing and name.startswith(missing))
    ]
    assert choose_files(left)[1] == [taken]


SHARDS = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
INDEX = "model.safetensors.index.json"


@pytest.mark.parametrize(
    "names, whole",
    [
        (["config.json", WEIGHTS], True),
        (["tokenizer_config.json", "1_Pooling/config.json", WEIGHTS], False),
        (["config.json", "2_Dense/config.json", f"2_Dense/{WEIGHTS}"], False),
        (["config.json", "2_Dense/config.json", f"2_Dense/{WEIGHTS}", WEIGHTS], True),
        (["config.json", *SHARDS, INDEX], True),
        (["config.json", *SHARDS], False),
        (["config.json", SHARDS[0], INDEX], False),
        (["config.json", "flax_model.msgpack", "model.onnx"], False),
        (["config.json", "model.weights.h5"], True),
        (
            ["bert_config.json", "bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001"],
            True,
        ),
        (["0_BERT/config.json", f"0_BERT/{PICKLED}", "1_Pooling/config.json"], True),
        (["adapter_config.json", "adapter_model.safetensors"], True),
        (["original/config.json", f"original/{WEIGHTS}"], False),
    ],
)
def test_a_model_is_a_configuration_and_whole_weights_beside_it(names, whole):
    from kbert.hub.needed_files import has_model

    assert has_model(names) == whole


def test_a_download_that_breaks_off_is_resumed(bert_hub, bert_folder, monkeypatch):
    wait_no_longer(monkeypatch)
    monkeypatch.setattr(huggingface_hub.constants, "DOWNLOAD_CHUNK_SIZE", 1000)  # else 10 MiB
    bert_hub.faults[f"/{WEIGHTS}"] = Fault(break_after=9_000, times=2)
    check_same(kbert.load(BERT), bert_folder)
    asked = [r.range for r in bert_hub.requests if r.path.startswith("/cdn") and r.method == "GET"]
    assert asked == [None, "bytes=9000-", "bytes=18000-"]
    assert bert_hub.sent()[WEIGHTS] == (bert_folder / WEIGHTS).stat().st_size


def test_one_that_breaks_off_for_good_is_one_line(bert_hub, bert_folder, monkeypatch, capsys):
    wait_no_longer(monkeypatch)
    bert_hub.faults[f"/{WEIGHTS}"] = Fault(break_after=0)
    with raises(ConnectionError, WEIGHTS, BERT):
        kbert.load(BERT)
    assert WEIGHTS in failed_line(capsys, "inspect", BERT)
    bert_hub.faults.clear()
    bert_hub.requests.clear()
    check_same(kbert.load(BERT), bert_folder)
    assert set(bert_hub.sent()) == {WEIGHTS}  # the rest was there


def test_wrong_content_is_refused_and_removed(bert_hub, bert_folder, capsys):
    bert_hub.faults[f"/{WEIGHTS}"] = Fault(wrong=True, times=2)
    with raises(OSError, WEIGHTS, "SHA-256"):
        kbert.load(BERT)
    assert "SHA-256" in failed_line(capsys, "inspect", BERT)
    check_same(kbert.load(BERT), bert_folder)


def test_a_damaged_file_of_the_cache_is_downloaded_again(bert_hub, bert_folder):
    folder = kbert.download(BERT)
    for name in (WEIGHTS, "config.json"):
        Path(os.path.realpath(folder / name)).write_bytes(b"")
    check_same(kbert.load(kbert.download(BERT)), bert_folder)


def test_a_link_out_of_the_cache_loses_only_itself(bert_hub, bert_folder, tmp_path):
    folder = kbert.download(BERT)
    (tmp_path / "thesis.txt").write_text("mine")
    (folder / WEIGHTS).unlink()
    (folder / WEIGHTS).symlink_to(tmp_path / "thesis.txt")
    check_same(kbert.load(kbert.download(BERT)), bert_folder)
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_a_login_page_in_between_is_one_line(bert_hub, monkeypatch, capsys):
    def answer(self, *arguments, **options):
        raise json.JSONDecodeError("Expecting value", "<html>", 0)  # as huggingface_hub raises it

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", answer)
    assert BERT in failed_line(capsys, "download", BERT)


def test_a_password_in_the_hubs_address_is_not_printed(bert_hub, monkeypatch, capsys):
    address = huggingface_hub.constants.ENDPOINT.replace("//", "//me:s3cret@")
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", address)
    line = failed_line(capsys, "download", "org/x")
    assert "s3cret" not in line and "127.0.0.1" in line
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "hub.example.com")
    assert "HF_ENDPOINT" in failed_line(capsys, "download", "org/x")


def test_what_is_local_is_not_downloaded(bert_hub, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "minilm").mkdir()
    for name in ("minilm", "./minilm", tmp_path / "minilm"):
        assert f"{name} " in failed_line(capsys, "download", name)


@pytest.mark.parametrize(("status", "error"), [(403, PermissionError), (500, ConnectionError)])
def test_a_files_status_is_in_the_line(bert_hub, monkeypatch, status, error):
    wait_no_longer(monkeypatch)
    bert_hub.faults["/config.json"] = Fault(status=status)
    with raises(error, BERT, status):
        kbert.load(BERT)


REFUSALS = {  # options of the repository, token, name, error, what its line names
    "no such model": ({}, None, "org/other", FileNotFoundError, "127.0.0.1"),
    "no such model, with a token": ({}, "hf_stranger", "org/other", FileNotFoundError, "127.0.0.1"),
    "no such branch": ({}, None, "org/m@v9", FileNotFoundError, "'v9'"),
    "private": ({"private": True}, None, "org/m", FileNotFoundError, "HF_TOKEN"),
    "private, of others": ({"private": True}, "hf_stranger", "org/m", FileNotFoundError, "token"),
    "gated": ({"gated": True}, None, "org/m", PermissionError, "/org/m"),
    "gated, not asked": ({"gated": True}, "hf_stranger", "org/m", PermissionError, "/org/m"),
    "a wrong token": ({}, "hf_wrong", "org/m", PermissionError, "HF_TOKEN"),
}


@pytest.mark.full
@pytest.mark.parametrize("case", REFUSALS)
def test_refusals_are_one_line(hub, bert_folder, monkeypatch, capsys, case):
    options, token, name, error, thing = REFUSALS[case]
    hub.add("org/m", bert_folder, **options)
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    with raises(error, thing):
        kbert.load(name)
    line = failed_line(capsys, "download", name)
    assert thing in line and name.split("@")[0] in line
    assert not hub.sent()


@pytest.mark.full
@pytest.mark.parametrize("options", [{"private": True}, {"gated": True}])
@pytest.mark.parametrize("where", ["variable", "file"])
def test_a_token_opens_private_and_gated_models(hub, bert_folder, monkeypatch, options, where):
    hub.add("org/m", bert_folder, **options)
    if where == "variable":
        monkeypatch.setenv("HF_TOKEN", "hf_owner")
    else:
        Path(os.environ["HF_HOME"]).mkdir()
        Path(os.environ["HF_TOKEN_PATH"]).write_text("hf_owner\n", encoding="utf-8")
    check_same(kbert.load("org/m"), bert_folder)
    at_cdn = {request.token for request in hub.requests if request.path.startswith("/cdn")}
    assert at_cdn == {None}  # the token stays with the hub


def test_the_name_of_a_data_set_is_told_apart(hub, capsys):
    hub.data_sets.add("owner/reviews")
    for name in ("owner/reviews", "hf://owner/reviews"):
        line = failed_line(capsys, "download", name)
        assert "data set" in line and "hf download owner/reviews --repo-type dataset" in line
    assert "data set" not in failed_line(capsys, "download", "owner/nothing")


@pytest.mark.parametrize(
    "address",
    [
        "hf://datasets/owner/reviews",
        "hf://datasets/owner/reviews/data/train.csv",
        "hf://datasets/owner/reviews@v1/train.csv",
        "https://huggingface.co/datasets/owner/reviews",
        "https://huggingface.co/datasets/owner/reviews/tree/main",
    ],
)
def test_addresses_of_data_sets_give_the_command_that_downloads_them(hub, address, tmp_path):
    from huggingface_hub.constants import REPO_TYPES_URL_PREFIXES

    kinds = {prefix: kind for kind, prefix in REPO_TYPES_URL_PREFIXES.items()}
    command = "hf download owner/reviews", f"--repo-type {kinds['datasets/']}"
    with raises(ValueError, *command):
        kbert.load(address)
    if address.startswith("hf:"):
        parts = address.split("reviews")[1].replace("@", " ").replace("/t", " t").split()
        with raises(ValueError, *command, *[part.strip("/") for part in parts]):
            kbert.train_vocab(address, 90, tmp_path / "out")
    assert not hub.requests


def test_a_model_without_weights_is_refused(hub, tmp_path, capsys):
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    (tmp_path / "model.onnx").write_bytes(b"1")
    hub.add("org/m", tmp_path)
    line = failed_line(capsys, "download", "org/m")
    assert "org/m" in line and "model.onnx" in line
    assert not hub.sent()


@pytest.mark.full
@pytest.mark.parametrize("address", ["/api/", "/resolve/", full("/cdn/")])
def test_a_silent_hub_is_one_line_within_ten_seconds(bert_hub, monkeypatch, capsys, address):
    """It is silent from the start, or from a later question on; waits are shortened."""
    from kbert.hub import hugging_face

    monkeypatch.setattr(hugging_face, "TIMEOUT_S", 0.2)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DOWNLOAD_TIMEOUT", 0.2)
    monkeypatch.setattr("huggingface_hub.file_download._ETAG_RETRY_TIMEOUT", 0.2, raising=False)
    wait_no_longer(monkeypatch)
    bert_hub.faults[address] = Fault(silent=True)
    start = time.monotonic()
    line = failed_line(capsys, "download", BERT)
    assert (WEIGHTS if address == "/cdn/" else "127.0.0.1") in line
    assert time.monotonic() - start < 5


def test_no_network_is_one_line_within_ten_seconds(hub, monkeypatch, capsys):
    """Nobody listens at the port; the hub answers with an error; the network is forbidden."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with monkeypatch.context() as patch:
        patch.setattr(huggingface_hub.constants, "ENDPOINT", f"http://127.0.0.1:{port}")
        patch.setattr(huggingface_hub.hf_api.api, "endpoint", f"http://127.0.0.1:{port}")
        start = time.monotonic()
        with raises(ConnectionError, BERT, "kbert download"):
            kbert.load(BERT)
        minilm = "sentence-transformers/all-MiniLM-L6-v2"
        assert "docs/how_to/get_a_model.md" in failed_line(capsys, "inspect", minilm)
        assert f"127.0.0.1:{port}" in failed_line(capsys, "inspect", BERT)
        assert time.monotonic() - start < 10
    hub.faults["/"] = Fault(status=503)
    assert "503" in failed_line(capsys, "inspect", BERT)
    before = len(hub.requests)
    set_offline(monkeypatch)
    line = failed_line(capsys, "inspect", BERT)
    assert "HF_HUB_OFFLINE" in line and "kbert download" in line
    assert len(hub.requests) == before


@pytest.mark.full
def test_huggingface_hubs_warnings_are_not_printed(bert_hub, monkeypatch):
    """Where a connection breaks off once, and without a network; `capsys` misses them."""
    command = [sys.executable, "-m", "kbert", "download", "--quiet", BERT]
    bert_hub.faults[f"/{WEIGHTS}"] = Fault(break_after=0, times=1)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{kbert.download(BERT)}\n", "")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # nobody listens there
    done = subprocess.run([*command[:-1], "org/other"], capture_output=True, text=True, timeout=10)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert done.stderr.startswith("kbert: 'org/other'")


@pytest.mark.parametrize("shown", [True, False])
def test_the_download_of_the_weights_has_a_progress_bar(bert_hub, monkeypatch, capsys, shown):
    monkeypatch.setenv("TQDM_POSITION", "-1")  # huggingface_hub's bars, though this is no terminal
    monkeypatch.setattr("kbert.hub.hugging_face.is_shown", lambda: shown)
    kbert.download(BERT)
    said = capsys.readouterr().err
    assert (WEIGHTS in said and "100%" in said) if shown else said == ""


def test_a_full_disk_is_one_line(bert_hub, bert_folder, capsys):
    """Files of more than 20 kB are refused by the system; the weights have 37 kB."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        with raises(OSError, BERT, "File too large"):
            kbert.load(BERT)
        line = failed_line(capsys, "download", BERT)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert "File too large" in line and BERT in line
    kept = [path for path in Path(os.environ["HF_HUB_CACHE"]).rglob("*") if path.is_file()]
    assert not [path for path in kept if path.stat().st_size > 10_000]  # no part of the weights
    check_same(kbert.load(BERT), bert_folder)


def test_download_copies_what_is_needed_to_a_folder(bert_hub, bert_folder, tmp_path, capsys):
    out = tmp_path / "out"
    huggingface_hub.snapshot_download(BERT)  # the cache has other files too
    done = run(capsys, "download", BERT, "-o", out)
    assert (done.status, done.out) == (0, f"{out}\n")
    found = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    assert found == {*NEEDED[BERT], "kbert_source.json"} and not any(
        path.is_symlink() for path in out.rglob("*")
    )
    check_same(kbert.load(out), bert_folder)
    assert kbert.load(out).source == kbert.load(BERT).source
    before = len(bert_hub.requests)
    assert str(out) in failed_line(capsys, "download", BERT, "-o", out)
    assert len(bert_hub.requests) == before


def test_other_weights_in_a_downloaded_folder_are_not_the_hubs(bert_hub, tmp_path):
    bert = kbert.load(kbert.download(BERT, tmp_path / "out"))
    assert bert.source.startswith(f"hf://{BERT}@")
    kbert.save(bert, tmp_path / "out", overwrite=True)
    assert kbert.load(tmp_path / "out").source is None


def test_failed_save_leaves_the_address_of_a_download(bert_hub, tmp_path):
    out = kbert.download(BERT, tmp_path / "out")
    bert = kbert.load(out)
    (out / "tokenizer_config.json").unlink()
    (out / "tokenizer_config.json").mkdir()
    before = read_files(out)
    with raises(OSError, "tokenizer_config.json"):
        kbert.save(bert, out, overwrite=True)
    assert read_files(out) == before


def test_download_brings_the_cache_up_to_date(bert_hub, bert_folder, minilm_folder, capsys):
    old = kbert.download(BERT)
    sent = bert_hub.sent()
    assert run(capsys, "download", BERT).out == f"{old}\n" and bert_hub.sent() == sent
    new = bert_hub.add(BERT, minilm_folder)
    bert_hub.faults[f"/{WEIGHTS}"] = Fault(wrong=True, times=1)
    assert "SHA-256" in failed_line(capsys, "download", BERT)
    assert kbert.load(BERT).source == f"hf://{BERT}@{old.name}"  # until all of the new is there
    assert Path(run(capsys, "download", BERT).out.strip()).name == new
    assert kbert.load(BERT).source == f"hf://{BERT}@{new}"
