"""Debian's Chromium without a driver program: the DevTools protocol over two pipes.

A test sees what a user sees: it opens pages, types keys and reads texts. The browser reports messages of the console,
exceptions, violations of the content security policy and every request. `HEADGATE_CHROMIUM` names another program.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.orphans import marked

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe"),
    *("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-default-apps", "--hide-scrollbars", "--force-color-profile=srgb", "--disable-extensions"),
)
TIMEOUT_S = 30.0
_START = """
import fcntl, os, sys
commands, events = (fcntl.fcntl(int(each), fcntl.F_DUPFD, 10) for each in sys.argv[1:3])
os.dup2(commands, 3)
os.dup2(events, 4)
os.execvp(sys.argv[3], sys.argv[3:])
"""
"""The browser reads commands from the file descriptor 3, and writes events to 4."""
KEYS = {"Enter": 13, "Escape": 27, "Tab": 9, "ArrowDown": 40, "ArrowUp": 38, "End": 35, "Home": 36}


HOW_TO_GET_CHROMIUM = "run `make chromium`, or name it in HEADGATE_CHROMIUM"


def chromium_program() -> Path | None:
    """None if there is none."""
    named = os.environ.get("HEADGATE_CHROMIUM", "")
    found = named or next((found for each in PROGRAMS if (found := shutil.which(each))), "")
    return Path(found) if found else None


class Browser:
    """One window. ``problems``: errors of the console, exceptions and violations; ``requests``: their addresses."""

    def __init__(self, folder: Path, program: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        commands_out, self._commands = os.pipe()
        self._events, events_in = os.pipe()
        self.problems: list[str] = []
        self.requests: list[str] = []
        self._buffer = b""
        self._answers: dict[int, dict[str, Any]] = {}
        self._next = 0
        self._session = ""
        log = (folder / "chromium.log").open("wb")
        self._process = subprocess.Popen(
            [
                sys.executable,
                *("-I", "-S", "-c", _START, str(commands_out), str(events_in)),
                str(program),
                *ARGUMENTS,
                f"--user-data-dir={folder / 'profile'}",
                "about:blank",
            ],
            pass_fds=(commands_out, events_in),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            env=marked({**os.environ, "HOME": str(folder)}),
        )
        log.close()
        os.close(commands_out)
        os.close(events_in)
        try:
            self._attach()
        except BaseException:
            self.close()
            raise

    def _attach(self) -> None:
        target = self.command("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.command("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.command(f"{domain}.enable")
        script = "addEventListener('securitypolicyviolation', e => console.error('CSP: ' + e.violatedDirective));"
        self.command("Page.addScriptToEvaluateOnNewDocument", source=script)
        self.command("Emulation.setFocusEmulationEnabled", enabled=True)  # other windows do not take the focus away
        self.resize(1280, 800)

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._commands)
        os.close(self._events)

    # -- what a user does ------------------------------------------------------------------------------------------

    def open(self, address: str) -> None:
        self.command("Page.navigate", url=address)

    def resize(self, width: int, height: int) -> None:
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )

    def prefer(self, scheme: str) -> None:
        """``light`` or ``dark``."""
        features = [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self.command("Emulation.setEmulatedMedia", features=features)

    def press(self, *keys: str) -> None:
        for key in keys:
            code = KEYS.get(key, ord(key.upper()) if len(key) == 1 and key.isalnum() else 0)
            text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
            fields = {"key": key, "windowsVirtualKeyCode": code, **({"text": text} if text else {})}
            self.command("Input.dispatchKeyEvent", type="keyDown", **fields)
            self.command("Input.dispatchKeyEvent", type="keyUp", **fields)

    def write(self, text: str) -> None:
        self.command("Input.insertText", text=text)

    # -- what a user sees ------------------------------------------------------------------------------------------

    def evaluate(self, script: str) -> Any:
        found = self.command("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise AssertionError(f"{script}: {found['exceptionDetails']}")
        return found["result"].get("value")

    def text(self, selector: str = "body") -> str:
        return str(self.evaluate(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def wait_for(self, script: str, timeout_s: float = TIMEOUT_S) -> float:
        """Until the script returns something true. Returns how long that took."""
        began_s = time.monotonic()
        while not self.evaluate(script):
            if time.monotonic() - began_s > timeout_s:
                raise AssertionError(f"not true after {timeout_s} s: {script}\n{self.text()[:2000]}\n{self.problems}")
            time.sleep(0.02)
        return time.monotonic() - began_s

    def wait_for_text(self, text: str, selector: str = "body", timeout_s: float = TIMEOUT_S) -> float:
        found = f"document.querySelector({json.dumps(selector)})?.innerText.includes({json.dumps(text)})"
        return self.wait_for(found, timeout_s)

    def screenshot(self, path: Path) -> None:
        found = self.command("Page.captureScreenshot", format="png")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(found["data"]))

    # -- the protocol ----------------------------------------------------------------------------------------------

    def command(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._next += 1
        number = self._next
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        self._read_until(lambda: number in self._answers)
        answer = self._answers.pop(number)
        if "error" in answer:
            raise AssertionError(f"{method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result

    def _read_until(self, done: Callable[[], bool]) -> None:
        ends_s = time.monotonic() + TIMEOUT_S
        while not done():
            if not select.select([self._events], [], [], max(0.0, ends_s - time.monotonic()))[0]:
                raise AssertionError("the browser does not answer")
            part = os.read(self._events, 1 << 20)
            if not part:
                raise AssertionError("the browser has ended")
            *messages, self._buffer = (self._buffer + part).split(b"\0")
            for each in messages:
                self._take(json.loads(each))

    def _take(self, message: dict[str, Any]) -> None:
        if "id" in message:
            self._answers[message["id"]] = message
            return
        given = message.get("params", {})
        match message.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(given["request"]["url"])
            case "Runtime.exceptionThrown":
                details = given["exceptionDetails"]
                self.problems.append(str(details.get("exception", {}).get("description", details.get("text"))))
            case "Runtime.consoleAPICalled" if given["type"] in ("error", "warning"):
                self.problems.append(" ".join(str(each.get("value", "")) for each in given["args"]))
            case "Log.entryAdded" if given["entry"]["level"] == "error":
                self.problems.append(f"{given['entry']['text']} {given['entry'].get('url', '')}")
