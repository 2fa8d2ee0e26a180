"""What the webhook server knows of namespaces, queues and groups: what its watches told, and whom it had to ask.

Pure. An answer that misses an object says so (:class:`Reading`): a PodGroup is often made a moment before its pods, and
a watch may be that moment behind. ``shell.py`` then asks the API server and answers again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from headgate.capacity.names import POD_GROUPS, QUEUES
from headgate.kube.resource import NAMESPACES, Resource

Object = dict[str, Any]
Key = tuple[Resource, str, str]

WATCHED: Final[Mapping[Resource, tuple[str, ...]]] = {
    NAMESPACES: ("metadata.annotations",),
    QUEUES: ("metadata.annotations", "spec", "status.state"),
    POD_GROUPS: ("spec.queue",),
}
"""What is watched, and which fields of it are kept."""


class Book:
    def __init__(self) -> None:
        self._objects: Final[dict[Key, Object]] = {}
        self._children: Final[dict[str, dict[str, Object]]] = {}
        self._groups: Final[dict[str, set[tuple[str, str]]]] = {}

    def applied(self, resource: Resource, wire: Object) -> None:
        metadata = wire["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        self.removed(resource, namespace, name)
        self._objects[resource, namespace, name] = wire
        if resource == QUEUES and (parent := _spec(wire, "parent")):
            self._children.setdefault(parent, {})[name] = wire
        if resource == POD_GROUPS and (queue := _spec(wire, "queue")):
            self._groups.setdefault(queue, set()).add((namespace, name))

    def removed(self, resource: Resource, namespace: str, name: str) -> None:
        before = self._objects.pop((resource, namespace, name), None)
        if before is None:
            return
        if resource == QUEUES and (siblings := self._children.get(_spec(before, "parent"))):
            siblings.pop(name, None)
        if resource == POD_GROUPS and (groups := self._groups.get(_spec(before, "queue"))):
            groups.discard((namespace, name))
            if not groups:
                del self._groups[_spec(before, "queue")]

    def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        return self._objects.get((resource, namespace if resource.namespaced else "", name))

    def children(self, queue: str) -> Iterable[Object]:
        return list(self._children.get(queue, {}).values())

    def has_groups(self, queue: str) -> bool:
        return queue in self._groups


class Reading:
    """One answer's look at the book. ``asked``: what was fetched for it meanwhile; ``missed``: what it had to do
    without."""

    def __init__(self, book: Book, asked: Mapping[Key, Object | None]) -> None:
        self.missed: Final[list[Key]] = []
        self._book: Final = book
        self._asked: Final = asked

    def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        found = self._book.get(resource, namespace, name)
        key = (resource, namespace if resource.namespaced else "", name)
        if found is None and key not in self._asked:
            self.missed.append(key)
        return found or self._asked.get(key)

    def children(self, queue: str) -> Iterable[Object]:
        return self._book.children(queue)

    def has_groups(self, queue: str) -> bool:
        return self._book.has_groups(queue)


def _spec(obj: Object, field: str) -> str:
    spec = obj.get("spec")
    value = spec.get(field) if isinstance(spec, dict) else None
    return value if isinstance(value, str) else ""
