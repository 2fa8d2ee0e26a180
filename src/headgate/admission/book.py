"""What answers need to know of namespaces, queues and groups, kept up to date by whoever hears of changes.

The embedded server lets it follow the store (``cli/admission.py``); the webhook server feeds it from watches. An answer
that misses an object there says so (:class:`Reading`): a PodGroup is often made a moment before its pods, and a watch
may be that moment behind; the API server is then asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headgate.admission.policy import Policy
from headgate.capacity.names import POD_GROUPS, QUEUES
from headgate.capacity.register import Register
from headgate.capacity.rules import Known
from headgate.jobs.ancestors import known_ancestors
from headgate.kube.resource import NAMESPACES, STATEFUL_SETS, Resource
from headgate.quota.kinds.names import LOCAL_QUEUES

Object = dict[str, Any]
Key = tuple[Resource, str, str]

WATCHED: Final[Mapping[Resource, tuple[str, ...]]] = {
    NAMESPACES: ("metadata.annotations", "metadata.labels"),
    QUEUES: (
        "metadata.annotations",
        "spec",
        "status.state",
        "status.conditions",
        "status.allocated",
        "status.reserved",
    ),
    POD_GROUPS: ("spec.queue",),
}
"""What is followed, and which fields of it are looked at."""
_OWNERS: Final = ("metadata.uid", "metadata.labels", "metadata.ownerReferences")

_GROUPS: Final = (*_OWNERS, "spec.replicas", "spec.template.metadata.annotations", "status.replicas")


def watched(policy: Policy) -> Mapping[Resource, tuple[str, ...]]:
    """With what may be above a pod where jobs wait in Kueue's queues, and the queues for those that name none."""
    if not policy.suspends_jobs:
        return WATCHED
    owners = dict.fromkeys(known_ancestors(policy.jobs.kinds).values(), _OWNERS)
    return {**WATCHED, LOCAL_QUEUES: ("metadata.uid",), **owners, STATEFUL_SETS: _GROUPS}


class Book:
    """A ``View`` (``policy.py``)."""

    def __init__(self) -> None:
        self._objects: Final[dict[Key, Object]] = {}
        self._register: Final = Register()
        self._groups: Final[dict[str, int]] = {}

    def applied(self, resource: Resource, wire: Object) -> None:
        metadata = wire["metadata"]
        namespace, name = metadata.get("namespace") or "", metadata["name"]
        self.removed(resource, namespace, name)
        self._objects[resource, namespace, name] = wire
        if resource == QUEUES:
            self._register.apply(wire)
        elif resource == POD_GROUPS:
            queue = _queue(wire)
            self._groups[queue] = self._groups.get(queue, 0) + 1

    def removed(self, resource: Resource, namespace: str, name: str) -> None:
        before = self._objects.pop((resource, namespace, name), None)
        if before is None:
            return
        if resource == QUEUES:
            self._register.remove(name)
        elif resource == POD_GROUPS:
            queue = _queue(before)
            self._groups[queue] -= 1
            if not self._groups[queue]:
                del self._groups[queue]

    def get(self, resource: Resource, namespace: str, name: str, uid: str = "") -> Object | None:
        return self._objects.get((resource, namespace if resource.namespaced else "", name))

    @property
    def queues(self) -> Known:
        return self._register

    def tenants(self, queue: str) -> int:
        return self._groups.get(queue, 0)


class Reading:
    """One answer's look at the book. ``asked``: what was fetched for it meanwhile; ``missed``: what it had to do
    without."""

    def __init__(self, book: Book, asked: Mapping[Key, Object | None]) -> None:
        self.missed: Final[list[Key]] = []
        self._book: Final = book
        self._asked: Final = asked

    def get(self, resource: Resource, namespace: str, name: str, uid: str = "") -> Object | None:
        found = self._book.get(resource, namespace, name)
        if found is not None and uid and found["metadata"].get("uid") != uid:
            found = None  # made anew, and the watch is that moment behind
        key = (resource, namespace if resource.namespaced else "", name)
        if found is None and key not in self._asked:
            self.missed.append(key)
        return found or self._asked.get(key)

    @property
    def queues(self) -> Known:
        return self._book.queues

    def tenants(self, queue: str) -> int:
        return self._book.tenants(queue)


def _queue(group: Object) -> str:
    spec = group.get("spec")
    value = spec.get("queue") if isinstance(spec, dict) else None
    return value if isinstance(value, str) else ""
