"""The local hub of the tests, by huggingface_hub alone: what it downloads, refuses and uploads."""

from pathlib import Path

import huggingface_hub
import pytest
from helpers.hub_settings import set_offline, wait_no_longer
from helpers.local_hub import Fault
from huggingface_hub import errors

pytestmark = pytest.mark.full
CONTENT = {"config.json": b"{}", "model.safetensors": bytes(range(256)) * 999, "onnx/a.onnx": b"1"}


@pytest.fixture
def folder(tmp_path):
    for name, content in CONTENT.items():
        path = tmp_path / "content" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path / "content"


def content_of(folder) -> dict[str, bytes]:
    paths = [path for path in Path(folder).rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def test_snapshots_are_downloaded_by_branch_tag_commit_and_former_name(hub, folder):
    old = hub.add("org/m", folder, ref="v1")
    (folder / "config.json").write_bytes(b'{"a": 1}')
    new = hub.add("org/m", folder)
    hub.moved["m"] = "org/m"
    for name, revision, commit in [("org/m", "v1", old), ("org/m", None, new), ("m", old, old)]:
        path = Path(huggingface_hub.snapshot_download(name, revision=revision))
        assert path.name == commit
    assert content_of(path) == CONTENT | {"config.json": b"{}"}
    info = huggingface_hub.HfApi().model_info("m", files_metadata=True)
    assert info.sha == new and {s.rfilename: s.size for s in info.siblings} == {
        name: path.stat().st_size for name in CONTENT if (path := folder / name)
    }
    hashes = {s.rfilename: s.lfs and s.lfs.sha256 for s in info.siblings}
    assert hashes["config.json"] is None and len(hashes["model.safetensors"]) == 64
    tree = huggingface_hub.HfApi().list_repo_tree("org/m", recursive=True)
    assert sorted(entry.path for entry in tree) == sorted([*CONTENT, "onnx"])
    tree = huggingface_hub.HfApi().list_repo_tree("org/m", "onnx")
    assert [entry.path for entry in tree] == ["onnx/a.onnx"]


def test_a_download_that_breaks_off_is_resumed(hub, folder, monkeypatch):
    wait_no_longer(monkeypatch)
    monkeypatch.setattr(huggingface_hub.constants, "DOWNLOAD_CHUNK_SIZE", 10_000)  # else 10 MiB
    hub.add("org/m", folder)
    hub.faults["model.safetensors"] = Fault(break_after=70_000, times=2)
    path = huggingface_hub.hf_hub_download("org/m", "model.safetensors")
    assert Path(path).read_bytes() == CONTENT["model.safetensors"]
    ranges = [r.range for r in hub.requests if r.path.startswith("/cdn") and r.method == "GET"]
    assert ranges == [None, "bytes=70000-", "bytes=140000-"]
    assert hub.sent() == {"model.safetensors": len(CONTENT["model.safetensors"])}


@pytest.mark.parametrize(
    "options, token, error",
    [
        ({}, None, None),
        ({}, "hf_wrong", errors.HfHubHTTPError),
        ({"private": True}, None, errors.HfHubHTTPError),
        ({"private": True}, "hf_stranger", errors.RepositoryNotFoundError),
        ({"private": True}, "hf_owner", None),
        ({"gated": True}, None, errors.GatedRepoError),
        ({"gated": True}, "hf_stranger", errors.GatedRepoError),
        ({"gated": True}, "hf_owner", None),
    ],
)
def test_private_and_gated_repositories_want_a_token(hub, folder, options, token, error):
    hub.add("org/m", folder, **options)
    for name in ("config.json", "model.safetensors"):
        if error is None:
            huggingface_hub.hf_hub_download("org/m", name, token=token)
        else:
            with pytest.raises(error):
                huggingface_hub.hf_hub_download("org/m", name, token=token)
    at_cdn = [request.token for request in hub.requests if request.path.startswith("/cdn")]
    assert at_cdn == ([] if error else [None])


def test_what_is_not_there_is_refused_by_name(hub, folder):
    hub.add("org/m", folder)
    with pytest.raises(errors.RepositoryNotFoundError):
        huggingface_hub.model_info("org/other", token="hf_stranger")
    with pytest.raises(errors.RevisionNotFoundError):
        huggingface_hub.model_info("org/m", revision="v2")
    with pytest.raises(errors.RemoteEntryNotFoundError):
        huggingface_hub.hf_hub_download("org/m", "other.json")


def test_faults_strike(hub, folder, monkeypatch):
    hub.add("org/m", folder)
    hub.faults["config.json"] = Fault(wrong=True)
    path = Path(huggingface_hub.hf_hub_download("org/m", "config.json"))
    assert path.read_bytes() == b"z|"  # "{}", a bit of each changed
    hub.faults = {"/api/": Fault(status=500)}
    with pytest.raises(errors.HfHubHTTPError, match="500"):
        huggingface_hub.model_info("org/m")
    hub.faults = {"/api/": Fault(silent=True)}
    with pytest.raises(Exception, match="timed out"):
        huggingface_hub.model_info("org/m", timeout=0.05)
    set_offline(monkeypatch)
    with pytest.raises(errors.OfflineModeIsEnabled):
        huggingface_hub.model_info("org/m")


def test_what_is_pushed_can_be_downloaded(hub, folder):
    api = huggingface_hub.HfApi(token="hf_owner")
    assert api.whoami()["name"] == "owner"
    api.create_repo("org/new", private=True)
    api.create_repo("org/new", private=True, exist_ok=True)
    assert hub.repositories["org/new"].private
    (folder / "README.md").write_text("---\nlicense: mit\n---\n", encoding="utf-8")
    done = api.upload_folder(repo_id="org/new", folder_path=folder)
    snapshot = api.snapshot_download("org/new")
    assert Path(snapshot).name == done.oid and content_of(snapshot) == content_of(folder)
    again = api.upload_folder(repo_id="org/new", folder_path=folder)  # nothing has changed
    assert again.oid == done.oid
    with pytest.raises(errors.HfHubHTTPError, match="403"):
        huggingface_hub.HfApi(token="hf_stranger").create_repo("org/other")


def test_the_variables_lead_processes_to_the_hub(hub, folder, run_python):
    hub.add("org/m", folder)
    code = "import huggingface_hub as h; print(h.hf_hub_download('org/m', 'config.json'))"
    path = Path(run_python(code).stdout.strip())
    assert path == Path(huggingface_hub.hf_hub_download("org/m", "config.json"))
