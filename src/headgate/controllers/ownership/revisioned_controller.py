"""The base class of the controllers that keep a history of their pod template: StatefulSets and DaemonSets.

It watches owners, pods and ControllerRevisions and enqueues the owners, finds or creates the revision of a template,
and deletes old ones. Each kind decides which pods to create and delete, and in which order; ``controller_revisions.py``
decides which revision is current.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator, Iterable
from typing import Any, Final

from headgate.controllers.framework.effects import Effect, EffectResponse, Replace
from headgate.controllers.framework.reconcile import Controller, Enqueue
from headgate.controllers.ownership import controller_revisions
from headgate.controllers.ownership.cache import Key, OnDependentChange, OwnerKind, OwnershipCache
from headgate.controllers.ownership.controller_revisions import (
    CreateRevision,
    KeepRevision,
    RenumberRevision,
    RevisionResult,
)
from headgate.kube.api_resources import CONTROLLER_REVISIONS, PODS, APIResource
from headgate.kube.schema import GroupVersionKind

Object = dict[str, Any]
NewRevision = Callable[[int, int], Object]
"""Returns the body of a revision, from its number and the number of name collisions."""


class RevisionedController(Controller):
    """``batch_s``: the delay of a reconcile after a pod event, so that one reconcile handles several events.
    ``on_pod_change`` is called for every change of a pod.
    """

    def __init__(
        self,
        kind: GroupVersionKind,
        resource: APIResource,
        component: str,
        batch_s: float,
        on_pod_change: OnDependentChange = lambda uid, owner, pod: None,
    ) -> None:
        self._kind: Final = kind
        self._resource: Final = resource
        self._batch_s: Final = batch_s
        self._pods: Final = OwnershipCache(OwnerKind(kind, resource, PODS, component), on_pod_change)
        self._revisions: Final = OwnershipCache(OwnerKind(kind, resource, CONTROLLER_REVISIONS, component))

    # -- watch events ----------------------------------------------------------------------------------------------

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        if resource == self._resource:
            return map(Enqueue, self._owner_changed(obj))
        if resource == PODS:
            return self._enqueue_batched(self._pods.dependent_applied(obj))
        if resource == CONTROLLER_REVISIONS:
            return map(Enqueue, self._revisions.dependent_applied(obj))
        return self._other_applied(obj)

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Enqueue]:
        if resource == self._resource:
            self._on_owner_removed(uid)
            self._revisions.owner_removed(namespace, name, uid)
            return map(Enqueue, self._pods.owner_removed(namespace, name, uid))
        if resource == PODS:
            return self._enqueue_batched(self._pods.dependent_removed(namespace, name, uid))
        if resource == CONTROLLER_REVISIONS:
            return map(Enqueue, self._revisions.dependent_removed(namespace, name, uid))
        return self._other_removed(namespace, name, uid)

    def synced(self, resource: APIResource, revision: str, now_s: float) -> Iterable[Enqueue]:
        if resource == PODS:
            return map(Enqueue, self._pods.synced(revision))
        if resource == CONTROLLER_REVISIONS:
            return map(Enqueue, self._revisions.synced(revision))
        return ()

    @abstractmethod
    def _other_applied(self, obj: Object) -> Iterable[Enqueue]:
        """An object of the additional kind that this controller watches changed."""

    @abstractmethod
    def _other_removed(self, namespace: str, name: str, uid: str) -> Iterable[Enqueue]: ...

    def _on_owner_removed(self, uid: str) -> None:
        """An owner was deleted; the ownership caches are updated next."""
        return

    def _owner_changed(self, owner: Object) -> list[Key]:
        self._revisions.owner_applied(owner)
        return self._pods.owner_applied(owner)

    def _enqueue_batched(self, keys: Iterable[Key]) -> list[Enqueue]:
        return [Enqueue(key, self._batch_s) for key in keys]

    # -- steps -----------------------------------------------------------------------------------------------------

    def _history(self, owner: Object) -> list[Object]:
        return controller_revisions.in_order(self._revisions.dependents(owner["metadata"]["uid"]).values())

    def _revision(self, owner: Object, new: NewRevision) -> Generator[Effect, EffectResponse, RevisionResult]:
        """Finds or creates the revision of the present template. A terminating owner gets no new one."""
        collisions = (owner.get("status") or {}).get("collisionCount") or 0
        match controller_revisions.choose_revision(
            self._history(owner), controller_revisions.data_of(owner, self._kind), self._kind
        ):
            case KeepRevision(revision):
                return RevisionResult(revision, collisions)
            case RenumberRevision(revision, number):
                response = yield from controller_revisions.renumber_revision(revision, number)
                recorded = RevisionResult(response.body if response.ok else None, collisions, response.message)
            case CreateRevision(number):
                if "deletionTimestamp" in owner["metadata"]:
                    return RevisionResult(None, collisions)
                recorded = yield from controller_revisions.create_revision(
                    lambda taken: new(number, taken), collisions, self._kind
                )
        if recorded.revision is not None:
            self._revisions.observe_write(recorded.revision)
        return recorded

    def _drop_revisions(self, excess: Iterable[Object]) -> Generator[Effect, EffectResponse, str | None]:
        for revision in excess:
            response = yield from controller_revisions.delete_revision(revision)
            if response.ok or response.missing:
                self._revisions.deletion_confirmed(revision["metadata"]["uid"])
            elif not response.conflict:
                return response.message
        return None

    def _write_status(self, owner: Object, status: Object) -> Generator[Effect, EffectResponse, str | None]:
        metadata = owner["metadata"]
        body = {**owner, "apiVersion": self._kind.api_version, "kind": self._kind.kind, "status": status}
        response = yield Replace(self._resource, metadata["namespace"], metadata["name"], body, "status")
        if response.ok:
            self._owner_changed(response.body)
        return None if response.ok or response.missing else response.message
