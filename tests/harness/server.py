"""One running API server, real or embedded: an address, a token, a certificate and a kubeconfig.

`request` keeps one connection open per thread; `watch` opens its own connection. This module does not know which of the
two servers it talks to and does not interpret responses: `normalise.py` and `compare.py` do.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import socket
import ssl
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from harness.orphans import marked

http.client._MAXHEADERS = 10_000  # type: ignore[attr-defined]  # an answer may have more than a hundred warnings
JSON_TYPE = {"Content-Type": "application/json"}
REQUEST_TIMEOUT_S = 60.0
KUBECTL_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Answer:
    """A whole HTTP answer. Header names are in lower case; a name may occur more than once."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name.lower()), None)


@dataclass(frozen=True)
class Result:
    """What a finished command left behind."""

    exit: int
    stdout: str
    stderr: str


class Watch:
    """An open watch; `lines` reads until so many events came or the server ended the stream."""

    def __init__(self, connection: http.client.HTTPSConnection, response: http.client.HTTPResponse) -> None:
        self._connection = connection
        self._response = response
        self.status = response.status
        self.headers = _headers_of(response)

    def lines(self, count: int | None = None) -> list[bytes]:
        seen: list[bytes] = []
        while count is None or len(seen) < count:
            try:
                line = self._response.readline()
            except TimeoutError:
                seen.append(b"(no further event arrived in time)")
                break
            if not line:
                break
            if line.strip():
                seen.append(line)
        return seen

    def close(self) -> None:
        self._connection.close()


def _headers_of(response: http.client.HTTPResponse) -> tuple[tuple[str, str], ...]:
    return tuple((name.lower(), value) for name, value in response.getheaders())


class Server:
    """`name` is what the reader of a failure sees: "real" or "embedded"."""

    account_key: Path
    """The file with the key that signs the tokens of service accounts."""

    def __init__(self, name: str, kubeconfig: Path, kubectl_binary: Path | None, home: Path) -> None:
        self.name = name
        self.kubeconfig = kubeconfig
        self._kubectl_binary = kubectl_binary
        self._home = home
        home.mkdir(parents=True, exist_ok=True)
        config = yaml.safe_load(kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        self.url: str = cluster["server"]
        self.token: str = config["users"][0]["user"]["token"]
        self.ca = _certificate_of(cluster, home)
        address = urlsplit(self.url)
        self._host, self._port = address.hostname or "127.0.0.1", address.port or 443
        self._tls = ssl.create_default_context(cafile=str(self.ca))
        self._local = threading.local()
        self._open: set[http.client.HTTPSConnection] = set()

    def disconnect(self) -> None:
        for connection in self._open:
            connection.close()
        self._open.clear()

    @property
    def address(self) -> str:
        return f"{self._host}:{self._port}"

    def connect(
        self, timeout_s: float = REQUEST_TIMEOUT_S, certificate: Path | None = None
    ) -> http.client.HTTPSConnection:
        """`certificate` is a file with a client's certificate and key."""
        tls = self._tls
        if certificate is not None:
            tls = ssl.create_default_context(cafile=str(self.ca))
            tls.load_cert_chain(certificate)
        return http.client.HTTPSConnection(self._host, self._port, timeout=timeout_s, context=tls)

    def say(self, text: bytes, timeout_s: float = 10.0) -> bytes:
        """What the server says to these bytes, until it closes the connection or falls silent."""
        with (
            socket.create_connection((self._host, self._port), timeout_s) as plain,
            self._tls.wrap_socket(plain, server_hostname=self._host) as line,
        ):
            line.sendall(text)
            heard = b""
            try:
                while part := line.recv(65536):
                    heard += part
            except (TimeoutError, OSError):
                pass
            return heard

    def request(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> Answer:
        sent = self._with_token(headers)
        fresh = getattr(self._local, "connection", None) is None
        try:
            return self._once(method, path, sent, body)
        except (http.client.HTTPException, OSError):
            # A server may close an idle connection at any time; only a new connection that breaks is an error.
            self._drop()
            if fresh:
                raise
        return self._once(method, path, sent, body)

    def watch(self, path: str, headers: Mapping[str, str] | None = None, timeout_s: float = 15.0) -> Watch:
        connection = self.connect(timeout_s)
        try:
            connection.request("GET", path, headers=self._with_token(headers))
            return Watch(connection, connection.getresponse())
        except BaseException:
            connection.close()
            raise

    def kubectl(
        self, arguments: Sequence[str], stdin: str | None = None, environment: Mapping[str, str] | None = None
    ) -> Result:
        done = subprocess.run(
            [*self.kubectl_command(), *arguments],
            input=stdin if stdin is not None else "",
            capture_output=True,
            text=True,
            timeout=KUBECTL_TIMEOUT_S,
            env={**self.kubectl_environment(), **(environment or {})},
            cwd=self._home,
        )
        return Result(done.returncode, done.stdout, done.stderr)

    def kubectl_command(self) -> list[str]:
        if self._kubectl_binary is None:
            raise RuntimeError("no kubectl: run make kube")
        return [str(self._kubectl_binary), "--kubeconfig", str(self.kubeconfig)]

    def kubectl_environment(self) -> dict[str, str]:
        own = {"HOME": str(self._home), "PATH": os.environ.get("PATH", ""), "TZ": "UTC", "KUBE_EDITOR": "false"}
        if "GOGC" in os.environ:
            own["GOGC"] = os.environ["GOGC"]
        return marked(own)

    def _with_token(self, headers: Mapping[str, str] | None) -> dict[str, str]:
        sent = {"Authorization": f"Bearer {self.token}", **(headers or {})}
        return {name: value for name, value in sent.items() if value}

    def _once(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self.connect()
            self._open.add(connection)
        connection.request(method, path, body=body, headers=dict(headers))
        response = connection.getresponse()
        answer = Answer(response.status, _headers_of(response), response.read())
        if response.will_close:
            self._drop()
        return answer

    def _drop(self) -> None:
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._open.discard(connection)
        self._local.connection = None


def _certificate_of(cluster: Mapping[str, Any], home: Path) -> Path:
    given = cluster.get("certificate-authority")
    if given:
        return Path(given)
    path = home / "ca.crt"
    path.write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
    return path
