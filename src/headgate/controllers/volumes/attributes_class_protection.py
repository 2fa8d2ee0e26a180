"""Keeps the finalizer of a VolumeAttributesClass while a claim or a volume names the class."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from headgate.controllers.framework.reconcile import (
    Controller,
    Done,
    Enqueue,
    ReconcileSteps,
    RequeueWithBackoff,
    WatchSpec,
)
from headgate.controllers.volumes import object_fields
from headgate.controllers.volumes.finalizers import FINALIZER_FIELDS, change_protection, is_protected
from headgate.controllers.volumes.object_fields import Object
from headgate.kube.api_resources import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    VOLUME_ATTRIBUTES_CLASSES,
    APIResource,
)

_NAMED: Final = "spec.volumeAttributesClassName"
_NAMED_BY_CLAIMS: Final = frozenset({_NAMED, "status.currentVolumeAttributesClassName", "status.modifyVolumeStatus"})


class _Class(msgspec.Struct, frozen=True):
    name: str


class VolumeAttributesClassProtection(Controller):
    name = "attributes-protection"

    def __init__(self) -> None:
        self._pending: Final[dict[str, Object]] = {}
        """Classes whose finalizer may have to be changed."""
        self._classes_of: Final[dict[str, frozenset[str]]] = {}
        self._users: Final[dict[str, set[str]]] = {}

    def watches(self) -> Iterable[WatchSpec]:
        return (
            WatchSpec(VOLUME_ATTRIBUTES_CLASSES, FINALIZER_FIELDS),
            WatchSpec(PERSISTENT_VOLUMES, frozenset({_NAMED})),
            WatchSpec(PERSISTENT_VOLUME_CLAIMS, _NAMED_BY_CLAIMS),
        )

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        if resource != VOLUME_ATTRIBUTES_CLASSES:
            return self._put(object_fields.uid_of(obj), _names(obj))
        name = object_fields.name_of(obj)
        self._pending.pop(name, None)
        if is_protected(resource, obj) != object_fields.is_being_deleted(obj):
            return ()
        self._pending[name] = obj
        return (Enqueue(_Class(name)),)

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Enqueue]:
        if resource == VOLUME_ATTRIBUTES_CLASSES:
            self._pending.pop(name, None)
            return ()
        return self._put(uid, frozenset())

    def _put(self, uid: str, names: frozenset[str]) -> Iterable[Enqueue]:
        before = self._classes_of.pop(uid, frozenset())
        if names:
            self._classes_of[uid] = names
        for name in names - before:
            self._users.setdefault(name, set()).add(uid)
        for name in before - names:
            self._users[name].discard(uid)
            if not self._users[name]:
                del self._users[name]
        return [Enqueue(_Class(name)) for name in sorted(before - names) if name in self._pending]

    def reconcile(self, key: _Class, now_s: float) -> ReconcileSteps:
        found = self._pending.get(key.name)
        if found is None or (object_fields.is_being_deleted(found) and key.name in self._users):
            return Done()
        problem = yield from change_protection(VOLUME_ATTRIBUTES_CLASSES, found)
        return Done() if problem is None else RequeueWithBackoff(problem)


def _names(obj: Object) -> frozenset[str]:
    status = obj.get("status") or {}
    target = (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName")
    named = (
        object_fields.spec_of(obj).get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        target,
    )
    return frozenset(each for each in named if each)
