"""Protects claims that pods use, and volumes that are bound, by the finalizers that they are created with.

The finalizer of a deleted object is removed when nothing uses the object any more. Before that the server is asked for
pods, once for all claims of a namespace: the watch may not have delivered a new pod yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from headgate.controllers.framework.effects import List
from headgate.controllers.framework.reconcile import (
    Controller,
    Done,
    Enqueue,
    ReconcileSteps,
    RequeueWithBackoff,
    WatchSpec,
)
from headgate.controllers.volumes import object_fields
from headgate.controllers.volumes.claim_users import POD_FIELDS, ClaimUser, ClaimUserIndex, read_claim_user, uses
from headgate.controllers.volumes.finalizers import FINALIZER_FIELDS, change_protection, is_protected
from headgate.controllers.volumes.object_fields import ClaimKey, Object
from headgate.controllers.volumes.volume_cache import WriteSteps
from headgate.kube.api_resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, APIResource


class _Namespace(msgspec.Struct, frozen=True):
    name: str


class _Volume(msgspec.Struct, frozen=True):
    name: str


class StorageProtectionController(Controller):
    name = "storage-protection"

    def __init__(self) -> None:
        self._users = ClaimUserIndex()
        self._terminating: Final[dict[str, dict[ClaimKey, Object]]] = {}
        """Claims that are being deleted and still protected, by namespace."""
        self._unprotected: Final[dict[str, dict[ClaimKey, Object]]] = {}
        self._volumes: Final[dict[str, Object]] = {}
        """Volumes whose finalizer may have to be changed."""

    def watches(self) -> Iterable[WatchSpec]:
        return (
            WatchSpec(PERSISTENT_VOLUME_CLAIMS, FINALIZER_FIELDS | {"metadata.ownerReferences"}),
            WatchSpec(PERSISTENT_VOLUMES, FINALIZER_FIELDS | {"status.phase"}),
            WatchSpec(PODS, POD_FIELDS),
        )

    # -- watch events ----------------------------------------------------------------------------------------------

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        if resource == PODS:
            user = self._users.put(obj)
            return () if user is None or (user.node and not user.has_ended) else self._affected(user)
        protected = is_protected(resource, obj)
        has_work = protected == object_fields.is_being_deleted(obj)
        if resource == PERSISTENT_VOLUMES:
            self._volumes.pop(object_fields.name_of(obj), None)
            if has_work:
                self._volumes[object_fields.name_of(obj)] = obj
            return (Enqueue(_Volume(object_fields.name_of(obj))),) if has_work else ()
        key = object_fields.key_of(obj)
        self._forget(key)
        if has_work:
            (self._terminating if protected else self._unprotected).setdefault(key[0], {})[key] = obj
        return (Enqueue(_Namespace(key[0])),) if has_work else ()

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Enqueue]:
        if resource == PODS:
            user = self._users.drop(uid)
            return () if user is None else self._affected(user)
        if resource == PERSISTENT_VOLUMES:
            self._volumes.pop(name, None)
        else:
            self._forget((namespace, name))
        return ()

    def _affected(self, user: ClaimUser) -> Iterable[Enqueue]:
        terminating = self._terminating.get(user.namespace, {})
        return (Enqueue(_Namespace(user.namespace)),) if any(key in terminating for key in user.keys) else ()

    def _forget(self, key: ClaimKey) -> None:
        for index in (self._terminating, self._unprotected):
            claims = index.get(key[0], {})
            claims.pop(key, None)
            if not claims:
                index.pop(key[0], None)

    # -- reconcile -------------------------------------------------------------------------------------------------

    def reconcile(self, key: _Namespace | _Volume, now_s: float) -> ReconcileSteps:
        if isinstance(key, _Volume):
            volume = self._volumes.get(key.name)
            if volume is None or (object_fields.is_being_deleted(volume) and object_fields.phase_of(volume) == "Bound"):
                return Done()
            problem = yield from change_protection(PERSISTENT_VOLUMES, volume)
        else:
            problem = yield from self._sync_claims(key.name)
        return Done() if problem is None else RequeueWithBackoff(problem)

    def _sync_claims(self, namespace: str) -> WriteSteps:
        problem = None
        for claim in list(self._unprotected.get(namespace, {}).values()):
            problem = (yield from change_protection(PERSISTENT_VOLUME_CLAIMS, claim)) or problem
        terminating = self._terminating.get(namespace, {}).items()
        unused = [
            claim for key, claim in sorted(terminating) if not any(uses(each, claim) for each in self._users.of(key))
        ]
        if not unused:
            return problem
        response = yield List(PODS, namespace, tuple(sorted(POD_FIELDS)))
        if not response.ok:
            return response.message
        pods = [read_claim_user(each) for each in response.items]
        for claim in unused:
            if not any(uses(each, claim) for each in pods):
                problem = (yield from change_protection(PERSISTENT_VOLUME_CLAIMS, claim)) or problem
        return problem
