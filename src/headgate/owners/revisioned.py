"""What controllers share whose owners keep a history of their template: StatefulSets and DaemonSets.

It hears of owners, pods and ControllerRevisions and says whom that concerns, finds or records the revision that a
template is, and removes old ones. What pods to make and to end, and in which order, is each kind's own; what a revision
is and which one counts is ``revisions.py``'s.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator, Iterable
from typing import Any, Final

from headgate.kube.resource import CONTROLLER_REVISIONS, PODS, Resource
from headgate.kube.schema import GroupVersionKind
from headgate.owners import revisions
from headgate.owners.contract import Controller, Wake
from headgate.owners.effects import Answer, Effect, Replace
from headgate.owners.families.family import Family, Key, OwnerKind, Told
from headgate.owners.revisions import Keep, Record, Recorded, Renumber

Object = dict[str, Any]
NewRevision = Callable[[int, int], Object]
"""The body of a revision, from its number and how often its name was found to be taken."""


class RevisionedOwners(Controller):
    """``gather_s``: news of pods come in bursts, and are looked at together. ``told`` hears of every pod's changes."""

    def __init__(
        self,
        kind: GroupVersionKind,
        resource: Resource,
        component: str,
        gather_s: float,
        told: Told = lambda uid, owner, pod: None,
    ) -> None:
        self._kind: Final = kind
        self._resource: Final = resource
        self._gather_s: Final = gather_s
        self._pods: Final = Family(OwnerKind(kind, resource, PODS, component), told)
        self._revisions: Final = Family(OwnerKind(kind, resource, CONTROLLER_REVISIONS, component))

    # -- events in -------------------------------------------------------------------------------------------------

    def applied(self, resource: Resource, obj: Object, now_s: float) -> Iterable[Wake]:
        if resource == self._resource:
            return map(Wake, self._learn(obj))
        if resource == PODS:
            return self._soon(self._pods.dependent_applied(obj))
        if resource == CONTROLLER_REVISIONS:
            return map(Wake, self._revisions.dependent_applied(obj))
        return self._other_applied(obj)

    def removed(self, resource: Resource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Wake]:
        if resource == self._resource:
            self._forgotten(uid)
            self._revisions.owner_removed(namespace, name, uid)
            return map(Wake, self._pods.owner_removed(namespace, name, uid))
        if resource == PODS:
            return self._soon(self._pods.dependent_removed(namespace, name, uid))
        if resource == CONTROLLER_REVISIONS:
            return map(Wake, self._revisions.dependent_removed(namespace, name, uid))
        return self._other_removed(namespace, name, uid)

    def synced(self, resource: Resource, revision: str, now_s: float) -> Iterable[Wake]:
        if resource == PODS:
            return map(Wake, self._pods.synced(revision))
        if resource == CONTROLLER_REVISIONS:
            return map(Wake, self._revisions.synced(revision))
        return ()

    @abstractmethod
    def _other_applied(self, obj: Object) -> Iterable[Wake]:
        """An object of the further kind that this controller listens to."""

    @abstractmethod
    def _other_removed(self, namespace: str, name: str, uid: str) -> Iterable[Wake]: ...

    def _forgotten(self, uid: str) -> None:
        """An owner is gone; the families are told next."""
        return

    def _learn(self, owner: Object) -> list[Key]:
        self._revisions.owner_applied(owner)
        return self._pods.owner_applied(owner)

    def _soon(self, keys: Iterable[Key]) -> list[Wake]:
        return [Wake(key, self._gather_s) for key in keys]

    # -- steps -----------------------------------------------------------------------------------------------------

    def _history(self, owner: Object) -> list[Object]:
        return revisions.in_order(self._revisions.dependents(owner["metadata"]["uid"]).values())

    def _revision(self, owner: Object, new: NewRevision) -> Generator[Effect, Answer, Recorded]:
        """The revision that the present template is, or becomes now. An owner that is going gets no new one."""
        collisions = (owner.get("status") or {}).get("collisionCount") or 0
        match revisions.choose(self._history(owner), revisions.data_of(owner, self._kind), self._kind):
            case Keep(revision):
                return Recorded(revision, collisions)
            case Renumber(revision, number):
                answer = yield from revisions.renumber(revision, number)
                recorded = Recorded(answer.body if answer.ok else None, collisions, answer.message)
            case Record(number):
                if "deletionTimestamp" in owner["metadata"]:
                    return Recorded(None, collisions)
                recorded = yield from revisions.record(lambda taken: new(number, taken), collisions, self._kind)
        if recorded.revision is not None:
            self._revisions.wrote(recorded.revision)
        return recorded

    def _drop_revisions(self, going: Iterable[Object]) -> Generator[Effect, Answer, str | None]:
        for revision in going:
            answer = yield from revisions.forget(revision)
            if answer.ok or answer.missing:
                self._revisions.is_gone(revision["metadata"]["uid"])
            elif not answer.conflict:
                return answer.message
        return None

    def _tell_status(self, owner: Object, status: Object) -> Generator[Effect, Answer, str | None]:
        metadata = owner["metadata"]
        body = {**owner, "apiVersion": self._kind.api_version, "kind": self._kind.kind, "status": status}
        answer = yield Replace(self._resource, metadata["namespace"], metadata["name"], body, "status")
        if answer.ok:
            self._learn(answer.body)
        return None if answer.ok or answer.missing else answer.message
