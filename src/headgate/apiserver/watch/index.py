"""The index of open watches of one resource by their scope: it finds the watches that a change wakes.

A watch that requires a value of a field (the pods of a node, one object by name) is found by that value, and a watch of
a namespace by the namespace. All other watches are woken by every change. If a thousand kubelets watch their own pods,
a change of one pod wakes one of them. To wake a watch without need is harmless: ``watcher.py`` applies the selectors.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Generic, TypeVar

import msgspec

from headgate.store import StoreChange

T = TypeVar("T")


class WatchScope(msgspec.Struct, frozen=True):
    """Objects of ``namespace``, if it is set, and with ``value`` in ``field``, if that is set."""

    namespace: str = ""
    field: str = ""
    value: str = ""


class WatchIndex(Generic[T]):
    def __init__(self) -> None:
        self._of_all: Final[dict[T, None]] = {}
        self._of_namespace: Final[dict[str, dict[T, None]]] = {}
        self._of_value: Final[dict[str, dict[str, dict[T, None]]]] = {}  # by field, then by value

    def add(self, watch: T, scope: WatchScope) -> None:
        self._bucket(scope)[watch] = None

    def remove(self, watch: T, scope: WatchScope) -> None:
        bucket = self._bucket(scope)
        bucket.pop(watch, None)
        if bucket or bucket is self._of_all:
            return
        if scope.field:
            del self._of_value[scope.field][scope.value]
            if not self._of_value[scope.field]:
                del self._of_value[scope.field]
        else:
            del self._of_namespace[scope.namespace]

    def all_watches(self) -> list[T]:
        found = dict(self._of_all)
        for bucket in self._of_namespace.values():
            found.update(bucket)
        for buckets in self._of_value.values():
            for bucket in buckets.values():
                found.update(bucket)
        return list(found)

    def matching(self, changes: Iterable[StoreChange]) -> Iterable[T]:
        """The watches that one of the changes wakes, each once, in no particular order."""
        if not self._of_namespace and not self._of_value:
            return list(self._of_all)
        found = dict(self._of_all)
        for change in changes:
            found.update(self._of_namespace.get(change.item.namespace, {}))
            for field, buckets in self._of_value.items():
                found.update(buckets.get(change.item.fields.get(field, ""), {}))
                if change.previous is not None:
                    found.update(buckets.get(change.previous.fields.get(field, ""), {}))
        return list(found)

    def _bucket(self, scope: WatchScope) -> dict[T, None]:
        if scope.field:
            return self._of_value.setdefault(scope.field, {}).setdefault(scope.value, {})
        if scope.namespace:
            return self._of_namespace.setdefault(scope.namespace, {})
        return self._of_all
