"""Whether a request runs in the event loop, or in a worker thread because it may take long.

The event loop serves all clients, so no request may block it for long. Requests whose cost grows with something large
(a long body, a long path, query or header, a long stored object, many objects, a Table with many columns, a schema with
many defaults or checks) run in a worker thread, one at a time; ``docs/adr/0016`` explains why that is safe. The
estimate runs for every request, so it uses only known sizes and decodes nothing. If a request turns out to take long
while it runs, because of long webhook responses or long objects that it reads, it continues in the thread
(:func:`continues_in_thread`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, cast

from headgate.apiserver.custom.catalog import CRD_RESOURCE
from headgate.apiserver.kinds.kind import ServedKind
from headgate.apiserver.registry.resource_quota import QUOTAS
from headgate.apiserver.request.messages import (
    LONG_BYTES,
    CallWebhooks,
    ContinueInThread,
    Effect,
    ServerRequest,
    WebhookAnswer,
)
from headgate.apiserver.state import ServerState
from headgate.store import Item

ExecutionPlace = Literal["loop", "turn", "thread"]
"""``loop``: reads, in the event loop at any time. ``turn``: short writes, in the event loop while the worker thread
does not use the store. ``thread``: long requests, in the worker thread."""

MANY_OBJECTS: Final = 500
MANY_VISITS: Final = 5_000
"""How many values the columns of a Table read; the estimate counts a list as one value."""
MANY_BYTES: Final = 256 * 1024
"""The size of the objects that are decoded for a list."""
_NEEDS_DECODING: Final = ("as=", "yaml")  # parts of an Accept header that require decoded objects
_TABLE: Final = "as=Table"
_OPENAPI_PREFIX: Final = "/openapi/"
_LONG_REVIEWS: Final = frozenset({"selfsubjectrulesreviews"})  # all rules of a user
_JSON_PATCH: Final = "json-patch"
_MAY_COPY: Final = (b"copy", b"\\u")  # a JSON patch may copy a part of the object; letters of "copy" may be escaped
_DENSE_VALUES: Final = b"{,"  # for YAML: JSON with the largest number of values per byte


def execution_place(api: ServerState, request: ServerRequest) -> ExecutionPlace:
    if request.has_long_target or request.has_long_headers:
        return "thread"
    info = request.info
    if not info.is_write:
        if request.path.startswith(_OPENAPI_PREFIX):
            return "thread"
        return "thread" if _is_long_read(api, request) else "loop"
    if len(request.body) > LONG_BYTES:
        return "thread"
    kind = api.kinds.by_resource(info.group, info.version, info.resource)
    if kind is None or not kind.is_stored:
        return "thread" if info.resource in _LONG_REVIEWS else "turn"
    if kind.resource == CRD_RESOURCE:
        return "thread"  # its patterns are compiled
    if info.verb == "deletecollection":
        return "thread" if api.store.count(kind.resource) > MANY_OBJECTS // 10 else "turn"
    item = (
        api.store.read_applied(kind.resource, info.namespace if kind.namespaced else "", info.name)
        if info.name
        else None
    )
    stored = b"" if item is None else item.data
    is_long = _write_bytes(kind, request, stored) > LONG_BYTES or _has_long_quotas(api, info.namespace)
    return "thread" if is_long else "turn"


def _has_long_quotas(api: ServerState, namespace: str) -> bool:
    """Whether the ResourceQuotas of the namespace are long. Each write reads all of them, and may write one."""
    if not namespace:
        return False
    return sum(len(item.data) for item in api.store.list_applied(QUOTAS, namespace)) > LONG_BYTES


def _write_bytes(kind: ServedKind, request: ServerRequest, stored: bytes) -> int:
    """The work of a write, in bytes to process: those of the stored object, or more if a patch may multiply its parts
    or a custom schema has many defaults or checks."""
    body, size = request.body, len(stored)
    if _JSON_PATCH in request.header("content-type") and any(word in body for word in _MAY_COPY):
        size *= body.count(b"{")
    if kind.scheme is None or kind.scheme.cost is None:
        return size
    values = body if _is_json(request) else _DENSE_VALUES * (len(body) // 2)
    return max(size, kind.scheme.cost.work_bytes(values + stored))


def _is_json(request: ServerRequest) -> bool:
    """Whether the body is JSON, also if it is sent as YAML: JSON is valid YAML, and its objects begin with ``{``."""
    return "yaml" not in request.header("content-type") or request.body.lstrip()[:1] == b"{"


def continues_in_thread(effect: Effect, result: object) -> bool:
    """Whether the request asks for the thread, or ``result`` has so long webhook responses that it continues there."""
    if isinstance(effect, ContinueInThread):
        return True
    if not isinstance(effect, CallWebhooks):
        return False
    responses = cast(Sequence[WebhookAnswer], result)
    return sum(len(each.body) for each in responses) > LONG_BYTES


def _is_long_read(api: ServerState, request: ServerRequest) -> bool:
    info = request.info
    if info.verb not in ("get", "list"):
        return False
    kind = api.kinds.by_resource(info.group, info.version, info.resource)
    if kind is None or not kind.is_stored:
        return False
    decodes = kind.is_custom_resource or any(word in request.header("accept") for word in _NEEDS_DECODING)
    if info.verb == "get":
        namespace = info.namespace if kind.namespaced else ""
        item = api.store.read_applied(kind.resource, namespace, info.name) if decodes else None
        return item is not None and (_read_bytes(kind, item) > LONG_BYTES or _is_long_table(kind, request, 1))
    count = api.store.count(kind.resource)
    if count > MANY_OBJECTS:
        return count > 10 * MANY_OBJECTS or decodes or bool(request.query)
    return decodes and (_is_long_table(kind, request, count) or _have_many_bytes(api, kind))


def _is_long_table(kind: ServedKind, request: ServerRequest, rows: int) -> bool:
    """Whether a Table is expensive: a custom kind may have many and complex columns."""
    printer = kind.scheme.printer if kind.scheme is not None else None
    return printer is not None and rows * printer.weight > MANY_VISITS and _TABLE in request.header("accept")


def _read_bytes(kind: ServedKind, item: Item) -> int:
    """The size of an object that is read, with the defaults of a schema that is newer than the object."""
    cost = None if kind.scheme is None else kind.scheme.cost
    return len(item.data) if cost is None else cost.bytes_with_defaults(item.data)


def _have_many_bytes(api: ServerState, kind: ServedKind) -> bool:
    free_bytes = MANY_BYTES
    for item in api.store.list_applied(kind.resource, None):
        free_bytes -= _read_bytes(kind, item)
        if free_bytes < 0:
            return True
    return False
