"""The persistent volume controller: binds claims to volumes. It watches both, classes and pods, and enqueues keys.

``claim_sync.py`` and ``volume_sync.py`` have the steps. A volume that becomes available enqueues the pending claims of
its class that it fits; volumes that become available together are matched in one step. No step scans all objects.
``hollow_provisioner.py`` or a CSI driver creates volumes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from headgate.controllers.framework.reconcile import (
    ALL_FIELDS,
    Controller,
    Done,
    Enqueue,
    ReconcileSteps,
    RequeueWithBackoff,
    WatchSpec,
)
from headgate.controllers.volumes import claim_sync, object_fields, volume_sync
from headgate.controllers.volumes.claim_users import POD_FIELDS, ClaimUserIndex
from headgate.controllers.volumes.object_fields import ClaimKey, Object
from headgate.controllers.volumes.volume_cache import PersistentVolumeCache
from headgate.kube.api_resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, STORAGE_CLASSES, APIResource

_BATCH_S: Final = 0.05
_SCHEDULED_S: Final = 5.0
"""How long a pod may be unscheduled before its claims report that they wait for it."""


class _Claim(msgspec.Struct, frozen=True):
    key: ClaimKey


class _Volume(msgspec.Struct, frozen=True):
    name: str


class _Class(msgspec.Struct, frozen=True):
    """The pending claims of a class may have a volume now."""

    name: str


class PersistentVolumeController(Controller):
    name = "volumes"

    def __init__(self) -> None:
        self._cache = PersistentVolumeCache()
        self._users = ClaimUserIndex()

    def watches(self) -> Iterable[WatchSpec]:
        return (
            WatchSpec(PERSISTENT_VOLUMES, ALL_FIELDS),
            WatchSpec(PERSISTENT_VOLUME_CLAIMS, ALL_FIELDS),
            WatchSpec(STORAGE_CLASSES, ALL_FIELDS),
            WatchSpec(PODS, POD_FIELDS),
        )

    # -- watch events ----------------------------------------------------------------------------------------------

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        if resource == PERSISTENT_VOLUME_CLAIMS:
            return self._claim_applied(obj)
        if resource == PERSISTENT_VOLUMES:
            return self._volume_applied(obj)
        if resource == STORAGE_CLASSES:
            return self._class_applied(obj)
        user = self._users.put(obj)
        waiting = () if user is None or user.node or user.has_ended else user.keys
        return [Enqueue(_Claim(key), _SCHEDULED_S) for key in waiting]

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Enqueue]:
        self._cache.forget_events(uid)
        if resource == PERSISTENT_VOLUME_CLAIMS:
            key = (namespace, name)
            claim = self._cache.claims.get(key)
            if claim is not None and object_fields.uid_of(claim) == uid:
                self._cache.drop_claim(key)
            return self._volumes_of(key, claim)
        if resource == PERSISTENT_VOLUMES:
            volume = self._cache.volumes.get(name)
            if volume is not None and object_fields.uid_of(volume) == uid:
                self._cache.drop_volume(name)
            return self._claims_of(name, volume)
        if resource == STORAGE_CLASSES:
            self._cache.classes.pop(name, None)
        else:
            self._users.drop(uid)
        return ()

    def _claim_applied(self, claim: Object) -> Iterable[Enqueue]:
        key = object_fields.key_of(claim)
        return [Enqueue(_Claim(key)), *self._volumes_of(key, claim)] if self._cache.put_claim(claim) else ()

    def _volume_applied(self, volume: Object) -> Iterable[Enqueue]:
        if not self._cache.put_volume(volume):
            return ()
        name = object_fields.name_of(volume)
        enqueues = [Enqueue(_Volume(name)), *self._claims_of(name, volume)]
        if object_fields.claim_ref(volume) is None and object_fields.phase_of(volume) == "Available":
            enqueues.append(Enqueue(_Class(object_fields.storage_class_name_of(volume)), _BATCH_S))
        return enqueues

    def _class_applied(self, storage_class: Object) -> Iterable[Enqueue]:
        name = object_fields.name_of(storage_class)
        self._cache.classes[name] = storage_class
        affected = [
            *self._cache.unbound_claims(name),
            *(self._cache.unbound_claims("") if object_fields.is_default(storage_class) else ()),
        ]
        return [Enqueue(_Claim(key)) for key in affected]

    def _volumes_of(self, key: ClaimKey, claim: Object | None) -> list[Enqueue]:
        named = object_fields.spec_of(claim).get("volumeName") if claim is not None else None
        found = dict.fromkeys([*self._cache.available.reserved_for(key), *([named] if named else [])])
        return [Enqueue(_Volume(each)) for each in found]

    def _claims_of(self, name: str, volume: Object | None) -> list[Enqueue]:
        reserved_key = object_fields.claim_key(volume) if volume is not None else None
        found = dict.fromkeys([*self._cache.claims_naming(name), *([reserved_key] if reserved_key is not None else [])])
        return [Enqueue(_Claim(each)) for each in found]

    # -- reconcile -------------------------------------------------------------------------------------------------

    def reconcile(self, key: _Claim | _Volume | _Class, now_s: float) -> ReconcileSteps:
        match key:
            case _Claim(claim_key):
                waiting = [each for each in self._users.of(claim_key) if not each.node and not each.has_ended]
                problem = yield from claim_sync.sync_claim(self._cache, claim_key, [each.name for each in waiting])
            case _Volume(name):
                problem = yield from volume_sync.sync_volume(self._cache, name)
            case _Class(name):
                return Done(tuple(self._offer(name)))
        return Done() if problem is None else RequeueWithBackoff(problem)

    def _offer(self, storage_class: str) -> Iterable[Enqueue]:
        """Enqueues the pending claims of a class that have a matching volume, oldest first."""
        if object_fields.waits_for_first_consumer(self._cache.classes.get(storage_class)):
            return
        waiting = [self._cache.claims[key] for key in self._cache.unbound_claims(storage_class)]
        taken: set[str] = set()
        for claim in sorted(
            waiting, key=lambda each: (each["metadata"]["creationTimestamp"], object_fields.key_of(each))
        ):
            if len(taken) >= self._cache.available.count(storage_class):
                return
            found = self._cache.available.find(claim, only_prebound=False, taken=taken)
            if found is not None:
                if object_fields.claim_ref(found) is None:
                    taken.add(object_fields.name_of(found))
                yield Enqueue(_Claim(object_fields.key_of(claim)))
