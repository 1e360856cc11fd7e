"""The answers of `helpers.local_hub`: what the hub, and its CDN, say to each request."""

import base64
import contextlib
import hashlib
import json
import re
import time
from http.server import BaseHTTPRequestHandler
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from helpers.local_hub import LARGE, File, Repository, Request

CHUNK = 1 << 16


class _Refusal(Exception):
    """An answer with an HTTP status of failure, a message, the hub's code for it, the commit."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """Print nothing; `LocalHub.requests` has it."""

    def handle(self):
        with contextlib.suppress(ConnectionError):  # the client hung up
            super().handle()

    def do_GET(self):
        self.hub = self.server.hub
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.token = self.headers.get("Authorization", "").removeprefix("Bearer ") or None
        self.entry = Request(self.command, self.path, self.headers.get("Range"), self.token)
        self.hub.requests.append(self.entry)
        fault = self.hub.strike(self.path, content=False)
        if fault.silent:
            self.hub.closing.wait()
            self.close_connection = True
            return
        try:
            if fault.status:
                raise _Refusal(fault.status, "Internal Error")
            self.answer()
        except _Refusal as refusal:
            status, message, *code = refusal.args
            headers = dict(zip(("X-Error-Code", "X-Repo-Commit"), code, strict=False))
            self.send(status, {"error": message}, headers | {"X-Error-Message": message})

    do_HEAD = do_POST = do_PUT = do_GET

    def answer(self):
        path = urlsplit(self.path).path
        matches = ((re.fullmatch(pattern, path), answer) for pattern, answer in _ROUTES.items())
        match, answer = next((pair for pair in matches if pair[0]), (None, None))
        if match is None:
            raise _Refusal(404, "Not Found")
        if self.token is not None and self.token not in self.hub.tokens:
            raise _Refusal(401, "Invalid credentials in Authorization header")
        names = [unquote(group) for group in match.groups()]
        if names and (new := self.hub.moved.get(names[0])):
            location = re.sub(rf"(?<=/){re.escape(names[0])}(?=/|\?|$)", new, self.path, count=1)
            return self.send(307, {}, {"Location": location})
        answer(self, *names)

    def send(self, status: int, content, headers=None):
        """Send bytes, or an object as JSON."""
        if not isinstance(content, bytes):
            content = self.hub.rewrite(self.path, json.dumps(content)).encode()
            headers = {"Content-Type": "application/json", **(headers or {})}
        self.send_head(status, {"Content-Length": len(content), **(headers or {})})
        if self.command != "HEAD":
            self.wfile.write(content)

    def send_head(self, status: int, headers: dict):
        if "/resolve/" in self.path:
            text = json.dumps({name: str(value) for name, value in headers.items()})
            headers = json.loads(self.hub.rewrite(f"headers of {self.path}", text))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, str(value))
        self.end_headers()

    def send_file(self, file: File, headers: dict):
        """Send a file, or the part of it that is asked for, with what goes wrong."""
        if self.command == "HEAD":
            return self.send(200, b"", headers | {"Content-Length": file.size})
        fault = self.hub.strike(self.path, content=True)
        content, status = file.content, 200
        if fault.wrong:
            content = bytes(byte ^ 1 for byte in content)
        if self.entry.range:
            start, end = re.fullmatch(r"bytes=(\d+)-(\d*)", self.entry.range).groups()
            content, status = content[int(start) : int(end) + 1 if end else None], 206
            last = int(start) + len(content) - 1
            headers = headers | {"Content-Range": f"bytes {start}-{last}/{file.size}"}
        self.send_head(status, headers | {"Content-Length": len(content)})
        for start in range(0, len(content[: fault.break_after]), CHUNK):
            time.sleep(fault.pause)
            chunk = content[: fault.break_after][start : start + CHUNK]
            self.entry.sent += len(chunk)
            self.wfile.write(chunk)
        self.close_connection = self.close_connection or fault.break_after is not None

    def repository(self, name: str, write: bool = False) -> Repository:
        """Return a repository, or refuse as the hub does."""
        repository = self.hub.repositories.get(name)
        allowed = self.hub.tokens.get(self.token, False)
        if repository is None or (repository.private and not allowed):
            if self.token is None:  # the hub does not tell who has no token what exists
                raise _Refusal(401, "Invalid username or password.")
            raise _Refusal(404, "Repository not found", "RepoNotFound")
        if write and not allowed:
            raise _Refusal(403, "Forbidden: you need write access to this repository.")
        return repository

    def commit_of(self, repository: Repository, revision: str) -> str:
        commit = repository.refs.get(revision, revision)
        if commit not in repository.commits:
            raise _Refusal(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return commit

    def resolve(self, name, revision, path):
        repository = self.repository(name)
        if repository.gated and self.token is None:
            raise _Refusal(
                401, f"Access to model {name} is restricted. Please log in.", "GatedRepo"
            )
        if repository.gated and not self.hub.tokens[self.token]:
            message = f"Access to model {name} is restricted, you are not in the authorized list."
            raise _Refusal(403, message, "GatedRepo")
        commit = self.commit_of(repository, revision)
        if (file := repository.commits[commit].get(path)) is None:
            raise _Refusal(404, "Entry not found", "EntryNotFound", commit)
        headers = {"X-Repo-Commit": commit, "ETag": f'"{file.oid}"', "Accept-Ranges": "bytes"}
        if file.sha256 is None:
            return self.send_file(file, headers)
        headers |= {"X-Linked-Size": file.size, "X-Linked-ETag": f'"{file.sha256}"'}
        quoted = urlsplit(self.path).path.split("/resolve/")[1].split("/", 1)[1]
        self.send(302, b"", headers | {"Location": f"{self.hub.cdn}/cdn/{file.sha256}/{quoted}"})

    def stored(self, sha256, name):
        """Give or take a large file, as the CDN does: the address is the permission."""
        if self.command == "PUT":
            if hashlib.sha256(self.body).hexdigest() != sha256:
                raise _Refusal(400, "The content has another checksum")
            self.hub.uploads[sha256] = self.body
            return self.send(200, {})
        every = (c for r in self.hub.repositories.values() for c in r.commits.values())
        files = (file for commit in every for file in commit.values() if file.sha256 == sha256)
        self.send_file(next(files), {"ETag": f'"{sha256}"'})

    def info(self, name, revision="main"):
        repository = self.repository(name)
        commit = self.commit_of(repository, revision)
        siblings = [{"rfilename": path} for path in repository.commits[commit]]
        if "blobs=" in self.path:
            for sibling, file in zip(siblings, repository.commits[commit].values(), strict=True):
                sibling |= {"size": file.size, "blobId": file.oid, **file.lfs("sha256")}
        about = {"id": name, "modelId": name, "sha": commit, "siblings": siblings, "tags": []}
        gated = "auto" if repository.gated else False
        self.send(200, about | {"private": repository.private, "gated": gated})

    def data_set(self, name):
        if name not in self.hub.data_sets:
            raise _Refusal(401, "Invalid username or password.")
        about = {"id": name, "author": name.partition("/")[0], "sha": "0" * 40, "tags": []}
        self.send(200, about | {"private": False, "gated": False, "siblings": []})

    def tree(self, name, revision, under):
        repository = self.repository(name)
        files = repository.commits[self.commit_of(repository, revision)]
        parents = {str(parent) for path in files for parent in PurePosixPath(path).parents}
        if under and under not in parents:
            raise _Refusal(404, f"{under} does not exist on {revision!r}", "EntryNotFound")
        folder = {"type": "directory", "oid": "0" * 40, "size": 0}
        entries = [folder | {"path": parent} for parent in sorted(parents - {"."})]
        for path, file in files.items():
            about = {"type": "file", "oid": file.oid, "size": file.size, "path": path}
            entries.append(about | file.lfs("oid"))
        recursive = "recursive=true" in self.path.lower()
        levels = slice(None) if recursive else slice(1)
        within = {e["path"]: list(map(str, PurePosixPath(e["path"]).parents)) for e in entries}
        self.send(200, [e for e in entries if (under or ".") in within[e["path"]][levels]])

    def whoami(self):
        if self.token is None:
            raise _Refusal(401, "Invalid username or password.")
        self.send(200, {"type": "user", "name": self.token.removeprefix("hf_"), "orgs": []})

    def validate_card(self):
        described = json.loads(self.body)["content"].startswith("---\n")
        missing = {"message": "empty or missing yaml metadata in repo card"}
        self.send(200, {"errors": [], "warnings": [] if described else [missing]})

    def create(self):
        options = json.loads(self.body)
        if self.token is None:
            raise _Refusal(401, "Invalid username or password.")
        owner = options.get("organization") or self.token.removeprefix("hf_")
        if not self.hub.tokens[self.token]:
            message = f'You don\'t have the rights to create a model under the namespace "{owner}"'
            raise _Refusal(403, message)
        name = f"{owner}/{options['name']}"
        about = {"url": f"{self.hub.endpoint}/{name}", "name": name, "id": name}
        if name in self.hub.repositories:
            message = "You already created this model repo"
            return self.send(409, about | {"error": message}, {"X-Error-Message": message})
        private = options.get("private") or options.get("visibility") == "private"
        repository = self.hub.repositories[name] = Repository(private=bool(private))
        repository.commit({})
        self.send(200, about)

    def preupload(self, name, revision):
        repository = self.repository(name, write=True)
        there = repository.commits[self.commit_of(repository, revision)]
        modes = []
        for entry in json.loads(self.body)["files"]:
            large = entry["path"].endswith(LARGE) or entry["size"] > 10e6
            mode = {"path": entry["path"], "uploadMode": "lfs" if large else "regular"}
            old = there.get(entry["path"])
            modes.append(mode | {"shouldIgnore": False, "oid": old and (old.sha256 or old.oid)})
        self.send(200, {"files": modes})

    def batch(self, name):
        self.repository(name, write=True)
        objects = json.loads(self.body)["objects"]
        for wanted in objects:
            href = f"{self.hub.cdn}/cdn/{wanted['oid']}/upload"
            wanted["actions"] = {"upload": {"href": href}}
        self.send(200, {"transfer": "basic", "objects": objects})

    def commit(self, name, revision):
        repository = self.repository(name, write=True)
        parent = self.commit_of(repository, revision)
        files = dict(repository.commits[parent])
        for line in map(json.loads, self.body.splitlines()):
            key, value = line["key"], line["value"]
            path = value.get("path")
            if key == "header" and value.get("parentCommit", parent) != parent:
                raise _Refusal(412, "A commit has happened since. Please refresh and try again.")
            if key == "file":
                files[path] = File(base64.b64decode(value["content"]), large=False)
            elif key == "lfsFile":
                files[path] = File(self.hub.uploads[value["oid"]], large=True)
            elif key == "deletedFile":
                files.pop(path)
            elif key == "deletedFolder":
                files = {n: f for n, f in files.items() if not n.startswith(path.rstrip("/") + "/")}
        commit = repository.commit(files, revision)
        url = f"{self.hub.endpoint}/{name}/commit/{commit}"
        self.send(200, {"success": True, "commitOid": commit, "commitUrl": url, "hookOutput": ""})


_ROUTES = {
    r"/cdn/(\w+)/(.+)": Handler.stored,
    r"/api/whoami-v2": Handler.whoami,
    r"/api/validate-yaml": Handler.validate_card,
    r"/api/repos/create": Handler.create,
    r"/(.+)\.git/info/lfs/objects/batch": Handler.batch,
    r"/api/models/(.+)/preupload/([^/]+)": Handler.preupload,
    r"/api/models/(.+)/commit/([^/]+)": Handler.commit,
    r"/api/models/(.+)/tree/([^/]+)/?(.*)": Handler.tree,
    r"/api/models/(.+)/revision/([^/]+)": Handler.info,
    r"/api/models/([^/]+(?:/[^/]+)?)": Handler.info,
    r"/api/datasets/([^/]+/[^/]+)": Handler.data_set,
    r"/([^/]+(?:/[^/]+)?)/resolve/([^/]+)/(.+)": Handler.resolve,
}
