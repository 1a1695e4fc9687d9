"""Headless Chromium for tests of pages: opened, driven by keys and script, asked what it did. Over a pair of pipes,
as the browser's own protocol offers it; nothing listens on a port, and the browser reaches this machine alone."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATIENCE_SECONDS = 30.0
SWITCHES = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-extensions"),
    *("--no-first-run", "--disable-sync", "--hide-scrollbars", "--remote-debugging-pipe"),
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


class Chromium:
    """One browser with one page. ``requests``: the URL of everything it asked for; ``complaints``: what its console and
    its security policy said."""

    def __init__(self, profile: Path, width: int = 1400, height: int = 860) -> None:
        assert BROWSER is not None, "there is no Chromium: install the system's package chromium"
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self._received = b""
        self._last_id = 0
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        command = [BROWSER, *SWITCHES, f"--window-size={width},{height}", f"--user-data-dir={profile}", "about:blank"]

        def lay_pipes() -> None:  # the protocol's place: 3 to read from, 4 to write to
            kept_in, kept_out = os.dup(theirs_in), os.dup(theirs_out)
            os.dup2(kept_in, 3)
            os.dup2(kept_out, 4)

        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,
            preexec_fn=lay_pipes,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        target = self._call("Target.getTargets")["targetInfos"][0]["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def open(self, url: str) -> None:
        """Go there and wait until it has loaded."""
        self.call("Page.navigate", url=url)
        self.wait_for("document.readyState === 'complete'")

    def evaluate(self, script: str) -> Any:
        """The value of an expression on the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, script: str) -> None:
        """Until an expression is true."""
        until = time.monotonic() + PATIENCE_SECONDS
        while not self.evaluate(script):
            assert time.monotonic() < until, f"never true: {script}; {self.complaints}"
            time.sleep(0.03)

    def press(self, key: str, text: str = "") -> None:
        """A key as a person presses it; ``text`` is what it types."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, **({"text": text} if text else {}))

    def point(self, x: float, y: float, click: bool = False) -> None:
        """Move the mouse there, and click."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased") if click else ():
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def picture(self) -> bytes:
        """What is seen, as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot")["data"])

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One call of the protocol, to the page."""
        return self._call(method, session=self._session, **parameters)

    def _call(self, method: str, session: str = "", **parameters: Any) -> dict[str, Any]:
        self._last_id += 1
        wanted = self._last_id
        message = {"id": wanted, "method": method, "params": parameters, **({"sessionId": session} if session else {})}
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == wanted:
                assert "error" not in answer, f"{method}: {answer['error']}"
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer.get("method", ""), answer.get("params", {}))

    def _receive(self) -> dict[str, Any]:
        until = time.monotonic() + PATIENCE_SECONDS
        while b"\0" not in self._received:
            left = until - time.monotonic()
            assert left > 0 and select.select([self._in], [], [], left)[0], "the browser does not answer"
            data = os.read(self._in, 1 << 20)
            assert data, "the browser has ended"
            self._received += data
        line, _, self._received = self._received.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message

    def _note(self, method: str, parameters: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Log.entryAdded":
            self.complaints.append(parameters["entry"]["text"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(parameters["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled":
            self.complaints.append(json.dumps(parameters["args"]))

    def __enter__(self) -> Chromium:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self._out)
        os.close(self._in)
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
