"""List, then watch, for ever: keeps one consumer informed about one collection.

The consumer gets every object once as ``Applied`` and again whenever it changed, ``Removed`` when it is gone, and
``Synced`` each time a whole list has been told. A broken watch resumes where it was; when the server has forgotten that
far back (410), the collection is listed again and only the differences are told. Objects are not kept here, only their
names, uids and revisions; what a consumer remembers is its own affair. A consumer that names ``fields`` is told those
and nothing else of an object.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from headgate.client import picking
from headgate.client.backoff import Backoff
from headgate.client.transport import Lines, Request, Response, Transport, Unreachable, encode_query

Object = dict[str, Any]
Key = tuple[str, str]

_GONE: Final = 410
_UNREADABLE: Final = 0
_PAGE: Final = 500
_WATCH_S: Final = 300
_GRACE_S: Final = 30.0
_QUIET_S: Final = 1.0


class Applied(msgspec.Struct, frozen=True):
    """An object that is new or has changed."""

    object: Object


class Removed(msgspec.Struct, frozen=True):
    """An object that is gone. A deletion that was missed is found by listing; then the last state is not known."""

    namespace: str
    name: str
    uid: str


class Synced(msgspec.Struct, frozen=True):
    """Everything that existed at ``revision`` has been told."""

    revision: str


Event = Applied | Removed | Synced
Sink = Callable[[Event], None]


class Trouble(Exception):
    """The server answered, and the answer was no."""

    def __init__(self, status: int, text: str, wait_s: float = 0.0) -> None:
        super().__init__(text)
        self.status = status
        self.wait_s = wait_s


class Informer:
    """One collection. ``jitter()`` gives a number in [0, 1); ``sleep`` waits that many seconds."""

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
        report: Callable[[str], None] = lambda problem: None,
    ) -> None:
        self._transport = transport
        self._path = path
        self._sink = sink
        self._jitter = jitter
        self._sleep = sleep
        self._query = dict(query or {})
        self._decode = picking.decoder(fields)
        self._report = report
        self._backoff = Backoff()
        self._known: dict[Key, tuple[str, str]] = {}  # uid and resourceVersion
        self._revision = ""  # how far we have seen; empty: list first
        self._whole_lists = False  # after a list expired half-way, the next one is asked for in one piece

    async def run(self) -> None:
        """Runs until it is cancelled."""
        while True:
            try:
                if not self._revision:
                    await self._list()
                heard = await self._watch()
                if not heard:  # a server that ends watches at once must not be asked in a tight loop
                    await self._sleep(_QUIET_S * (1 + self._jitter()))
                continue
            except Unreachable as error:
                wait_s = 0.0
                self._report(str(error))
            except Trouble as error:
                wait_s = error.wait_s
                if error.status in (_GONE, _UNREADABLE):
                    self._revision = ""
                if error.status != _GONE:
                    self._report(str(error))
            await self._sleep(max(wait_s, self._backoff.next(self._jitter())))

    async def _list(self) -> None:
        seen: set[Key] = set()
        token = ""
        while True:
            query = dict(self._query)
            if not self._whole_lists:
                query["limit"] = str(_PAGE)
            if token:
                query["continue"] = token
            try:
                page = await self._get(query)
            except Trouble as error:
                self._whole_lists = error.status == _GONE and bool(token)
                raise
            items, token, revision = _parse_page(self._path, page, self._decode)
            for item in items:
                seen.add(self._tell(*item))
            if not token:
                break
        self._whole_lists = False
        for key in [key for key in self._known if key not in seen]:
            self._forget(key)
        self._revision = revision
        self._sink(Synced(self._revision))

    async def _watch(self) -> bool:
        """Whether anything was heard."""
        seconds = int(_WATCH_S * (1 + self._jitter()))  # not all watches of a fleet end at once
        query = {
            **self._query,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._revision,
            "timeoutSeconds": str(seconds),
        }
        request = Request("GET", self._path, encode_query(query), {"accept": "application/json"})
        answer = await self._transport.stream(request, idle_s=seconds + _GRACE_S)
        if isinstance(answer, Response):
            raise _trouble(self._path, answer)
        try:
            return await self._listen(answer)
        finally:
            await answer.close()

    async def _listen(self, lines: Lines) -> bool:
        heard = False
        async for line in lines:
            kind, item, identity = _parse_event(self._path, line, self._decode)
            heard = True
            self._backoff.reset()
            if kind in ("ADDED", "MODIFIED"):
                self._tell(item, identity)
            elif kind == "DELETED":
                self._forget(identity.key)
            self._revision = identity.revision
        return heard

    async def _get(self, query: Mapping[str, str]) -> bytes:
        request = Request("GET", self._path, encode_query(query), {"accept": "application/json"})
        response = await self._transport.request(request)
        if not response.ok:
            raise _trouble(self._path, response)
        return response.body

    def _tell(self, item: Object, identity: _Identity) -> Key:
        now = (identity.uid, identity.revision)
        before = self._known.get(identity.key)
        if before is not None and before[0] != identity.uid:
            self._forget(identity.key)  # deleted and made again while we were not looking
        if before != now:
            self._known[identity.key] = now
            self._sink(Applied(item))
        return identity.key

    def _forget(self, key: Key) -> None:
        known = self._known.pop(key, None)
        if known is not None:
            self._sink(Removed(*key, uid=known[0]))


class _Identity(msgspec.Struct, frozen=True):
    key: Key
    uid: str
    revision: str


def _identity(item: Object) -> _Identity:
    metadata = item["metadata"]
    key = (metadata.get("namespace", ""), metadata.get("name", ""))
    return _Identity(key, metadata.get("uid", ""), metadata["resourceVersion"])


class _Line(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Page(msgspec.Struct):
    metadata: Object
    items: list[msgspec.Raw] | None = None


_decode_line: Final = msgspec.json.Decoder(_Line).decode
_decode_page: Final = msgspec.json.Decoder(_Page).decode
_UNFIT: Final = (msgspec.DecodeError, KeyError, TypeError, AttributeError)


def _parse_event(path: str, line: bytes, decode: picking.Decode) -> tuple[str, Object, _Identity]:
    """Raises ``Trouble`` for a line that ends the watch: an ERROR event, or one that is not an event at all."""
    try:
        event = _decode_line(line)
        if event.type == "ERROR":
            status = msgspec.json.decode(event.object)
            raise Trouble(status.get("code", _UNREADABLE), f"the watch on {path} ended: {status.get('message', '')}")
        item = decode(event.object)
        return event.type, item, _identity(item)
    except _UNFIT as error:
        raise Trouble(_UNREADABLE, f"the watch on {path} sent what is not an event: {line[:200]!r}") from error


def _parse_page(path: str, body: bytes, decode: picking.Decode) -> tuple[list[tuple[Object, _Identity]], str, str]:
    """Items, the token for the next page, and the revision of the list."""
    try:
        page = _decode_page(body)
        items = [(item, _identity(item)) for item in map(decode, page.items or ())]
        return items, page.metadata.get("continue", ""), page.metadata["resourceVersion"]
    except _UNFIT as error:
        raise Trouble(_UNREADABLE, f"{path} sent what is not a list: {body[:200]!r}") from error


def _trouble(path: str, response: Response) -> Trouble:
    try:
        message = str(msgspec.json.decode(response.body)["message"])
    except (msgspec.DecodeError, KeyError, TypeError):
        message = response.body[:200].decode(errors="replace")
    wait = response.headers.get("retry-after", "")
    return Trouble(
        response.status, f"{path} answered {response.status}: {message}", float(wait) if wait.isdigit() else 0.0
    )
