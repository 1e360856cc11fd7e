"""A headless Firefox, driven by WebDriver BiDi over a WebSocket, without another package."""

import base64
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import time
from pathlib import Path

_READY = re.compile(r"WebDriver BiDi listening on ws://([\d.]+):(\d+)")


def find_firefox() -> str | None:
    """Return the path of Debian's Firefox, or of another one."""
    return shutil.which("firefox-esr") or shutil.which("firefox")


class WebSocket:
    """As much of RFC 6455 as a client of BiDi needs: texts, masked on their way out."""

    def __init__(self, host: str, port: int, path: str):
        self.socket = socket.create_connection((host, port), timeout=30)
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [
            *(f"GET {path} HTTP/1.1", f"Host: {host}:{port}", "Connection: Upgrade"),
            *("Upgrade: websocket", "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {key}"),
        ]
        self.socket.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        self.stream = self.socket.makefile("rb")
        assert b" 101 " in self.stream.readline()
        while self.stream.readline().strip():
            pass

    def close(self) -> None:
        self.stream.close()
        self.socket.close()

    def send(self, text: str) -> None:
        payload, mask = text.encode(), os.urandom(4)
        size = len(payload)
        if size < 126:
            head = bytes([0x81, 0x80 | size])
        elif size < 1 << 16:
            head = bytes([0x81, 0x80 | 126]) + struct.pack(">H", size)
        else:
            head = bytes([0x81, 0x80 | 127]) + struct.pack(">Q", size)
        masked = bytes(byte ^ mask[place % 4] for place, byte in enumerate(payload))
        self.socket.sendall(head + mask + masked)

    def receive(self) -> str:
        text = b""
        while True:
            first, size = self.stream.read(2)
            if size == 126:
                (size,) = struct.unpack(">H", self.stream.read(2))
            elif size == 127:
                (size,) = struct.unpack(">Q", self.stream.read(8))
            payload = self.stream.read(size)
            if first & 0x0F in (0, 1):  # a text, or more of it
                text += payload
                if first & 0x80:
                    return text.decode()


class Firefox:
    """One window; `messages` are the lines of its console, and errors of its scripts."""

    def __init__(self, profile: Path):
        command = [find_firefox(), "--headless", "--remote-debugging-port=0", "--no-remote"]
        told = profile / "stderr.txt"
        with told.open("wb") as stderr:
            self.process = subprocess.Popen([*command, "--profile", str(profile)], stderr=stderr)
        deadline = time.monotonic() + 60
        ready = None
        while ready is None:
            assert time.monotonic() < deadline and self.process.poll() is None, told.read_text()
            time.sleep(0.1)
            ready = _READY.search(told.read_text(encoding="utf-8"))
        self.web_socket = WebSocket(ready[1], int(ready[2]), "/session")
        self.number = 0
        self.messages: list[str] = []
        self.command("session.new", capabilities={})
        self.command("session.subscribe", events=["log.entryAdded"])
        tree = self.command("browsingContext.getTree")
        self.context = tree["contexts"][0]["context"]

    def close(self) -> None:
        self.web_socket.close()
        self.process.terminate()
        self.process.wait(30)

    def command(self, method: str, **params) -> dict:
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        self.web_socket.send(json.dumps(message))
        while True:
            answer = json.loads(self.web_socket.receive())
            if answer.get("method") == "log.entryAdded":
                self.messages.append(answer["params"]["text"])
            elif answer.get("id") == self.number:
                assert answer["type"] == "success", answer
                return answer["result"]

    def open(self, path: Path, fragment: str = "", *, width: int = 1280, height: int = 860) -> None:
        size = {"width": width, "height": height}
        self.command("browsingContext.setViewport", context=self.context, viewport=size)
        for url in ("about:blank", f"{path.as_uri()}{fragment}"):
            self.command("browsingContext.navigate", context=self.context, url=url, wait="complete")

    def evaluate(self, expression: str):
        """Return an expression's value, of what JSON can hold; a promise is waited for."""
        result = self.command(
            "script.evaluate",
            expression=f"(async () => JSON.stringify((await ({expression})) ?? null))()",
            target={"context": self.context},
            awaitPromise=True,
        )
        assert result["type"] == "success", result
        return json.loads(result["result"]["value"])

    def click(self, selector: str) -> None:
        middle = f"""(() => {{
          const box = document.querySelector({json.dumps(selector)}).getBoundingClientRect();
          return [Math.round(box.left + box.width / 2), Math.round(box.top + box.height / 2)];
        }})()"""
        x, y = self.evaluate(middle)
        moves = [
            {"type": "pointerMove", "x": x, "y": y},
            {"type": "pointerDown", "button": 0},
            {"type": "pointerUp", "button": 0},
        ]
        self._act({"type": "pointer", "id": "mouse", "actions": moves})

    def press(self, key: str) -> None:
        """Press a key, by its character: Escape is U+E00C, as WebDriver writes it."""
        strokes = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        self._act({"type": "key", "id": "keyboard", "actions": strokes})

    def _act(self, source: dict) -> None:
        self.command("input.performActions", context=self.context, actions=[source])

    def screenshot(self, path: Path) -> None:
        picture = self.command("browsingContext.captureScreenshot", context=self.context)
        path.write_bytes(base64.b64decode(picture["data"]))
