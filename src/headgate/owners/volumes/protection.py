"""Keeps claims that pods use, and volumes that are bound, from going: the finalizers that each of them is born with.

They are taken off what is being deleted when nothing uses it any more. The server is asked for pods before that, once
for all claims of a namespace: a pod that came a moment ago may not have been heard of yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from headgate.kube.resource import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, Resource
from headgate.owners.contract import Again, Controller, Done, Interest, Steps, Wake
from headgate.owners.effects import List
from headgate.owners.volumes import facts
from headgate.owners.volumes.facts import ClaimKey, Object
from headgate.owners.volumes.finalizers import FINALIZER_FIELDS, change_protection, is_protected
from headgate.owners.volumes.shelf import Step
from headgate.owners.volumes.users import POD_FIELDS, User, Users, read_user, uses


class _Namespace(msgspec.Struct, frozen=True):
    name: str


class _Volume(msgspec.Struct, frozen=True):
    name: str


class StorageProtection(Controller):
    name = "storage-protection"

    def __init__(self) -> None:
        self._users = Users()
        self._going: Final[dict[str, dict[ClaimKey, Object]]] = {}
        """Claims that are being deleted and still protected, by namespace."""
        self._unprotected: Final[dict[str, dict[ClaimKey, Object]]] = {}
        self._volumes: Final[dict[str, Object]] = {}
        """Volumes about which something is to be done."""

    def interests(self) -> Iterable[Interest]:
        return (
            Interest(PERSISTENT_VOLUME_CLAIMS, FINALIZER_FIELDS | {"metadata.ownerReferences"}),
            Interest(PERSISTENT_VOLUMES, FINALIZER_FIELDS | {"status.phase"}),
            Interest(PODS, POD_FIELDS),
        )

    # -- events in -------------------------------------------------------------------------------------------------

    def applied(self, resource: Resource, obj: Object, now_s: float) -> Iterable[Wake]:
        if resource == PODS:
            user = self._users.put(obj)
            return () if user is None or (user.node and not user.has_ended) else self._concerned(user)
        protected = is_protected(resource, obj)
        has_work = protected == facts.is_going(obj)
        if resource == PERSISTENT_VOLUMES:
            self._volumes.pop(facts.name_of(obj), None)
            if has_work:
                self._volumes[facts.name_of(obj)] = obj
            return (Wake(_Volume(facts.name_of(obj))),) if has_work else ()
        key = facts.key_of(obj)
        self._forget(key)
        if has_work:
            (self._going if protected else self._unprotected).setdefault(key[0], {})[key] = obj
        return (Wake(_Namespace(key[0])),) if has_work else ()

    def removed(self, resource: Resource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Wake]:
        if resource == PODS:
            user = self._users.drop(uid)
            return () if user is None else self._concerned(user)
        if resource == PERSISTENT_VOLUMES:
            self._volumes.pop(name, None)
        else:
            self._forget((namespace, name))
        return ()

    def _concerned(self, user: User) -> Iterable[Wake]:
        going = self._going.get(user.namespace, {})
        return (Wake(_Namespace(user.namespace)),) if any(key in going for key in user.keys) else ()

    def _forget(self, key: ClaimKey) -> None:
        for index in (self._going, self._unprotected):
            there = index.get(key[0], {})
            there.pop(key, None)
            if not there:
                index.pop(key[0], None)

    # -- work ------------------------------------------------------------------------------------------------------

    def work(self, key: _Namespace | _Volume, now_s: float) -> Steps:
        if isinstance(key, _Volume):
            volume = self._volumes.get(key.name)
            if volume is None or (facts.is_going(volume) and facts.phase_of(volume) == "Bound"):
                return Done()
            problem = yield from change_protection(PERSISTENT_VOLUMES, volume)
        else:
            problem = yield from self._look_at_claims(key.name)
        return Done() if problem is None else Again(problem)

    def _look_at_claims(self, namespace: str) -> Step:
        problem = None
        for claim in list(self._unprotected.get(namespace, {}).values()):
            problem = (yield from change_protection(PERSISTENT_VOLUME_CLAIMS, claim)) or problem
        going = self._going.get(namespace, {}).items()
        unused = [claim for key, claim in sorted(going) if not any(uses(each, claim) for each in self._users.of(key))]
        if not unused:
            return problem
        answer = yield List(PODS, namespace, tuple(sorted(POD_FIELDS)))
        if not answer.ok:
            return answer.message
        pods = [read_user(each) for each in answer.items]
        for claim in unused:
            if not any(uses(each, claim) for each in pods):
                problem = (yield from change_protection(PERSISTENT_VOLUME_CLAIMS, claim)) or problem
        return problem
