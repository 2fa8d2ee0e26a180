"""The page of a running `headgate up` as a client without a browser: its address, requests, and its stream."""

from __future__ import annotations

import http.client
import json
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

Event = tuple[str, str, Any]
"""The name, the id and the data."""


class Page:
    """``token``: of the operator, from the printed address; another one can be passed to each call."""

    def __init__(self, log: Path) -> None:
        found = re.search(r"http://\S+#token=\S+", log.read_text())
        assert found is not None, log.read_text()
        self.address = found[0]
        parts = urlsplit(self.address)
        self.host = parts.netloc
        self.token = parts.fragment.removeprefix("token=")

    def request(
        self, path: str, token: str | None = None, method: str = "GET", body: object = None, **headers: str
    ) -> tuple[int, Mapping[str, str], bytes]:
        """An empty token sends none. Names of headers have underscores in place of hyphens."""
        connection = http.client.HTTPConnection(self.host, timeout=30)
        try:
            sent = {name.replace("_", "-"): value for name, value in headers.items()}
            shown = self.token if token is None else token
            if shown:
                sent["authorization"] = f"Bearer {shown}"
            if body is not None:
                sent.setdefault("content-type", "application/json")
            connection.request(method, path, None if body is None else json.dumps(body), sent)
            response = connection.getresponse()
            return response.status, dict(response.getheaders()), response.read()
        finally:
            connection.close()

    def get(self, path: str, token: str | None = None) -> Any:
        status, _, body = self.request(path, token)
        assert status == 200, (status, body)
        return json.loads(body)

    def rows(self, topic: str, token: str | None = None) -> dict[str, Any]:
        return {row["key"]: row for row in self.get(f"/api/rows?topics={topic}", token)["topics"][topic]}

    def stream(self, query: str = "", token: str | None = None) -> PageStream:
        return PageStream(self, query, self.token if token is None else token)


class PageStream:
    def __init__(self, page: Page, query: str, token: str) -> None:
        self._connection = http.client.HTTPConnection(page.host, timeout=30)
        self._connection.request("GET", f"/api/stream?{query}", headers={"authorization": f"Bearer {token}"})
        self._response = self._connection.getresponse()
        self.status = self._response.status
        self.headers = dict(self._response.getheaders())
        self.last_id = ""

    def next(self) -> Event:
        """The next event; comments are skipped."""
        fields: dict[str, str] = {}
        while True:
            line = self._response.readline().decode().rstrip("\n")
            if not line and "data" in fields:
                self.last_id = fields.get("id", self.last_id)
                return fields["event"], fields.get("id", ""), json.loads(fields["data"])
            name, colon, value = line.partition(": ")
            if colon and name:
                fields[name] = value

    def wait_for(self, is_wanted: Callable[[Event], bool], timeout_s: float = 30.0) -> float:
        """Reads until an event is wanted. Returns how long that took."""
        began_s = time.monotonic()
        while not is_wanted(self.next()):
            assert time.monotonic() - began_s < timeout_s, "the event did not come"
        return time.monotonic() - began_s

    def close(self) -> None:
        self._connection.close()
