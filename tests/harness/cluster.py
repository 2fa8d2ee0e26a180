"""A running ``headgate up`` and its kubeconfig, spoken to with nothing but the standard library."""

from __future__ import annotations

import base64
import json
import signal
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from harness.embedded_server import HEADGATE


class Cluster:
    def __init__(self, data: Path, *flags: str, program: Sequence[str] = (str(HEADGATE),)) -> None:
        self.data = data
        command = [*program, "up", "--data", str(data), "--listen", "127.0.0.1:0", *flags]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.printed = self._read_until_ready()
        config = yaml.safe_load((data / "kubeconfig").read_text())
        cluster = config["clusters"][0]["cluster"]
        self.url: str = cluster["server"]
        self.token: str = config["users"][0]["user"]["token"]
        (data / "seen-ca.crt").write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
        self._tls = ssl.create_default_context(cafile=str(data / "seen-ca.crt"))

    def _read_until_ready(self) -> list[str]:
        lines: list[str] = []
        assert self.process.stdout is not None
        for line in self.process.stdout:
            lines.append(line.rstrip("\n"))
            if lines[-1] == "ready":
                return lines
        raise AssertionError(f"it never became ready: {lines} {self.process.stderr and self.process.stderr.read()}")

    def ask(self, method: str, path: str, body: Any = None, token: str | None = None) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {token or self.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, context=self._tls, timeout=60) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, json.loads(refused.read())

    def text(self, path: str) -> tuple[int, str]:
        """The answer to a GET as it is."""
        request = urllib.request.Request(self.url + path, headers={"Authorization": f"Bearer {self.token}"})
        try:
            with urllib.request.urlopen(request, context=self._tls, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, refused.read().decode()

    def stop(self, number: int = signal.SIGINT) -> tuple[int, str, str]:
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *failure: object) -> None:
        if self.process.poll() is None:
            self.stop(signal.SIGKILL)
