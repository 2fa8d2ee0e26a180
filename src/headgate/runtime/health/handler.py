"""The response to one request for health or metrics: bytes in, bytes out.

``/livez`` and ``/healthz`` say whether the process is alive, ``/readyz`` whether it does its work, ``/metrics`` has its
metrics. A failing check gives 500 and its reason, as in Kubernetes' own components; ``?verbose`` lists all checks. One
request per connection, no bodies, only GET and HEAD. ``server.py`` listens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import parse_qs

import msgspec

Check = Callable[[], str]
"""What is wrong, or nothing."""

_TEXT: Final = "text/plain; charset=utf-8"
_REASONS: Final[Mapping[int, str]] = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
}
_METHODS: Final = ("GET", "HEAD")


class HealthPage(msgspec.Struct, frozen=True):
    content_type: str
    write: Callable[[], bytes]


class HealthHandler:
    """``checks`` by path and name; ``pages`` by path."""

    def __init__(self, checks: Mapping[str, Mapping[str, Check]], pages: Mapping[str, HealthPage]) -> None:
        self._checks = checks
        self._pages = pages

    def handle(self, head: bytes) -> bytes:
        """``head``: the request up to the empty line."""
        words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return refusal(400)
        method, target, _ = words
        if method not in _METHODS:
            return refusal(405)
        path, _, query = target.partition("?")
        try:
            status, content_type, body = self._get(path, query)
        except Exception as broken:
            # One check or page that breaks must not look like a process that is dead.
            status, content_type, body = 500, _TEXT, f"{path} failed: {type(broken).__name__}: {broken}\n".encode()
        return _response(status, content_type, body, has_body=method == "GET")

    def _get(self, path: str, query: str) -> tuple[int, str, bytes]:
        page = self._pages.get(path)
        if page is not None:
            return 200, page.content_type, page.write()
        checks = self._checks.get(path)
        if checks is None:
            return 404, _TEXT, b"404 page not found\n"
        return _run_checks(path.strip("/"), checks, is_verbose="verbose" in parse_qs(query, keep_blank_values=True))


def refusal(status: int) -> bytes:
    return _response(status, _TEXT, f"{_REASONS[status]}\n".encode())


def _run_checks(name: str, checks: Mapping[str, Check], *, is_verbose: bool) -> tuple[int, str, bytes]:
    lines = []
    is_well = True
    for check, find in checks.items():
        try:
            problem = find()
        except Exception as broken:
            problem = f"{type(broken).__name__}: {broken}"
        is_well = is_well and not problem
        lines.append(f"[-]{check} failed: {problem}\n" if problem else f"[+]{check} ok\n")
    if is_well and not is_verbose:
        return 200, _TEXT, b"ok"
    lines.append(f"{name} check {'passed' if is_well else 'failed'}\n")
    return 200 if is_well else 500, _TEXT, "".join(lines).encode()


def _response(status: int, content_type: str, body: bytes, *, has_body: bool = True) -> bytes:
    allow = f"Allow: {', '.join(_METHODS)}\r\n" if status == 405 else ""
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {content_type}\r\n{allow}"
        f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode("latin-1") + (body if has_body else b"")
