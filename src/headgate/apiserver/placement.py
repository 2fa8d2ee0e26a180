"""Where a request is worked on: in the event loop, or in a thread beside it because it may take long.

The event loop answers everybody, so no request may keep it for long. Requests whose work grows with something large (a
long body, a long stored object, many objects) run in a worker thread, one at a time; ``docs/adr/0016`` says why that is
safe. This is an estimate from sizes that are at hand: it decodes nothing and is asked for every request.
"""

from __future__ import annotations

from typing import Final, Literal

from headgate.apiserver.api import Api
from headgate.apiserver.messages import Request

Place = Literal["loop", "turn", "thread"]
"""``loop``: reads, at any time. ``turn``: short writes, when no thread uses the store. ``thread``: everything long."""

LONG_BYTES: Final = 32 * 1024
"""Bodies and stored objects up to this size are worked on in the loop: about 2 microseconds a byte at the worst."""
MANY_OBJECTS: Final = 500
_CONVERTED: Final = ("as=", "yaml")  # in Accept: answers that are made from decoded objects
_DOCUMENTS: Final = "/openapi/"


def where(api: Api, request: Request) -> Place:
    info = request.info
    if not info.is_write:
        if request.path.startswith(_DOCUMENTS):
            return "thread"
        return "thread" if info.verb == "list" and _is_long_list(api, request) else "loop"
    if len(request.body) > LONG_BYTES:
        return "thread"
    kind = api.kinds.by_resource(info.group, info.version, info.resource)
    if kind is None or not kind.stored:
        return "turn"
    if info.verb == "deletecollection":
        return "thread" if api.store.count(kind.resource) > MANY_OBJECTS // 10 else "turn"
    if info.name:
        item = api.store.peek(kind.resource, info.namespace if kind.namespaced else "", info.name)
        if item is not None and len(item.data) > LONG_BYTES:
            return "thread"
    return "turn"


def _is_long_list(api: Api, request: Request) -> bool:
    info = request.info
    kind = api.kinds.by_resource(info.group, info.version, info.resource)
    if kind is None or not kind.stored:
        return False
    count = api.store.count(kind.resource)
    if count <= MANY_OBJECTS:
        return False
    accept = request.header("accept")
    return (
        count > 10 * MANY_OBJECTS
        or kind.form is not None
        or bool(request.query)
        or any(word in accept for word in _CONVERTED)
    )
