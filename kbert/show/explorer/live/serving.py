"""A page behind which kbert computes: a server on the loopback address, for one user.

GET / is the page, POST /trace takes a request as JSON and answers with a trace: the length of a
header in four bytes, the header as JSON, blanks up to a multiple of four, and the tensors' numbers
as float32 (all little-endian). Errors are one line of text.

A page of another site may not use it: a name that is made to mean 127.0.0.1 (DNS rebinding) is
refused by the Host header, and a request of another page by its Origin and type of content.
"""

import json
import logging
import select
import socket
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

from kbert.io import json_schema as js
from kbert.io import printable
from kbert.show.explorer.live.recording import LEVELS, keep_tensors, write_header
from kbert.show.explorer.live.tracing import REQUEST, Trace, Tracer

ADDRESS = "127.0.0.1"
LARGEST = 1 << 16  # bytes of a request: 512 tokens have some 3,000 characters
_PATIENCE_S = 30  # for the rest of a request
_ALIGNMENT = 4  # bytes: where a Float32Array may begin

_logger = logging.getLogger("kbert")


class Server(ThreadingHTTPServer):
    """A server of one page on a free port of the loopback address; `serve_forever` runs it."""

    daemon_threads = True  # a request that is computed does not keep the command from ending
    block_on_close = False

    def __init__(self, page: str, tracer: Tracer):
        super().__init__((ADDRESS, 0), _Handler)
        self.page = page.encode()
        self.tracer = tracer
        self.turn = threading.Lock()  # one computation at a time: it uses all cores

    @property
    def url(self) -> str:
        """The page's address."""
        return f"http://{ADDRESS}:{self.server_port}/"

    @property
    def hosts(self) -> tuple[str, str]:
        """The values of the Host header that mean this server."""
        return f"{ADDRESS}:{self.server_port}", f"localhost:{self.server_port}"

    def handle_error(self, request, client_address) -> None:
        """Say nothing of a connection that broke off: a page that was closed, or typed on."""


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "kbert", ""
    timeout = _PATIENCE_S

    def do_GET(self) -> None:
        if not self._comes_from_here():
            return
        if self.path == "/favicon.ico":  # browsers ask, and write a 404 to the console
            self._send(HTTPStatus.OK, "image/x-icon", b"")
            return
        if self.path.partition("?")[0] != "/":
            self.send_error(HTTPStatus.NOT_FOUND, f"no page at {self.path}: see {self.server.url}")
            return
        self._send(HTTPStatus.OK, "text/html; charset=utf-8", self.server.page)

    def do_POST(self) -> None:
        if not self._comes_from_here():
            return
        if self.path != "/trace":
            self.send_error(HTTPStatus.NOT_FOUND, f"a request goes to /trace, got {self.path}")
            return

        body = self._read_body()
        if body is None:
            return

        try:
            request = js.parse(body, REQUEST, "the request")
            with self.server.turn:
                if self._is_gone():
                    return
                trace = self.server.tracer.trace(request)
        except ValueError as error:
            self.send_error(HTTPStatus.BAD_REQUEST, str(error))
        except Exception as error:
            _logger.warning("a request failed: %s: %s", type(error).__name__, error)
            self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR, "the computation failed")
        else:
            self._send(HTTPStatus.OK, "application/octet-stream", pack_trace(trace))

    def _comes_from_here(self) -> bool:
        """Return whether a request is of this page or its user; answer it if not."""
        host = self.headers.get("Host", "")
        if host not in self.server.hosts:
            self.send_error(HTTPStatus.FORBIDDEN, f"the host must be {ADDRESS}, got {host}")
            return False
        origin = self.headers.get("Origin")
        if origin is not None and origin not in [f"http://{name}" for name in self.server.hosts]:
            self.send_error(HTTPStatus.FORBIDDEN, f"a page of another origin asks: {origin}")
            return False
        return True

    def _read_body(self) -> bytes | None:
        """Return a request's body; answer what has none, another type, or is too large."""
        media_type = self.headers.get("Content-Type", "")
        kind = media_type.partition(";")[0].strip()
        length = self.headers.get("Content-Length", "")
        if kind != "application/json":
            status, text = HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "a request must be application/json"
        elif not (length.isascii() and length.isdecimal()):
            status, text = HTTPStatus.LENGTH_REQUIRED, "a request must have a Content-Length"
        elif len(length) > 9 or int(length) > LARGEST:
            status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
            text = f"a request must have at most {LARGEST:,} bytes"
        else:
            return self.rfile.read(int(length))
        self.send_error(status, text)
        return None

    def _is_gone(self) -> bool:
        """Return whether the page has closed the connection: it has typed on meanwhile."""
        readable, _, _ = select.select([self.connection], [], [], 0)
        return bool(readable) and not self.connection.recv(1, socket.MSG_PEEK)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer with one line of text; the body of the request is not read further."""
        status = HTTPStatus(code)
        if status == HTTPStatus.NOT_IMPLEMENTED:  # a method without a function here
            status, message = HTTPStatus.METHOD_NOT_ALLOWED, "only GET and POST are answered"
        self.close_connection = True
        text = printable.line(message or status.phrase)
        self._send(status, "text/plain; charset=utf-8", f"{text}\n".encode())

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Content-Security-Policy", "frame-ancestors 'self'")
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, POST")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format, *args) -> None:
        """Print no line per request."""


def pack_trace(trace: Trace) -> bytes:
    """Return a trace as the module's docstring describes it."""
    stored = keep_tensors(trace.tensors, LEVELS[0])
    text = json.dumps(write_header(trace, stored), ensure_ascii=False, allow_nan=False)
    header = text.encode()
    missing = -len(header) % _ALIGNMENT
    header += b" " * missing

    chunks = [len(header).to_bytes(4, "little"), header]
    for tensor in stored.values():
        numbers = np.ascontiguousarray(tensor, "<f4")
        chunks.append(numbers.tobytes())
    return b"".join(chunks)
