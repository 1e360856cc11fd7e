"""What `helpers.local_hub` holds: repositories and their files, the requests that came, faults."""

import hashlib
import json
import re
from dataclasses import dataclass, field
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
        found = re.fullmatch(r"/.+/resolve/[^/]+/(.+)|/cdn/\w+/(.+)", urlsplit(self.path).path)
        return unquote(found[1] or found[2]) if found and self.method == "GET" else None


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
