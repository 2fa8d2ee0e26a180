"""Answers the requests of the page: static files, the login, streams, questions about units that wait, and actions.

A ``RequestHandler``. Every response forbids the browser everything that the page does not need. Requests for another
host name are refused on a loopback address, so that no other site can reach the page through a name of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Coroutine, Mapping
from importlib import resources
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

import headgate
from headgate.dashboard.actions import read_action
from headgate.dashboard.io.action_runner import ActionRunner
from headgate.dashboard.io.details import find_detail
from headgate.dashboard.io.event_stream import EventStream
from headgate.dashboard.io.expected_starts import ExpectedStarts
from headgate.dashboard.io.feed import ViewsFeed
from headgate.dashboard.io.recorded_history import find_history
from headgate.dashboard.io.viewers import Viewer, Viewers
from headgate.dashboard.redaction import redact_detail
from headgate.dashboard.rights import ViewerRights, visible, visible_entry
from headgate.dashboard.sessions import Sessions, read_login
from headgate.dashboard.stream import ViewerStream, read_topics
from headgate.http.request_handler import TEXT, ClientPeer, HandlerResponse, RequestProblem
from headgate.http.request_head import RequestHead
from headgate.http.request_reader import ReceivedRequest
from headgate.runtime.health.access_reviews import Verdict
from headgate.views.waiting_pages import WaitingQuery

CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_SECURITY: Final = (
    ("Content-Security-Policy", CSP),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)
_NO_STORE: Final = (*_SECURITY, ("Cache-Control", "no-store"))
_JSON: Final = "application/json"
_TYPES: Final[Mapping[str, str]] = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}
_HEALTH: Final = frozenset({"/livez", "/readyz"})
_ACTIONS: Final = ("/api/actions", "/api/actions/preview")
_RIGHTS_S: Final = 30.0
_MAX_STREAMS: Final = 200
_encode: Final = msgspec.json.Encoder().encode


class PageHandler:
    """``hosts``: the values of ``Host`` that are accepted; empty for all of them. ``server``: the cluster, as text.
    ``runner``: None if the page changes nothing. ``expected_starts``: None if it estimates nothing."""

    def __init__(
        self,
        feed: ViewsFeed,
        viewers: Viewers,
        sessions: Sessions,
        hosts: frozenset[str],
        server: str,
        runner: ActionRunner | None = None,
        expected_starts: ExpectedStarts | None = None,
    ) -> None:
        self._feed: Final = feed
        self._viewers: Final = viewers
        self._sessions: Final = sessions
        self._hosts: Final = hosts
        self._server: Final = server
        self._runner: Final = runner
        self._expected_starts: Final = expected_starts
        self._files: Final = read_page()
        self._streams: Final[dict[EventStream, tuple[str, str]]] = {}  # the token and the address of each

    def wants_body(self, head: RequestHead, peer: ClientPeer) -> bool:
        return head.path in ("/api/login", *_ACTIONS)

    def handle(
        self, request: ReceivedRequest, peer: ClientPeer
    ) -> HandlerResponse | Coroutine[Any, Any, HandlerResponse]:
        head = request.head
        if head.path in _HEALTH:  # the kubelet has neither a token nor the name of this host
            return HandlerResponse(200, b"ok\n", TEXT, _NO_STORE)
        if self._hosts and (head.headers.get("host") or "") not in self._hosts:
            return _problem(421, "this server does not answer for that host name")
        if head.path.startswith("/api/"):
            return self._answer(request, peer.source)
        if head.method not in ("GET", "HEAD"):
            return _problem(405, "only GET is possible here")
        found = self._files.get("/index.html" if head.path == "/" else head.path)
        if found is None:
            return _problem(404, "there is no such page")
        return HandlerResponse(200, found[1], found[0], (*_SECURITY, ("Cache-Control", "no-cache")))

    def refuse(self, problem: RequestProblem) -> HandlerResponse | None:
        return _problem(problem.status, problem.text)

    async def run(self) -> None:
        """Reviews the viewers of open streams again, until it is cancelled."""
        while True:
            await asyncio.sleep(_RIGHTS_S)
            for stream, (token, source) in list(self._streams.items()):
                viewer = await self._viewers.find(token, source)
                if isinstance(viewer, Verdict):
                    if viewer.status != 500:  # an API server that cannot be asked ends no stream
                        stream.finish(viewer.status, viewer.text)
                    continue
                stream.set_rights(await self._rights_of(viewer))

    async def _answer(self, request: ReceivedRequest, source: str) -> HandlerResponse:
        head = request.head
        if head.path in ("/api/login", "/api/logout"):
            return await self._log_in_or_out(request, source)
        if head.method != "GET" and head.path not in _ACTIONS:
            return _problem(405, "only GET is possible here")
        if head.path in _ACTIONS and (refused := self._refuse_action(head)) is not None:
            return refused
        token = self._sessions.find_token(head.headers, time.time())
        viewer = await self._viewers.find(token, source)
        if isinstance(viewer, Verdict):
            return _problem(viewer.status, viewer.text)
        if head.path in _ACTIONS:
            return await self._act(viewer, token, request)
        query = {name: values[-1] for name, values in parse_qs(head.query).items()}
        if head.path == "/api/stream":
            return await self._stream(viewer, token, source, query, head.headers)
        parts = [unquote(each) for each in head.path.split("/")[2:]]
        async with self._reading():
            return await self._get(viewer, parts, query)

    def _refuse_action(self, head: RequestHead) -> HandlerResponse | None:
        """Actions are posted as JSON by this page, or by a program with a token of its own; never by another site."""
        if self._runner is None:
            return _problem(403, "this page changes nothing; with --allow-actions its operator starts one that does")
        if head.method != "POST":
            return _problem(405, "only POST is possible here")
        has_own_token = (head.headers.get("authorization") or "").lower().startswith("bearer ")
        if not _is_same_origin(head) or not (has_own_token or head.headers.get("origin")):
            return _problem(403, "the request comes from another site")
        if (head.headers.get("sec-fetch-site") or "same-origin") != "same-origin":
            return _problem(403, "the request comes from another site")
        return None

    async def _act(self, viewer: Viewer, token: str, request: ReceivedRequest) -> HandlerResponse:
        action = read_action(request.body) if request.complete else "the request is not complete"
        if isinstance(action, str) or self._runner is None:
            return _problem(400, str(action))
        async with self._reading():
            rights = await self._rights_of(viewer)
            dry_run = request.head.path.endswith("/preview")
            return _json(await self._runner.run(action, viewer, token, rights, dry_run=dry_run))

    @contextlib.asynccontextmanager
    async def _reading(self) -> AsyncIterator[None]:
        reader = self._feed.enter()
        try:
            await self._feed.ready()
            yield
        finally:
            self._feed.leave(reader)

    async def _get(self, viewer: Viewer, parts: list[str], query: Mapping[str, str]) -> HandlerResponse:
        rights = await self._rights_of(viewer)
        match parts:
            case ["info"]:
                return _json(self._info(viewer, rights))
            case ["rows"]:
                topics = read_topics(query.get("topics", ""))
                if isinstance(topics, str):
                    return _problem(400, topics)
                views = self._feed.views
                rows = {each: [seen for row in views.rows(each) if (seen := visible(row, rights))] for each in topics}
                return _json({"revision": views.revision, "topics": rows})
            case ["waiting"]:
                return self._waiting(rights, query)
            case ["pods" | "workloads" as kind, namespace, name]:
                found = await find_detail(self._feed, self._viewers, viewer, kind, namespace, name)
                return _json(redact_detail(found, rights)) if not isinstance(found, Verdict) else _refused(found)
            case ["estimates", "pods" | "workloads" as kind, namespace, name] if self._expected_starts is not None:
                starts = await self._expected_starts.find(viewer, rights, kind, namespace, name)
                return _refused(starts) if isinstance(starts, Verdict) else _json(starts)
            case ["history", "pods" | "workloads" as kind, namespace, name]:
                history = await find_history(self._feed, self._viewers, viewer, kind, namespace, name)
                return _refused(history) if isinstance(history, Verdict) else _json(history)
        return _problem(404, "there is no such path")

    def _waiting(self, rights: ViewerRights, query: Mapping[str, str]) -> HandlerResponse:
        try:
            asked = msgspec.convert(dict(query), WaitingQuery, strict=False)
        except msgspec.ValidationError as problem:
            return _problem(400, f"the query is not valid: {problem}")
        sees = None if rights.everything else lambda row: visible(row, rights) is not None
        page = self._feed.pages.page(asked, sees, rights.identity)
        entries = tuple(visible_entry(each, rights) for each in page.entries)
        return _json(msgspec.structs.replace(page, entries=entries))

    def _info(self, viewer: Viewer, rights: ViewerRights) -> dict[str, Any]:
        return {
            "server": self._server,
            "version": headgate.__version__,
            "viewer": viewer.name,
            "sees_everything": rights.everything,
            "allows_actions": self._runner is not None,
            "synced": self._feed.is_synced,
            "now_s": time.time(),
        }

    async def _rights_of(self, viewer: Viewer) -> ViewerRights:
        views = self._feed.views
        rows = (row for topic in ("overview", "problems", "cluster-queues") for row in views.rows(topic))
        namespaces = {getattr(row, "namespace", "") for row in rows}  # some rows have none
        return await self._viewers.rights_of(viewer, namespaces - {""})

    async def _stream(
        self, viewer: Viewer, token: str, source: str, query: Mapping[str, str], headers: Mapping[str, str]
    ) -> HandlerResponse:
        topics = read_topics(query.get("topics", ""))
        if isinstance(topics, str):
            return _problem(400, topics)
        if len(self._streams) >= _MAX_STREAMS:
            return _problem(503, "too many viewers; close other pages, or try again later")
        async with self._reading():
            rights = await self._rights_of(viewer)
        last_id = headers.get("last-event-id") or query.get("since", "")
        body = EventStream(self._feed, ViewerStream(topics, rights, last_id), lambda: self._forget(body))
        self._streams[body] = token, source
        headers_ = (*_NO_STORE, ("X-Accel-Buffering", "no"))
        return HandlerResponse(200, body, "text/event-stream; charset=utf-8", headers_)

    def _forget(self, stream: EventStream) -> None:
        self._streams.pop(stream, None)

    async def _log_in_or_out(self, request: ReceivedRequest, source: str) -> HandlerResponse:
        head = request.head
        if head.method != "POST":
            return _problem(405, "only POST is possible here")
        if not _is_same_origin(head):
            return _problem(403, "the request comes from another site")
        if head.path == "/api/logout":
            return HandlerResponse(204, b"", _JSON, (*_NO_STORE, ("Set-Cookie", self._sessions.end(head.headers))))
        token = read_login(request.body) if request.complete else ""
        if not token:
            return _problem(400, 'write the token as JSON: {"token": "..."}')
        viewer = await self._viewers.find(token, source)
        if isinstance(viewer, Verdict):
            return _problem(viewer.status, viewer.text)
        cookie = self._sessions.begin(secrets.token_urlsafe(32), token, time.time())
        return HandlerResponse(204, b"", _JSON, (*_NO_STORE, ("Set-Cookie", cookie)))


def read_page() -> dict[str, tuple[str, bytes]]:
    """The static files by path, each with its content type."""
    folder = resources.files("headgate.dashboard") / "page"
    found = {}
    for each in folder.iterdir():
        type_ = _TYPES.get(each.name.rpartition(".")[2])
        if type_ is not None:
            found[f"/{each.name}"] = type_, each.read_bytes()
    return found


def _is_same_origin(head: RequestHead) -> bool:
    """A browser sends ``Origin`` with every POST. JSON cannot be posted by a form of another site."""
    origin = head.headers.get("origin")
    is_json = (head.headers.get("content-type") or "").partition(";")[0].strip() == _JSON
    return is_json and (not origin or urlsplit(origin).netloc == head.headers.get("host"))


def _json(value: object) -> HandlerResponse:
    return HandlerResponse(200, _encode(value), _JSON, _NO_STORE)


def _refused(verdict: Verdict) -> HandlerResponse:
    return _problem(verdict.status, verdict.text)


def _problem(status: int, text: str) -> HandlerResponse:
    headers = (*_NO_STORE, ("WWW-Authenticate", "Bearer")) if status == 401 else _NO_STORE
    return HandlerResponse(status, _encode({"status": status, "text": text}), _JSON, headers)
