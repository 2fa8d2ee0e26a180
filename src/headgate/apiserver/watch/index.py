"""Which watches a change wakes: the watches of one resource, indexed by their scope.

A watch that requires a value of a field (a node's pods, one object by name) is found by that value, a watch of a
namespace by the namespace, the others always. A change of one pod therefore wakes one of a thousand kubelets that each
watch their own pods. Extra results are harmless: ``watcher.py`` applies the selectors.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Generic, TypeVar

import msgspec

from headgate.store import StoreChange

T = TypeVar("T")


class WatchScope(msgspec.Struct, frozen=True):
    """Only objects of ``namespace``, if it names one; only those with ``value`` in ``field``, if that is given."""

    namespace: str = ""
    field: str = ""
    value: str = ""


class WatchIndex(Generic[T]):
    def __init__(self) -> None:
        self._of_all: Final[dict[T, None]] = {}
        self._of_namespace: Final[dict[str, dict[T, None]]] = {}
        self._of_value: Final[dict[str, dict[str, dict[T, None]]]] = {}  # by field, then by value

    def add(self, follower: T, interest: WatchScope) -> None:
        self._place(interest)[follower] = None

    def remove(self, follower: T, interest: WatchScope) -> None:
        place = self._place(interest)
        place.pop(follower, None)
        if place or place is self._of_all:
            return
        if interest.field:
            del self._of_value[interest.field][interest.value]
            if not self._of_value[interest.field]:
                del self._of_value[interest.field]
        else:
            del self._of_namespace[interest.namespace]

    def all_watches(self) -> list[T]:
        found = dict(self._of_all)
        for place in self._of_namespace.values():
            found.update(place)
        for places in self._of_value.values():
            for place in places.values():
                found.update(place)
        return list(found)

    def matching(self, changes: Iterable[StoreChange]) -> Iterable[T]:
        """Each once, in no particular order."""
        if not self._of_namespace and not self._of_value:
            return list(self._of_all)
        found = dict(self._of_all)
        for change in changes:
            found.update(self._of_namespace.get(change.item.namespace, {}))
            for field, places in self._of_value.items():
                found.update(places.get(change.item.fields.get(field, ""), {}))
                if change.previous is not None:
                    found.update(places.get(change.previous.fields.get(field, ""), {}))
        return list(found)

    def _place(self, interest: WatchScope) -> dict[T, None]:
        if interest.field:
            return self._of_value.setdefault(interest.field, {}).setdefault(interest.value, {})
        if interest.namespace:
            return self._of_namespace.setdefault(interest.namespace, {})
        return self._of_all
