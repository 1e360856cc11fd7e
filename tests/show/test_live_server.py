"""`kbert explore --serve`: a page on the loopback address, behind which kbert computes."""

import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.request

import numpy as np
import pytest
from helpers.errors import check_logged
from helpers.small_berts import small_bert
from numpy.testing import assert_allclose

import kbert
from kbert.show.explorer.explore import explore_served
from kbert.show.explorer.live.recording import complete_tensors
from kbert.show.explorer.live.serving import LARGEST, Server

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def folder(small, tmp_path_factory):
    path = tmp_path_factory.mktemp("served") / "model"
    kbert.save(small_bert(small, "encoder"), path)
    return path


@pytest.fixture(scope="module")
def server(folder):
    page, tracer = explore_served(folder, ["the dog sees it"])
    with Server(page.html, tracer) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ask(server, method="POST", path="/trace", body=None, **headers) -> tuple[int, bytes]:
    """The status and the body of an answer; names of headers have underscores."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body, named)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, content


def trace_of(content: bytes) -> tuple[dict, dict[str, np.ndarray]]:
    length = int.from_bytes(content[:4], "little")
    header = json.loads(content[4 : 4 + length])
    numbers, tensors, start = np.frombuffer(content[4 + length :], "<f4"), {}, 0
    for name, shape in header["tensors"]:
        size = int(np.prod(shape))
        tensors[name] = numbers[start : start + size].reshape(shape)
        start += size
    assert start == len(numbers)
    return header, tensors


def test_page_and_traces_are_served(server):
    with urllib.request.urlopen(server.url) as answer:
        page = answer.read().decode()
        assert answer.headers["Content-Security-Policy"] == "frame-ancestors 'self'"
    assert '"place":"served"' in page and "PLACES.served =" in page
    request = {"text": "the dog", "off": {"heads": [[2, 3]]}, "temperature": 2}
    status, content = ask(server, body=json.dumps(request), Content_Type="application/json")
    header, kept = trace_of(content)
    expected = server.tracer.trace(request)
    assert status == 200 and header["tokens"] == expected.tokens
    from kbert.show.explorer.live.tracing import read_changes

    config = server.tracer.model.spec.config
    found = complete_tensors(config, kept, read_changes(config, header["request"]))
    assert found.keys() == expected.tensors.keys()
    for name, tensor in expected.tensors.items():
        assert_allclose(found[name], tensor, atol=1e-5, err_msg=name)


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status", "said"),
    [
        ("GET", "/", None, {"Host": "kbert.example"}, 403, "kbert.example"),
        ("GET", "/", None, {"Host": "127.0.0.1"}, 403, "host"),
        ("POST", "/trace", "{}", JSON | {"Host": "evil.example:80"}, 403, "evil.example"),
        ("POST", "/trace", "{}", JSON | {"Origin": "https://evil.example"}, 403, "evil.example"),
        ("POST", "/trace", "{}", JSON | {"Origin": "null"}, 403, "null"),
        ("GET", "/etc/passwd", None, {}, 404, "/etc/passwd"),
        ("POST", "/", "{}", JSON, 404, "/trace"),
        ("PUT", "/trace", "{}", JSON, 405, "GET and POST"),
        ("DELETE", "/", None, {}, 405, "GET and POST"),
        ("OPTIONS", "/trace", None, {}, 405, "GET and POST"),
        ("POST", "/trace", "{}", {"Content-Type": "text/plain"}, 415, "application/json"),
        ("POST", "/trace", "x" * (LARGEST + 1), JSON, 413, "65,536"),
        ("POST", "/trace", "{", JSON, 400, "JSON"),
        ("POST", "/trace", b"\xff", JSON, 400, "UTF-8"),
        ("POST", "/trace", "[]", JSON, 400, "JSON object"),
        ("POST", "/trace", "{}", JSON, 400, "text"),
        ("POST", "/trace", '{"text": "a", "temperature": NaN}', JSON, 400, ""),
        ("POST", "/trace", '{"text": "\\ud800"}', JSON, 400, "surrogate"),
        ("POST", "/trace", '{"text": "a", "off": {"heads": [[9, 1]]}}', JSON, 400, "block"),
    ],
)
def test_other_requests_are_refused_with_one_line(
    server, capfd, method, path, body, headers, status, said
):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    content = answer.read().decode()
    connection.close()
    assert answer.status == status and said in content
    assert content.count("\n") == 1 and answer.getheader("Content-Type").startswith("text/plain")
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("length", ["-1", "many", "1e3", "9" * 40])
def test_bad_lengths_are_refused(server, length):
    lines = ["POST /trace HTTP/1.1", f"Host: 127.0.0.1:{server.server_port}"]
    lines += ["Content-Type: application/json", f"Content-Length: {length}", "", ""]
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=30) as connection:
        connection.sendall("\r\n".join(lines).encode())
        assert connection.recv(4096).split()[1] in (b"411", b"413")


def test_server_is_on_the_loopback_address_alone(server):
    assert server.server_address[0] == "127.0.0.1" and server.url.startswith("http://127.0.0.1:")


def test_requests_at_once_each_get_their_own_trace(server):
    texts = [f"the {'dog ' * n}sees it" for n in range(1, 9)]
    found: dict[str, list] = {}

    def run(text: str) -> None:
        status, content = ask(
            server, body=json.dumps({"text": text}), **{"Content_Type": JSON["Content-Type"]}
        )
        found[text] = [status, *trace_of(content)]

    threads = [threading.Thread(target=run, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for text in texts:
        expected = server.tracer.trace({"text": text})
        status, header, tensors = found[text]
        assert status == 200 and header["request"]["text"] == text
        name = "Encoder-3-FeedForward-Norm"
        assert_allclose(tensors[name], expected.tensors[name], atol=1e-6)


def test_failed_computation_is_one_line(server, monkeypatch, messages):
    def fail(request):
        raise RuntimeError("out of\nmemory")

    monkeypatch.setattr(server.tracer, "trace", fail)
    status, content = ask(server, body='{"text": "a"}', Content_Type="application/json")
    assert status == 500 and content.count(b"\n") == 1 and b"Traceback" not in content
    check_logged(messages, "RuntimeError")


@pytest.mark.full
def test_ctrl_c_ends_the_command_with_one_line(folder):
    command = [sys.executable, "-m", "kbert", "explore", str(folder), "--serve"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        line = process.stdout.readline()
        (url,) = re.findall(r"http://127\.0\.0\.1:\d+/", line)
        with urllib.request.urlopen(url) as answer:
            assert answer.status == 200
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0 and out.count("\n") == 1 and "Traceback" not in err


@pytest.mark.full
def test_page_of_the_server_types_and_the_newest_request_wins(server, browser):
    from kbert.show.explorer.writing import live_scripts

    live = {"place": "served", "config": {"L": 3, "activation": "gelu"}}
    script = f"{''.join(live_scripts(live))}; const live = {json.dumps(live)};"
    server.page = f"<!doctype html><script>{script}</script>".encode()
    page = browser.new_page()
    page.goto(server.url)
    found = page.evaluate(
        """async () => {
          const model = await openModel(live);
          const text = (n) => ({ text: "the " + "dog ".repeat(n), pair: null });
          const all = await Promise.allSettled([1, 2, 3].map((n) => model.run(text(n))));
          const refused = await model.run({ text: "[PAD]" }).catch((error) => error.message);
          const last = all[2].value;
          return [model.canType, all.map(({ status }) => status), last.tokens.length,
            [...last.tensors.get("Encoder-3-FeedForward-Norm").data], refused];
        }"""
    )
    page.close()
    can_type, statuses, length, numbers, refused = found
    expected = server.tracer.trace({"text": "the dog dog dog "})
    assert can_type and statuses == ["rejected", "rejected", "fulfilled"] and length == 6
    assert_allclose(numbers, expected.tensors["Encoder-3-FeedForward-Norm"].ravel(), atol=1e-6)
    assert "padding token" in refused
