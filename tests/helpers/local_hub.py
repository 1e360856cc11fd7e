"""A server on 127.0.0.1 that speaks Hugging Face's hub protocol, as huggingface_hub 1 and 2 use it.

    with LocalHub() as hub:
        hub.add("org/name", folder)        # then HF_ENDPOINT=hub.endpoint

Folders become repositories. As on the real hub, a server of its own (the CDN) has the large files.
`faults` breaks answers; `requests` has the requests, and how many bytes of files were sent.
`python -m helpers.local_hub FOLDER` serves each FOLDER/org/name until Ctrl-C.
"""

import contextlib
import hashlib
import json
import re
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

LARGE = (".bin", ".h5", ".mlmodel", ".msgpack", ".npz", ".onnx", ".ot", ".safetensors")


@dataclass
class Fault:
    """What goes wrong with answers; `LocalHub.faults` says at which addresses.

    Attributes:
        status: answer with this HTTP status.
        silent: accept the request and never answer.
        break_after: bytes of a file after which the connection is broken off.
        wrong: send other bytes, as many as the file has.
        pause: seconds before each 64 KiB of a file.
        times: how many answers it strikes; None: all.
    """

    status: int | None = None
    silent: bool = False
    break_after: int | None = None
    wrong: bool = False
    pause: float = 0.0
    times: int | None = None


@dataclass
class Request:
    """A request that came, and the bytes of a file that were sent for it."""

    method: str
    path: str
    range: str | None
    token: str | None
    sent: int = 0

    @property
    def file(self) -> str | None:
        """The name of the file that it downloads, in its repository."""
        match = re.fullmatch(r"/.+/resolve/[^/]+/(.+)|/cdn/\w+/(.+)", urlsplit(self.path).path)
        return unquote(match[1] or match[2]) if match and self.method == "GET" else None


class File:
    """A file of a commit: its content, its size in bytes and its hashes."""

    def __init__(self, content: bytes, large: bool):
        self.content, self.size = content, len(content)
        self.oid = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()  # git's
        self.sha256 = hashlib.sha256(content).hexdigest() if large else None

    def lfs(self, name: str) -> dict:
        """Describe a large file; `name` is what its hash is called there."""
        about = {name: self.sha256, "size": self.size, "pointerSize": 134}
        return {"lfs": about} if self.sha256 else {}


@dataclass
class Repository:
    """Commits (the files by name), and the commits of branches and tags."""

    private: bool = False
    gated: bool = False
    commits: dict[str, dict[str, File]] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)

    def commit(self, files: dict[str, File], ref: str = "main") -> str:
        """Make files the newest commit of a branch or tag, and return its id."""
        content = [len(self.commits), *sorted((name, file.oid) for name, file in files.items())]
        self.refs[ref] = hashlib.sha1(json.dumps(content).encode()).hexdigest()
        self.commits[self.refs[ref]] = files
        return self.refs[ref]


class LocalHub:
    """The hub; it answers within `with`.

    Attributes:
        endpoint: the value for HF_ENDPOINT.
        repositories: by name, "org/name".
        data_sets: the names of repositories that are data sets.
        moved: the new name of each old one.
        tokens: whether each token may write, and read what is private or gated.
        faults: by a part of an address.
        requests: all requests so far.
        rewrite: changes answers in JSON, and the headers of files as JSON, from "headers of " and
            the address: from the address and the text to the text.
    """

    def __init__(self):
        self.repositories: dict[str, Repository] = {}
        self.data_sets: set[str] = set()
        self.moved: dict[str, str] = {}
        self.tokens = {"hf_owner": True, "hf_stranger": False}
        self.faults: dict[str, Fault] = {}
        self.requests: list[Request] = []
        self.rewrite: Callable[[str, str], str] = lambda path, text: text
        self.uploads: dict[str, bytes] = {}  # large files that no commit may have yet
        self.closing = threading.Event()
        from helpers.hub_protocol import Handler

        self._servers = [ThreadingHTTPServer(("127.0.0.1", 0), Handler) for _ in range(2)]
        self.endpoint, self.cdn = (f"http://127.0.0.1:{s.server_port}" for s in self._servers)

    def __enter__(self):
        for server in self._servers:
            server.hub = self
            threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        return self

    def __exit__(self, *_):
        self.closing.set()
        for server in self._servers:
            server.shutdown()
            server.socket.close()  # threads that wait for a request end with the process

    def add(self, name: str, folder: Path, *, ref: str = "main", **options) -> str:
        """Make a folder the newest commit of a repository; `options` are a new `Repository`'s."""
        paths = {path.relative_to(folder).as_posix(): path for path in Path(folder).rglob("*")}
        files = {
            name: File(path.read_bytes(), large=name.endswith(LARGE))
            for name, path in paths.items()
            if path.is_file()
        }
        return self.repositories.setdefault(name, Repository(**options)).commit(files, ref)

    def sent(self) -> dict[str, int]:
        """Count the bytes that were sent of each file."""
        counts: Counter = Counter()
        for request in self.requests:
            if request.sent:
                counts[request.file] += request.sent
        return dict(counts)

    def strike(self, path: str, content: bool) -> Fault:
        """Return the fault of the next answer: of a file's content, or of any request."""
        for part, fault in self.faults.items():
            of_content = not (fault.status or fault.silent)
            if part in path and fault.times != 0 and of_content == content:
                fault.times = fault.times and fault.times - 1
                return fault
        return Fault()


if __name__ == "__main__":
    with LocalHub() as hub:
        for folder in Path(sys.argv[1]).glob("*/*"):
            hub.add(folder.relative_to(sys.argv[1]).as_posix(), folder)
        print(hub.endpoint, flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()
