"""The ReplicaSet controller: creates and deletes pods until each ReplicaSet has the requested number.

It adopts pods that have no controller and match the selector, and releases pods that no longer match. One pass creates
or deletes a bounded number of pods and then requeues the key. The status follows the counts (``counts.py``), which own
writes update at once. ``deletion_order.py`` decides which pods are deleted first.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any, Final

import msgspec

from headgate.controllers.framework.effects import Effect, EffectResponse, Patch
from headgate.controllers.framework.reconcile import (
    ALL_FIELDS,
    Controller,
    Done,
    Enqueue,
    ReconcileSteps,
    RequeueAfter,
    RequeueWithBackoff,
    Result,
    WatchSpec,
)
from headgate.controllers.ownership import pods as facts
from headgate.controllers.ownership.adoption import claim
from headgate.controllers.ownership.cache import Key, OwnerKind, OwnershipCache
from headgate.controllers.ownership.dependents import create_dependents, delete_dependents, resolve_unconfirmed
from headgate.controllers.replica_sets.counts import ReplicaSetCounter, ReplicaSetCounts
from headgate.controllers.replica_sets.deletion_order import on_nodes, pods_to_delete
from headgate.controllers.replica_sets.status import desired_replicas, differs, failure, min_ready_s, status
from headgate.kube.api_resources import PODS, REPLICA_SETS, APIResource
from headgate.kube.object_meta import controller_of
from headgate.kube.schema import GroupVersionKind
from headgate.kube.timestamps import format_time

BURST: Final = 500
"""The maximum number of pods that one reconcile creates or deletes."""


class ReplicaPlan(msgspec.Struct, frozen=True):
    """How many pods to create or to delete; one of the two numbers is zero. ``unfinished``: the next reconcile has to
    create or delete more."""

    create: int = 0
    delete: int = 0
    unfinished: bool = False


def plan_replicas(desired: int, active: int, burst: int = BURST) -> ReplicaPlan:
    missing = desired - active
    if missing > 0:
        return ReplicaPlan(create=min(missing, burst), unfinished=missing > burst)
    return ReplicaPlan(delete=min(-missing, burst), unfinished=-missing > burst)


Object = dict[str, Any]

KIND: Final = GroupVersionKind("apps", "v1", "ReplicaSet")
_OWNER: Final = OwnerKind(KIND, REPLICA_SETS, PODS, "replicaset-controller")
_POD_FIELDS: Final = facts.FIELDS | {
    "spec.initContainers",
    "status.containerStatuses",
    "status.initContainerStatuses",
}
BATCH_S: Final = 0.02
"""The delay before a ReplicaSet is reconciled after a change of a pod. The changes of many pods that arrive together
lead to one reconcile."""


class _Problem(msgspec.Struct, frozen=True):
    """Why pods could not be created or deleted. ``condition``: the condition ReplicaFailure for the status; None if the
    outcome of the request is unknown."""

    message: str
    condition: Object | None


class ReplicaSetController(Controller):
    name = "replica-sets"

    def __init__(self, random_suffix: Callable[[], str], burst: int = BURST, batch_s: float = BATCH_S) -> None:
        self._random_suffix = random_suffix
        self._burst = burst
        self._batch_s = batch_s
        self._counter: Final = ReplicaSetCounter()
        self._cache: Final = OwnershipCache(_OWNER, self._on_pod_change)
        self._siblings: Final[dict[str, dict[str, None]]] = {}  # uids of ReplicaSets by the uid of their controller
        self._parents: Final[dict[str, str]] = {}  # the uid of the controller by the uid of a ReplicaSet

    def watches(self) -> Iterable[WatchSpec]:
        return WatchSpec(REPLICA_SETS, ALL_FIELDS), WatchSpec(PODS, _POD_FIELDS)

    # -- watch events ----------------------------------------------------------------------------------------------

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        if resource == PODS:
            return [Enqueue(key, self._batch_s) for key in self._cache.dependent_applied(obj)]
        return [Enqueue(key) for key in self._owner_applied(obj)]

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Enqueue]:
        if resource == PODS:
            return [Enqueue(key, self._batch_s) for key in self._cache.dependent_removed(namespace, name, uid)]
        self._cache.owner_removed(namespace, name, uid)
        self._counter.owner_removed(uid)
        self._set_parent(uid, None)
        return ()

    def synced(self, resource: APIResource, revision: str, now_s: float) -> Iterable[Enqueue]:
        return map(Enqueue, self._cache.synced(revision)) if resource == PODS else ()

    def _owner_applied(self, obj: Object) -> list[Key]:
        affected = self._cache.owner_applied(obj)
        if affected:
            parent = controller_of(obj)
            self._set_parent(obj["metadata"]["uid"], None if parent is None else str(parent.get("uid")))
            self._counter.owner_applied(obj)
        return affected

    def _set_parent(self, uid: str, parent: str | None) -> None:
        before = self._parents.pop(uid, None)
        if before is not None:
            siblings = self._siblings[before]
            siblings.pop(uid, None)
            if not siblings:
                del self._siblings[before]
        if parent is not None:
            self._parents[uid] = parent
            self._siblings.setdefault(parent, {})[uid] = None

    def _on_pod_change(self, uid: str, owner: str | None, pod: Object | None) -> None:
        self._counter.pod(uid, owner, pod, self._cache.is_terminating(uid))

    # -- reconcile -------------------------------------------------------------------------------------------------

    def reconcile(self, key: Key, now_s: float) -> ReconcileSteps:
        owner = self._cache.owner(key)
        if owner is None:
            return Done()
        unresolved = yield from resolve_unconfirmed(self._cache, owner)
        if unresolved is not None:
            return RequeueWithBackoff(unresolved)
        if self._counts(owner).unselected or any(map(facts.is_active, self._cache.candidates(key))):
            unclaimed = yield from claim(self._cache, key, is_relevant=facts.is_active)
            if unclaimed is not None:
                return RequeueWithBackoff(unclaimed)
        owner = self._cache.owner(key)
        if owner is None:
            return Done()
        problem, unfinished = None, False
        if "deletionTimestamp" not in owner["metadata"]:
            plan = plan_replicas(desired_replicas(owner), self._counts(owner).active, self._burst)
            problem = (
                yield from self._create_pods(owner, plan.create, now_s)
                if plan.create
                else self._delete_pods(owner, plan.delete, now_s)
            )
            unfinished = plan.unfinished
        return (yield from self._report(key, problem, unfinished, now_s))

    def _counts(self, owner: Object) -> ReplicaSetCounts:
        uid = owner["metadata"]["uid"]
        return self._counter.counts(uid, self._cache.dependents(uid), self._cache.is_terminating)

    def _create_pods(
        self, owner: Object, count: int, now_s: float
    ) -> Generator[Effect, EffectResponse, _Problem | None]:
        template, prefix = owner["spec"]["template"], facts.prefix_of(owner["metadata"]["name"])
        bodies = [
            facts.pod_from_template(template, owner, KIND, name, prefix=prefix) for name in self._names(owner, count)
        ]
        created = yield from create_dependents(self._cache, owner, bodies)
        if created.problem is None or created.stop:
            return None
        unknown = created.response is not None and created.response.unknown
        return _Problem(created.problem, None if unknown else failure(1, created.problem, format_time(now_s)))

    def _names(self, owner: Object, count: int) -> list[str]:
        prefix = facts.prefix_of(owner["metadata"]["name"])
        taken = {pod["metadata"]["name"] for pod in self._cache.dependents(owner["metadata"]["uid"]).values()}
        names: dict[str, None] = {}
        while len(names) < count:
            name = facts.generated_name(prefix, self._random_suffix())
            if name not in taken:
                names[name] = None
        return list(names)

    def _delete_pods(
        self, owner: Object, count: int, now_s: float
    ) -> Generator[Effect, EffectResponse, _Problem | None]:
        if not count:
            return None
        uid = owner["metadata"]["uid"]
        related = on_nodes(pod for each in self._related(uid) for pod in self._active(each))
        excess = pods_to_delete(self._active(uid), related, count, now_s)
        failed = yield from delete_dependents(self._cache, owner, excess)
        if failed is None:
            return None
        message = f"unable to delete pods: {failed}"
        return _Problem(message, failure(-1, message, format_time(now_s)))

    def _related(self, uid: str) -> Iterable[str]:
        parent = self._parents.get(uid)
        return () if parent is None else self._siblings[parent]

    def _active(self, owner_uid: str) -> list[Object]:
        dependents = self._cache.dependents(owner_uid)
        return [pod for uid, pod in dependents.items() if facts.is_active(pod) and not self._cache.is_terminating(uid)]

    def _report(self, key: Key, problem: _Problem | None, unfinished: bool, now_s: float) -> ReconcileSteps:
        owner = self._cache.owner(key)
        if owner is None:
            return Done()
        counts = self._counts(owner)
        new = status(owner, counts, None if problem is None else problem.condition, now_s)
        if differs(owner, new):
            body = {"metadata": {"uid": owner["metadata"]["uid"]}, "status": new}
            response = yield Patch(REPLICA_SETS, *key, body, how="merge", subresource="status")
            if response.ok:
                self._owner_applied(response.body)
            elif not response.missing and not response.conflict:
                return RequeueWithBackoff(response.message)
        if problem is not None:
            return RequeueWithBackoff(problem.message)
        return Done([Enqueue(key)]) if unfinished else self._result(owner, counts, now_s)

    @staticmethod
    def _result(owner: Object, counts: ReplicaSetCounts, now_s: float) -> Result:
        next_s = counts.next_available_s(min_ready_s(owner), now_s)
        return Done() if next_s is None else RequeueAfter(max(next_s, BATCH_S))
