"""The informer: it lists and watches one collection and delivers the changes to one consumer.

The consumer gets every object as ``ObjectApplied``, first from the list and again after each change; ``ObjectDeleted``
when it is gone; and ``ListSynced`` each time a whole list was delivered. A broken or silent watch resumes at its last
revision; when that is compacted (410), the collection is listed again and only the differences are delivered. No state
is delivered twice, nor after a newer one. ``client/known_objects.py`` keeps the delivered versions,
``client/list_watch_decoder.py`` decodes the bytes, ``client/backoff.py`` has the delays after failures.

``fields``: the fields to deliver; empty for whole objects. ``may_be_absent``: if the kind is not served, an empty list
is delivered and ``absent`` is called; both again each time the kind is no longer served. ``not_found`` is called for a
404 in place of ``report``. ``listing`` is called when a list begins: until ``ListSynced``, the delivered states may
leave out others that the object had before. ``watching`` is called when the server has accepted a watch.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

from headgate.client import field_decoder
from headgate.client.backoff import APIServerBackoff
from headgate.client.io.time_slice import yield_if_slice_spent
from headgate.client.known_objects import (
    InformerEvent,
    Key,
    KnownObjects,
    ListSynced,
    ObjectApplied,
    ObjectDeleted,
    Sink,
    is_older,
)
from headgate.client.list_watch_decoder import UNREADABLE, ListWatchError, names_kind, parse_event, parse_page, refusal
from headgate.http.transport import HTTPRequest, HTTPResponse, LineStream, Transport, Unreachable, encode_query
from headgate.kube.backoff import ExponentialBackoff

__all__ = ["Informer", "InformerEvent", "ListSynced", "ObjectApplied", "ObjectDeleted", "Sink"]

_GONE: Final = 410
_FORBIDDEN: Final = 403
_NOT_FOUND: Final = 404
_TOO_MANY_REQUESTS: Final = 429
_UNAVAILABLE: Final = 503
_SHORT_WAIT_S: Final = 2.0
_SHORT_WAITS: Final = 10
"""Up to this number in a row, a 429 with a short ``Retry-After`` is obeyed without a report, as in client-go:
kube-apiserver sends one second while it initializes the storage of a new custom resource."""
_RELIST_BACKOFF: Final = ExponentialBackoff(0.8, 30.0)
"""For lists that are needed because a watch or list was unusable, until a watch delivers an event. A good list does not
reset this back-off: the next watch may be as unusable as the one before."""
_PAGE: Final = 500
_WATCH_S: Final = 300
_IDLE_S: Final = 135.0
"""Servers send a bookmark about every minute. If two are missing, the connection is broken."""
_EMPTY_WATCH_PAUSE_S: Final = 1.0
"""The pause after a watch that ended without an event."""
_LONG_BYTES: Final = 32 * 1024
_MAX_STALE_LISTS: Final = 3
"""After this many lists with an older revision, the informer assumes that the API server was restored from a backup."""


class Informer:
    """One collection. ``jitter()`` returns a number in [0, 1); ``sleep`` waits that many seconds."""

    def __init__(
        self,
        transport: Transport,
        path: str,
        sink: Sink,
        *,
        jitter: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
        query: Mapping[str, str] | None = None,
        fields: Iterable[str] = (),
        may_be_absent: bool = False,
        absent: Callable[[str], None] = lambda problem: None,
        not_found: Callable[[str], None] | None = None,
        report: Callable[[str], None] = lambda problem: None,
        listing: Callable[[], None] = lambda: None,
        watching: Callable[[], None] = lambda: None,
    ) -> None:
        self._transport = transport
        self._path = path
        self._sink = sink
        self._known = KnownObjects(sink)
        self._jitter = jitter
        self._sleep = sleep
        self._query = dict(query or {})
        self._decode = field_decoder.decoder(fields)
        self._may_be_absent = may_be_absent
        self._is_absent = False
        self._absent = absent
        self._report = report
        self._not_found = not_found or report
        self._listing = listing
        self._watching = watching
        self._backoff = APIServerBackoff()
        self._problem = ""  # the last problem
        self._problem_count = 0  # how often in a row
        self._revision = ""  # the last revision that was delivered; empty if the collection must be listed
        self._newest = ""  # the last revision that was delivered; it stays when the collection must be listed again
        self._stale_lists = 0
        self._relists = 0  # since the last event of a watch
        self._short_waits = 0  # in a row
        self._unpaged = False  # after a paged list expired, the next list is unpaged

    async def run(self) -> None:
        """Runs until it is cancelled."""
        while True:
            try:
                if not self._revision:
                    await self._list()
                received = await self._watch()
                self._reset_backoff()
                if not received:  # do not request watches in a tight loop if the server ends them at once
                    await self._sleep(_EMPTY_WATCH_PAUSE_S * (1 + self._jitter()))
            except Unreachable as error:
                self._report_problem(str(error))
                await self._sleep(self._backoff.next(self._jitter(), connected=error.connected))
            except ListWatchError as error:
                await self._handle_refusal(error)

    async def _handle_refusal(self, error: ListWatchError) -> None:
        """Reports the error and waits."""
        if error.status == _TOO_MANY_REQUESTS and 0 < error.wait_s <= _SHORT_WAIT_S:
            self._short_waits += 1
            if self._short_waits <= _SHORT_WAITS:
                await self._sleep(error.wait_s * (1 + self._jitter()))
                return
        if error.status in (_GONE, UNREADABLE):
            self._revision = ""
        if self._may_be_absent and not await self._is_served(error.status):
            self._report_absent(str(error))
        elif error.status == _NOT_FOUND:
            self._not_found(str(error))
        elif error.status != _GONE:
            self._report_problem(str(error))
        await self._sleep(self._delay_s(error))

    def _delay_s(self, error: ListWatchError) -> float:
        if error.status in (_GONE, UNREADABLE):
            # After a restart of the API server most watches are too old: the first list follows at once.
            self._relists += 1
            failures = self._relists - 1 if error.status == _GONE else self._relists
            return _RELIST_BACKOFF.delay_s(failures) * (1 + self._jitter())
        # kube-apiserver asks for 5 s with a 503 until all its paths are installed, but is ready earlier.
        requested_s = min(error.wait_s, _SHORT_WAIT_S) if error.status == _UNAVAILABLE else error.wait_s
        return max(requested_s, self._backoff.next(self._jitter()))

    def _reset_backoff(self) -> None:
        """The server works: a list was read, or a watch delivered an event or ended as intended."""
        self._backoff.reset()
        self._short_waits = 0
        self._problem_count = 0

    def _report_problem(self, problem: str) -> None:
        """Reports a problem that repeats itself the 1st, 2nd, 4th, 8th … time: during an outage the informer tries
        again every second or two."""
        self._problem_count = self._problem_count + 1 if problem == self._problem else 1
        self._problem = problem
        if self._problem_count.bit_count() == 1:
            self._report(problem)

    async def _is_served(self, status: int) -> bool:
        """Whether the kind is served, after an error. An account without permissions gets 403 also for a kind that is
        not served; discovery is open to every account."""
        if status != _FORBIDDEN:
            return status != _NOT_FOUND
        root, _, plural = self._path.rpartition("/")
        try:
            response = await self._transport.request(HTTPRequest("GET", root, "", {"accept": "application/json"}))
        except Unreachable:
            return True
        return names_kind(response, plural)

    def _report_absent(self, problem: str) -> None:
        """A kind that is not served has no objects; the list is repeated in case it is served later."""
        self._revision = ""
        if not self._is_absent:
            self._is_absent = True
            self._known.keep(set())
            self._sink(ListSynced(self._newest))
            self._absent(problem)

    async def _list(self) -> None:
        seen: set[Key] = set()
        token = ""
        while True:
            query = dict(self._query)
            if not self._unpaged:
                query["limit"] = str(_PAGE)
            if token:
                query["continue"] = token
            try:
                page = await self._get(query)
            except ListWatchError as error:
                self._unpaged = self._unpaged or (error.status == _GONE and bool(token))
                raise
            items, next_token, revision = parse_page(self._path, page, self._decode)
            self._is_absent = False
            if not token:
                self._check_revision(revision)
                self._listing()
            for item, identity in items:
                await yield_if_slice_spent()
                seen.add(identity.key)
                self._known.apply(item, identity)
            token = next_token
            if not token:
                break
        self._unpaged = False
        self._reset_backoff()
        self._known.keep(seen)
        self._revision = self._newest = revision
        self._sink(ListSynced(self._revision))

    def _check_revision(self, revision: str) -> None:
        """A list is never older than an earlier one, unless the server was restored from a backup."""
        if not is_older(revision, self._newest):
            self._stale_lists = 0
            return
        self._stale_lists += 1
        if self._stale_lists < _MAX_STALE_LISTS:
            raise ListWatchError(
                UNREADABLE, f"{self._path} is at revision {revision}, but {self._newest} was seen: the list is ignored"
            )
        self._stale_lists = 0
        self._report(
            f"{self._path} went back from revision {self._newest} to {revision}: everything is delivered again"
        )
        self._known.forget_all()
        self._newest = revision

    async def _watch(self) -> bool:
        """Returns whether any event was received."""
        seconds = int(_WATCH_S * (1 + self._jitter()))  # not all watches end at the same time
        query = {
            **self._query,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._revision,
            "timeoutSeconds": str(seconds),
        }
        request = HTTPRequest("GET", self._path, encode_query(query), {"accept": "application/json"})
        response = await self._transport.stream(request, idle_s=_IDLE_S)
        if isinstance(response, HTTPResponse):
            raise refusal(self._path, response)
        self._watching()
        try:
            return await self._read_events(response)
        finally:
            await response.close()

    async def _read_events(self, lines: LineStream) -> bool:
        received = False
        async for line in lines:
            await yield_if_slice_spent()
            kind, item, identity = parse_event(self._path, line, self._decode)
            if len(line) > _LONG_BYTES:
                await yield_if_slice_spent()  # decoding took long, and the consumer may take long, too
            if not received:
                received = True
                self._relists = 0
                self._reset_backoff()
            if is_older(identity.revision, self._revision):
                continue  # already delivered
            if kind in ("ADDED", "MODIFIED"):
                self._known.apply(item, identity)
            elif kind == "DELETED":
                self._known.delete(identity)
            self._revision = self._newest = identity.revision
        return received

    async def _get(self, query: Mapping[str, str]) -> bytes:
        request = HTTPRequest("GET", self._path, encode_query(query), {"accept": "application/json"})
        response = await self._transport.request(request)
        if not response.ok:
            raise refusal(self._path, response)
        return response.body
