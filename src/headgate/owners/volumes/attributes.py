"""Keeps a VolumeAttributesClass from going as long as a claim or a volume names it, as the finalizer asks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from headgate.kube.resource import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    VOLUME_ATTRIBUTES_CLASSES,
    Resource,
)
from headgate.owners.contract import Again, Controller, Done, Interest, Steps, Wake
from headgate.owners.volumes import facts
from headgate.owners.volumes.facts import Object
from headgate.owners.volumes.finalizers import FINALIZER_FIELDS, change_protection, is_protected

_NAMED: Final = "spec.volumeAttributesClassName"
_NAMED_BY_CLAIMS: Final = frozenset({_NAMED, "status.currentVolumeAttributesClassName", "status.modifyVolumeStatus"})


class _Class(msgspec.Struct, frozen=True):
    name: str


class AttributesProtection(Controller):
    name = "attributes-protection"

    def __init__(self) -> None:
        self._open: Final[dict[str, Object]] = {}
        """Classes about which something is to be done."""
        self._named: Final[dict[str, frozenset[str]]] = {}
        self._users: Final[dict[str, set[str]]] = {}

    def interests(self) -> Iterable[Interest]:
        return (
            Interest(VOLUME_ATTRIBUTES_CLASSES, FINALIZER_FIELDS),
            Interest(PERSISTENT_VOLUMES, frozenset({_NAMED})),
            Interest(PERSISTENT_VOLUME_CLAIMS, _NAMED_BY_CLAIMS),
        )

    def applied(self, resource: Resource, obj: Object, now_s: float) -> Iterable[Wake]:
        if resource != VOLUME_ATTRIBUTES_CLASSES:
            return self._put(facts.uid_of(obj), _names(obj))
        name = facts.name_of(obj)
        self._open.pop(name, None)
        if is_protected(resource, obj) != facts.is_going(obj):
            return ()
        self._open[name] = obj
        return (Wake(_Class(name)),)

    def removed(self, resource: Resource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Wake]:
        if resource == VOLUME_ATTRIBUTES_CLASSES:
            self._open.pop(name, None)
            return ()
        return self._put(uid, frozenset())

    def _put(self, uid: str, names: frozenset[str]) -> Iterable[Wake]:
        before = self._named.pop(uid, frozenset())
        if names:
            self._named[uid] = names
        for name in names - before:
            self._users.setdefault(name, set()).add(uid)
        for name in before - names:
            self._users[name].discard(uid)
            if not self._users[name]:
                del self._users[name]
        return [Wake(_Class(name)) for name in sorted(before - names) if name in self._open]

    def work(self, key: _Class, now_s: float) -> Steps:
        found = self._open.get(key.name)
        if found is None or (facts.is_going(found) and key.name in self._users):
            return Done()
        problem = yield from change_protection(VOLUME_ATTRIBUTES_CLASSES, found)
        return Done() if problem is None else Again(problem)


def _names(obj: Object) -> frozenset[str]:
    status = obj.get("status") or {}
    target = (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName")
    named = facts.spec_of(obj).get("volumeAttributesClassName"), status.get("currentVolumeAttributesClassName"), target
    return frozenset(each for each in named if each)
