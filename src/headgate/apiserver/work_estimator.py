"""Whether a request runs in the event loop, or in a worker thread because it may take long.

The event loop serves all clients, so no request may block it for long. Requests whose cost grows with something large
(a long body, a long path, query or header, a long stored object, many objects, a Table with many columns) run in a
worker thread, one at a time; ``docs/adr/0016`` explains why that is safe. The estimate uses known sizes: it decodes
nothing and runs for every request. A short request with long webhook responses continues in the thread
(:func:`has_long_responses`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, cast

from headgate.apiserver.kinds.kind import ServedKind
from headgate.apiserver.request.messages import LONG_BYTES, CallWebhooks, Effect, ServerRequest, WebhookAnswer
from headgate.apiserver.state import ServerState

ExecutionPlace = Literal["loop", "turn", "thread"]
"""``loop``: reads, at any time. ``turn``: short writes, while no thread uses the store. ``thread``: long requests."""

MANY_OBJECTS: Final = 500
MANY_VISITS: Final = 5_000
"""Values that the columns of a Table read; an estimate without the lengths of lists."""
MANY_BYTES: Final = 256 * 1024
"""The size of the objects that are decoded for a list."""
_CONVERTED: Final = ("as=", "yaml")  # in Accept: responses that need decoded objects
_TABLE: Final = "as=Table"
_DOCUMENTS: Final = "/openapi/"


def execution_place(api: ServerState, request: ServerRequest) -> ExecutionPlace:
    if request.has_long_target or request.has_long_headers:
        return "thread"
    info = request.info
    if not info.is_write:
        if request.path.startswith(_DOCUMENTS):
            return "thread"
        return "thread" if _is_long_read(api, request) else "loop"
    if len(request.body) > LONG_BYTES:
        return "thread"
    kind = api.kinds.by_resource(info.group, info.version, info.resource)
    if kind is None or not kind.is_stored:
        return "turn"
    if info.verb == "deletecollection":
        return "thread" if api.store.count(kind.resource) > MANY_OBJECTS // 10 else "turn"
    if info.name:
        item = api.store.peek(kind.resource, info.namespace if kind.namespaced else "", info.name)
        if item is not None and len(item.data) > LONG_BYTES:
            return "thread"
    return "turn"


def has_long_responses(effect: Effect, result: object) -> bool:
    """Whether the webhook responses in ``result`` are so long that the request continues in the thread."""
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
    converted = kind.scheme is not None or any(word in request.header("accept") for word in _CONVERTED)
    if info.verb == "get":
        namespace = info.namespace if kind.namespaced else ""
        item = api.store.peek(kind.resource, namespace, info.name) if converted else None
        return item is not None and (len(item.data) > LONG_BYTES or _is_long_table(kind, request, 1))
    count = api.store.count(kind.resource)
    if count > MANY_OBJECTS:
        return count > 10 * MANY_OBJECTS or converted or bool(request.query)
    return converted and (_is_long_table(kind, request, count) or _have_many_bytes(api, kind))


def _is_long_table(kind: ServedKind, request: ServerRequest, rows: int) -> bool:
    """Whether a Table is expensive: a custom kind may have many and complex columns."""
    printer = kind.scheme.printer if kind.scheme is not None else None
    return printer is not None and rows * printer.weight > MANY_VISITS and _TABLE in request.header("accept")


def _have_many_bytes(api: ServerState, kind: ServedKind) -> bool:
    free_bytes = MANY_BYTES
    for item in api.store.peek_all(kind.resource, None):
        free_bytes -= len(item.data)
        if free_bytes < 0:
            return True
    return False
