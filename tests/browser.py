"""A headless Chromium, driven over a pipe with the DevTools protocol: no library, no network."""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

_FLAGS = (
    "--headless --no-sandbox --disable-gpu --no-first-run --disable-extensions "
    "--disable-background-networking --disable-component-update --hide-scrollbars "
    "--remote-debugging-pipe"
)
_PATIENCE = 30


def chromium() -> str | None:
    """The browser of this machine, if there is one."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Browser:
    """One page of a browser; what it logs and which errors it has are kept."""

    def __init__(self, profile: Path) -> None:
        read, self._out = os.pipe()
        self._in, write = os.pipe()
        command = f'exec {chromium()} {_FLAGS} "--user-data-dir={profile}" 3<&{read} 4>&{write}'
        self._process = subprocess.Popen(
            ["bash", "-c", command],  # other shells know no descriptor above 9
            pass_fds=(read, write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read)
        os.close(write)
        self._numbers = itertools.count(1)
        self._buffer = b""
        self.problems: list[str] = []
        self.requests: list[str] = []
        self._loaded = False
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(_PATIENCE)
        os.close(self._in)
        os.close(self._out)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]

    def open(self, path: Path, *, width: int = 1100, height: int = 900, dark: bool = False) -> None:
        """Show a file, at a size and in a colour scheme."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self._loaded = False
        self.call("Page.navigate", url=path.resolve().as_uri())
        while not self._loaded:
            self._next()

    def run(self, script: str) -> Any:
        """The value of an expression."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def point_at(self, x: float, y: float, *, click: bool = False) -> None:
        """Move the mouse, and click."""
        kinds = ["mouseMoved", *(["mousePressed", "mouseReleased"] if click else [])]
        for kind in kinds:
            options = {"button": "left", "clickCount": 1} if kind != "mouseMoved" else {}
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **options)

    def screenshot(self, to: Path) -> None:
        """The whole page as a PNG."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        to.write_bytes(base64.b64decode(shot["data"]))

    def _next(self) -> dict[str, Any]:
        """The next message; what tells of a problem is noted."""
        until = time.monotonic() + _PATIENCE
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(0, until - time.monotonic()))
            assert ready, "the browser does not answer"
            got = os.read(self._in, 1 << 16)
            assert got, "the browser has gone"
            self._buffer += got
        text, self._buffer = self._buffer.split(b"\0", 1)
        message = json.loads(text)
        method, about = message.get("method"), message.get("params", {})
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Runtime.exceptionThrown":
            self.problems.append(str(about["exceptionDetails"]))
        elif method == "Log.entryAdded" or (
            method == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning")
        ):
            self.problems.append(str(about))
        elif method == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])
        return message
