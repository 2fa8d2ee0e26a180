"""The response to one request for health or metrics.

``/livez`` and ``/healthz`` say whether the process is alive, ``/readyz`` whether it does its work, ``/metrics`` has its
metrics. A failing check gives 500 and its reason, as in Kubernetes' own components; ``?verbose`` lists all checks. One
request per connection, no bodies, only GET and HEAD. ``server.py`` listens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qs

import msgspec

from headgate.http.request_handler import TEXT, ClientPeer, HandlerResponse, RequestProblem
from headgate.http.request_head import RequestHead
from headgate.http.request_reader import ReceivedRequest

Check = Callable[[], str]
"""Returns the problem; an empty text if there is none."""

_METHODS: Final = ("GET", "HEAD")
_HEADERS: Final = (("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff"))
_REFUSALS: Final = frozenset((408, 431, 500))
"""The statuses that are kept. Any other problem with the head of a request gets 400."""


class HealthPage(msgspec.Struct, frozen=True):
    content_type: str
    write: Callable[[], bytes]


class HealthHandler:
    """A ``RequestHandler``. ``checks`` by path and name; ``pages`` by path."""

    def __init__(self, checks: Mapping[str, Mapping[str, Check]], pages: Mapping[str, HealthPage]) -> None:
        self._checks = checks
        self._pages = pages

    def wants_body(self, head: RequestHead, peer: ClientPeer) -> bool:
        return False

    def handle(self, request: ReceivedRequest, peer: ClientPeer) -> HandlerResponse:
        head = request.head
        if head.method not in _METHODS:
            return _refusal(405)
        try:
            status, content_type, body = self._get(head.path, head.query)
        except Exception as error:
            # A check or a page that raises must not look like a dead process: the client gets a response.
            status, content_type, body = 500, TEXT, f"{head.path} failed: {type(error).__name__}: {error}\n".encode()
        return HandlerResponse(status, body, content_type, _HEADERS, closes=True)

    def refuse(self, problem: RequestProblem) -> HandlerResponse | None:
        return _refusal(problem.status if problem.status in _REFUSALS else 400)

    def _get(self, path: str, query: str) -> tuple[int, str, bytes]:
        page = self._pages.get(path)
        if page is not None:
            return 200, page.content_type, page.write()
        checks = self._checks.get(path)
        if checks is None:
            return 404, TEXT, b"404 page not found\n"
        return _run_checks(path.strip("/"), checks, is_verbose="verbose" in parse_qs(query, keep_blank_values=True))


def _refusal(status: int) -> HandlerResponse:
    allow = (("Allow", ", ".join(_METHODS)),) if status == HTTPStatus.METHOD_NOT_ALLOWED else ()
    return HandlerResponse(status, f"{HTTPStatus(status).phrase}\n".encode(), TEXT, (*allow, *_HEADERS), closes=True)


def _run_checks(name: str, checks: Mapping[str, Check], *, is_verbose: bool) -> tuple[int, str, bytes]:
    lines = []
    is_healthy = True
    for check, run_check in checks.items():
        try:
            problem = run_check()
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        is_healthy = is_healthy and not problem
        lines.append(f"[-]{check} failed: {problem}\n" if problem else f"[+]{check} ok\n")
    if is_healthy and not is_verbose:
        return 200, TEXT, b"ok"
    lines.append(f"{name} check {'passed' if is_healthy else 'failed'}\n")
    return 200 if is_healthy else 500, TEXT, "".join(lines).encode()
