"""Binds claims to volumes: hears of both, of classes and of pods, and says which of them need a look.

The looks are in ``claims.py`` and ``volumes.py``. A volume that becomes free is offered to the claims of its class
that wait, all at once for those that come together; nobody looks through all of anything. Who makes volumes is
``provisioner.py`` or a driver.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from headgate.kube.resource import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, STORAGE_CLASSES, Resource
from headgate.owners.contract import WHOLE, Again, Controller, Done, Interest, Steps, Wake
from headgate.owners.volumes import claims, facts, volumes
from headgate.owners.volumes.facts import ClaimKey, Object
from headgate.owners.volumes.shelf import Shelf
from headgate.owners.volumes.users import POD_FIELDS, Users

_GATHERED_S: Final = 0.05
_SCHEDULED_S: Final = 5.0
"""How long a pod is given to find a node before its claims say that they wait for that."""


class _Claim(msgspec.Struct, frozen=True):
    key: ClaimKey


class _Volume(msgspec.Struct, frozen=True):
    name: str


class _Class(msgspec.Struct, frozen=True):
    """There is something new for the claims of a class that wait."""

    name: str


class Volumes(Controller):
    name = "volumes"

    def __init__(self) -> None:
        self._shelf = Shelf()
        self._users = Users()

    def interests(self) -> Iterable[Interest]:
        return (
            Interest(PERSISTENT_VOLUMES, WHOLE),
            Interest(PERSISTENT_VOLUME_CLAIMS, WHOLE),
            Interest(STORAGE_CLASSES, WHOLE),
            Interest(PODS, POD_FIELDS),
        )

    # -- events in -------------------------------------------------------------------------------------------------

    def applied(self, resource: Resource, obj: Object, now_s: float) -> Iterable[Wake]:
        if resource == PERSISTENT_VOLUME_CLAIMS:
            return self._claim_applied(obj)
        if resource == PERSISTENT_VOLUMES:
            return self._volume_applied(obj)
        if resource == STORAGE_CLASSES:
            return self._class_applied(obj)
        user = self._users.put(obj)
        waiting = () if user is None or user.node or user.has_ended else user.keys
        return [Wake(_Claim(key), _SCHEDULED_S) for key in waiting]

    def removed(self, resource: Resource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Wake]:
        self._shelf.forget(uid)
        if resource == PERSISTENT_VOLUME_CLAIMS:
            key = (namespace, name)
            claim = self._shelf.claims.get(key)
            if claim is not None and facts.uid_of(claim) == uid:
                self._shelf.drop_claim(key)
            return self._volumes_of(key, claim)
        if resource == PERSISTENT_VOLUMES:
            volume = self._shelf.volumes.get(name)
            if volume is not None and facts.uid_of(volume) == uid:
                self._shelf.drop_volume(name)
            return self._claims_of(name, volume)
        if resource == STORAGE_CLASSES:
            self._shelf.classes.pop(name, None)
        else:
            self._users.drop(uid)
        return ()

    def _claim_applied(self, claim: Object) -> Iterable[Wake]:
        key = facts.key_of(claim)
        return [Wake(_Claim(key)), *self._volumes_of(key, claim)] if self._shelf.put_claim(claim) else ()

    def _volume_applied(self, volume: Object) -> Iterable[Wake]:
        if not self._shelf.put_volume(volume):
            return ()
        name = facts.name_of(volume)
        wakes = [Wake(_Volume(name)), *self._claims_of(name, volume)]
        if facts.claim_ref(volume) is None and facts.phase_of(volume) == "Available":
            wakes.append(Wake(_Class(facts.class_of(volume)), _GATHERED_S))
        return wakes

    def _class_applied(self, storage_class: Object) -> Iterable[Wake]:
        name = facts.name_of(storage_class)
        self._shelf.classes[name] = storage_class
        concerned = [*self._shelf.waiting(name), *(self._shelf.waiting("") if facts.is_default(storage_class) else ())]
        return [Wake(_Claim(key)) for key in concerned]

    def _volumes_of(self, key: ClaimKey, claim: Object | None) -> list[Wake]:
        named = facts.spec_of(claim).get("volumeName") if claim is not None else None
        found = dict.fromkeys([*self._shelf.free.meant_for(key), *([named] if named else [])])
        return [Wake(_Volume(each)) for each in found]

    def _claims_of(self, name: str, volume: Object | None) -> list[Wake]:
        meant_for = facts.claim_key(volume) if volume is not None else None
        found = dict.fromkeys([*self._shelf.naming(name), *([meant_for] if meant_for is not None else [])])
        return [Wake(_Claim(each)) for each in found]

    # -- work ------------------------------------------------------------------------------------------------------

    def work(self, key: _Claim | _Volume | _Class, now_s: float) -> Steps:
        match key:
            case _Claim(claim_key):
                waiting = [each for each in self._users.of(claim_key) if not each.node and not each.has_ended]
                problem = yield from claims.settle(self._shelf, claim_key, [each.name for each in waiting])
            case _Volume(name):
                problem = yield from volumes.settle(self._shelf, name)
            case _Class(name):
                return Done(tuple(self._offer(name)))
        return Done() if problem is None else Again(problem)

    def _offer(self, storage_class: str) -> Iterable[Wake]:
        """The claims of a class for which there is a volume now, the longest waiting first."""
        if facts.waits(self._shelf.classes.get(storage_class)):
            return
        waiting = [self._shelf.claims[key] for key in self._shelf.waiting(storage_class)]
        taken: set[str] = set()
        for claim in sorted(waiting, key=lambda each: (each["metadata"]["creationTimestamp"], facts.key_of(each))):
            if len(taken) >= self._shelf.free.count(storage_class):
                return
            found = self._shelf.free.find(claim, only_meant=False, taken=taken)
            if found is not None:
                if facts.claim_ref(found) is None:
                    taken.add(facts.name_of(found))
                yield Wake(_Claim(facts.key_of(claim)))
