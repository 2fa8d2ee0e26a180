"""Effects that a reconciler yields, and their responses. Values only; ``runtime/controller_manager.py`` performs them.

Every effect is one API request, except :class:`ParallelRequests`, which is several at a time, and :class:`EmitEvent`:
the runtime responds at once and writes the Event later. A write that must not change a later object of the same name
has the uid in its body or in its preconditions; if the uid differs, the API server responds with a conflict.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from headgate.kube.api_resources import APIResource

Object = dict[str, Any]


class Get(msgspec.Struct, frozen=True):
    """``fields``: the paths of the object to read; empty for all."""

    resource: APIResource
    namespace: str
    name: str
    fields: tuple[str, ...] = ()
    subresource: str = ""


class List(msgspec.Struct, frozen=True):
    """An empty ``namespace`` means all namespaces. The body of the response has ``items``."""

    resource: APIResource
    namespace: str = ""
    fields: tuple[str, ...] = ()


class Discover(msgspec.Struct, frozen=True):
    """The aggregated discovery document of ``/api`` or ``/apis``."""

    prefix: Literal["/api", "/apis"]


class Create(msgspec.Struct, frozen=True):
    resource: APIResource
    namespace: str
    obj: Object


class Replace(msgspec.Struct, frozen=True):
    resource: APIResource
    namespace: str
    name: str
    obj: Object
    subresource: str = ""


class Patch(msgspec.Struct, frozen=True):
    resource: APIResource
    namespace: str
    name: str
    body: Object
    how: Literal["merge", "strategic"] = "strategic"
    subresource: str = ""


class Apply(msgspec.Struct, frozen=True):
    """A forced server-side apply: sets these fields for ``manager``, also if other managers own them."""

    resource: APIResource
    namespace: str
    name: str
    obj: Object
    manager: str


class Delete(msgspec.Struct, frozen=True):
    resource: APIResource
    namespace: str
    name: str
    options: Object


class DeleteCollection(msgspec.Struct, frozen=True):
    resource: APIResource
    namespace: str
    options: Object


class EmitEvent(msgspec.Struct, frozen=True):
    """An Event about an object; ``about`` is an object reference. The runtime responds at once and writes the Event
    later."""

    about: Object
    type: Literal["Normal", "Warning"]
    reason: str
    message: str
    component: str


RequestEffect = Get | List | Discover | Create | Replace | Patch | Apply | Delete | DeleteCollection


class ParallelRequests(msgspec.Struct, frozen=True):
    """Parallel requests. The ``parts`` of the response are in the order of the requests."""

    requests: tuple[RequestEffect, ...]


Effect = RequestEffect | ParallelRequests | EmitEvent

UNREACHABLE = 0
_REFUSAL_STATUSES = frozenset({400, 403, 422})


class EffectResponse(msgspec.Struct, frozen=True):
    """``status``: the HTTP status, or :data:`UNREACHABLE`. ``body``: the object, the list, or the Status of an
    error."""

    status: int
    body: Object
    now_s: float
    parts: tuple[EffectResponse, ...] = ()
    """The responses to :class:`ParallelRequests`."""
    was_sent: bool = True
    """Whether the request may have reached the server. False: the connection was refused."""

    @property
    def unknown(self) -> bool:
        """Whether the outcome of the request is unknown."""
        return self.status == UNREACHABLE or self.status >= 500

    @property
    def may_be_performed(self) -> bool:
        """Whether the outcome is unknown, and the request may have reached the server."""
        return self.unknown and self.was_sent

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def missing(self) -> bool:
        """Whether the object does not exist. A path that is not served gives 404, too, but without an object name."""
        return self.status == 404 and bool((self.body.get("details") or {}).get("name"))

    @property
    def conflict(self) -> bool:
        return self.status == 409

    @property
    def refused(self) -> bool:
        """Whether validation, admission or authorization (RBAC) rejected the request. The same request is rejected
        again until another object changes."""
        return self.status in _REFUSAL_STATUSES or (not self.ok and "denied the request" in self.message)

    @property
    def items(self) -> list[Object]:
        return self.body.get("items") or []

    @property
    def message(self) -> str:
        return str(self.body.get("message", "")) or f"the API server returned status {self.status} without a message"

    def has_cause(self, reason: str) -> bool:
        causes = (self.body.get("details") or {}).get("causes") or ()
        return any(cause.get("reason") == reason for cause in causes)
